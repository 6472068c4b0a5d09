//! Records round-trip, and modified records are rejected.

use filrouge_types::{
    Channel, IdentityId, ItemBody, ItemId, RawJson, RequestId, Role, SessionId, TenantId,
    Timestamp, TurnId, TurnStatus, Variant,
};
use proptest::prelude::*;

use super::*;
use crate::chain::GENESIS;
use crate::keyring::OsEntropy;

fn scope() -> LinkScope {
    LinkScope::new(&TenantId::new("t").unwrap(), &SessionId::new("s").unwrap())
}

fn ring() -> Keyring {
    Keyring::single([3; 32])
}

fn raw_json() -> impl Strategy<Value = RawJson> {
    ".{0,300}".prop_map(|t| RawJson::write(&[t]).unwrap())
}

fn optional<T: std::fmt::Debug>(
    inner: impl Strategy<Value = T>,
) -> impl Strategy<Value = Option<T>> {
    proptest::option::of(inner)
}

fn short() -> impl Strategy<Value = Box<str>> {
    ".{0,40}".prop_map(Into::into)
}

fn new_item() -> impl Strategy<Value = ItemBody> {
    let names = (
        optional("[a-z]{1,30}"),
        optional(short()),
        optional(short()),
    );
    let json = (raw_json(), optional(raw_json()), optional(raw_json()));
    let codes = (0..4_u8, 0..30_u8, 0..2_u8, optional(any::<i64>()));
    (names, json, codes).prop_map(|((id, agent, model), (parts, usage, metadata), codes)| {
        let (role, channel, variant, time) = codes;
        ItemBody {
            item_id: id.map(|id| ItemId::new(id).unwrap()),
            role: Role::from_code(role).unwrap(),
            channel: Channel::from_code(channel).unwrap_or_else(|| Channel::from_word("own")),
            variant: Variant::from_code(variant).unwrap(),
            parts,
            agent,
            model,
            usage,
            metadata,
            occurred_at: time.map(Timestamp::from_micros),
        }
    })
}

fn start_event() -> impl Strategy<Value = StartEvent> {
    let texts = (optional(short()), optional(short()), optional(short()));
    let rest = (
        optional("[a-z]{1,9}"),
        any::<[u8; 16]>(),
        optional(any::<[u8; 16]>()),
    );
    (
        "[a-z]{1,20}",
        rest,
        any::<bool>(),
        texts,
        optional(raw_json()),
    )
        .prop_map(
            |(request, (identity, fingerprint, replaces), translate_chat, texts, metadata)| {
                StartEvent {
                    request_id: RequestId::new(request).unwrap(),
                    identity_id: identity.map(|i| IdentityId::new(i).unwrap()),
                    fingerprint,
                    replaces: replaces.map(TurnId::from_bytes),
                    application: filrouge_types::Application {
                        translate_chat,
                        pipeline_name: texts.0,
                        consultant: texts.1,
                        repository: texts.2,
                    },
                    metadata,
                }
            },
        )
}

fn event() -> impl Strategy<Value = Event> {
    let close = (
        2..5_u8,
        any::<[u8; 16]>(),
        any::<bool>(),
        optional(raw_json()),
    )
        .prop_map(|(status, fingerprint, fallback, metadata)| CloseEvent {
            status: TurnStatus::from_code(status).unwrap(),
            fingerprint,
            fallback,
            metadata,
        });
    prop_oneof![
        start_event().prop_map(|e| Event::Start(Box::new(e))),
        close.prop_map(|e| Event::Close(Box::new(e))),
        Just(Event::Interrupt {}),
        Just(Event::Reopen {}),
        Just(Event::Redact(Seqs::from_ranges([(1, 1)]).unwrap())),
        Just(Event::Redacted(Seqs::from_ranges([(1, 1)]).unwrap())),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    (new_item(), proptest::collection::vec(event(), 0..3))
        .prop_map(|(item, events)| Entry { item, events })
}

/// Places a batch from seq `first` on; returns the rows and the last link.
fn place(batch: &Batch, first: u64, keyring: &Keyring) -> (Vec<RecordRow>, Link) {
    let scope = scope();
    let placement = RecordPlacement {
        scope: &scope,
        turn_id: Some(TurnId::from_derived([8; 16])),
        created_at: Timestamp::from_micros(-7),
        keyring,
    };
    let (mut seq, mut link, mut rows) = (first, GENESIS, Vec::new());
    for record in &batch.records {
        let (row, last) = placement.place(record, seq, link);
        seq += row.count;
        link = last;
        rows.push(row);
    }
    (rows, link)
}

fn read(row: &RecordRow) -> Result<Decoded, RecordFault> {
    decode(row, &scope(), &ring(), MacCheck::Keyed)
}

/// One record of three items; with `long`, large enough to be compressed.
fn sample(long: bool) -> RecordRow {
    let words = if long {
        "words ".repeat(100)
    } else {
        "w".to_owned()
    };
    let item = |n: u8| {
        let parts = RawJson::write(&[format!("{words}{n}")]).unwrap();
        Entry::from(ItemBody::new(Role::User, Channel::Question, parts))
    };
    let batch = Batch::pack(vec![item(1), item(2), item(3)], &OsEntropy).unwrap();
    place(&batch, 5, &ring()).0.remove(0)
}

fn texts(decoded: &Decoded) -> String {
    format!("{:?}", decoded.items)
}

/// Events without their fingerprints, which are stored salted.
fn unsalted(events: &[Event]) -> Vec<Event> {
    let mut events = events.to_vec();
    for event in &mut events {
        match event {
            Event::Start(e) => e.fingerprint = [0; 16],
            Event::Close(e) => e.fingerprint = [0; 16],
            _ => {}
        }
    }
    events
}

fn start_entry() -> Entry {
    let item = ItemBody::new(Role::User, Channel::Question, RawJson::from_checked("[]"));
    let event = StartEvent {
        request_id: RequestId::new("r").unwrap(),
        identity_id: None,
        fingerprint: [7; 16],
        replaces: None,
        application: filrouge_types::Application::default(),
        metadata: None,
    };
    Entry {
        item,
        events: vec![Event::Start(Box::new(event))],
    }
}

#[test]
fn a_stored_fingerprint_shows_nothing_without_its_salt() {
    let batch = Batch::pack(vec![start_entry()], &OsEntropy).unwrap();
    let again = Batch::pack(vec![start_entry()], &OsEntropy).unwrap();
    let stored = |batch: &Batch| {
        let (rows, _) = place(batch, 1, &ring());
        let (_, items) = decode_chained(&rows[0], &scope(), &ring(), MacCheck::Keyed).unwrap();
        match (&items[0].events[0], items[0].proof) {
            (Event::Start(e), CommitmentProof::Salt(salt)) => (e.fingerprint, salt),
            other => panic!("{other:?}"),
        }
    };
    let ((one, salt), (other, _)) = (stored(&batch), stored(&again));
    let Event::Start(original) = &start_entry().events[0] else {
        panic!("no start")
    };
    assert_ne!(one, other);
    assert_ne!(one, original.fingerprint);
    assert_eq!(one, salted(&original.fingerprint, &salt));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn sealed_entries_round_trip(entries in proptest::collection::vec(entry(), 1..90), first in 1..1_u64 << 40) {
        // A redaction names earlier items, so seq 1 is impossible for it.
        let first = first + 1;
        let batch = Batch::pack(entries.clone(), &OsEntropy).unwrap();
        prop_assert_eq!(batch.count(), entries.len() as u64);
        let (rows, last) = place(&batch, first, &ring());
        let (mut next, mut link, mut all) = (first, GENESIS, Vec::new());
        for row in &rows {
            prop_assert_eq!(row.first_seq, next);
            let decoded = read(row).unwrap();
            prop_assert_eq!(decoded.previous_link, link);
            (next, link) = (row.last_seq() + 1, decoded.last_link);
            all.extend(decoded.items);
        }
        prop_assert_eq!(link, last);
        prop_assert_eq!(all.len(), entries.len());
        for ((entry, (item, events)), seq) in entries.iter().zip(&all).zip(first..) {
            prop_assert_eq!(unsalted(&entry.events), unsalted(events));
            prop_assert_eq!((item.seq, &item.body.parts, &item.body.item_id), (seq, &entry.item.parts, &entry.item.item_id));
            prop_assert_eq!((&item.body.usage, &item.body.metadata), (&entry.item.usage, &entry.item.metadata));
            prop_assert_eq!((&item.body.agent, &item.body.model), (&entry.item.agent, &entry.item.model));
            prop_assert_eq!((item.body.role, &item.body.channel, item.body.variant), (entry.item.role, &entry.item.channel, entry.item.variant));
            prop_assert_eq!(item.body.occurred_at, entry.item.occurred_at);
        }
        for (n, sealed) in batch.items().enumerate() {
            prop_assert!(is_repeated(sealed, &all[n].0));
        }
    }

    #[test]
    fn arbitrary_bytes_are_refused(head: Vec<u8>, body: Vec<u8>, first_seq: u64, count: u64) {
        let row = RecordRow { first_seq, count, head, body };
        prop_assert!(read(&row).is_err());
    }

    #[test]
    fn arbitrary_changes_are_refused(long: bool, part in 0..2_u8, at: prop::sample::Index, bytes: Vec<u8>) {
        let good = sample(long);
        let mut row = good.clone();
        let target = if part == 0 { &mut row.head } else { &mut row.body };
        let at = at.index(target.len());
        let end = (at + bytes.len()).min(target.len());
        target.splice(at..end, bytes);
        if row != good {
            match read(&row) {
                Err(_) => {}
                // Only unused bits of a compressed frame may differ.
                Ok(decoded) => prop_assert!(long && part == 1 && texts(&decoded) == texts(&read(&good).unwrap())),
            }
        }
    }
}

#[test]
fn every_flipped_bit_is_refused() {
    for long in [false, true] {
        let good = sample(long);
        let expected = texts(&read(&good).unwrap());
        for bit in 0..good.head.len() * 8 {
            let mut row = good.clone();
            row.head[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&row).is_err(), "head bit {bit}");
        }
        for bit in 0..good.body.len() * 8 {
            let mut row = good.clone();
            row.body[bit / 8] ^= 1 << (bit % 8);
            match read(&row) {
                Err(_) => {}
                Ok(decoded) => assert!(long && texts(&decoded) == expected, "body bit {bit}"),
            }
        }
        for bit in 0..64 {
            let (mut moved, mut counted) = (good.clone(), good.clone());
            moved.first_seq ^= 1 << bit;
            counted.count ^= 1 << bit;
            assert!(
                read(&moved).is_err() && read(&counted).is_err(),
                "bit {bit} of seq or count"
            );
        }
    }
}

#[test]
fn a_forged_length_allocates_no_memory() {
    let mut head = sample(true).head;
    // The unpacked length follows eight fixed bytes.
    let rest = head.split_off(8);
    let rest = &rest[rest.iter().position(|b| b & 0x80 == 0).unwrap() + 1..];
    for len in [1 << 62, u64::MAX, (256 << 20) + 1] {
        let mut forged = head.clone();
        forged.number(len);
        forged.extend_from_slice(rest);
        let row = RecordRow {
            head: forged,
            ..sample(true)
        };
        assert_eq!(read(&row).unwrap_err().kind, RecordFaultKind::Malformed);
    }
}

#[test]
fn a_record_is_bound_to_its_session_and_key() {
    let row = sample(false);
    let other = LinkScope::new(
        &TenantId::new("t").unwrap(),
        &SessionId::new("other").unwrap(),
    );
    let swapped = decode(&row, &other, &ring(), MacCheck::Keyed).unwrap_err();
    assert_eq!(
        swapped,
        RecordFault {
            seq: 5,
            kind: RecordFaultKind::Mac
        }
    );
    let stranger = Keyring::single([4; 32]);
    assert_eq!(
        decode(&row, &scope(), &stranger, MacCheck::Keyed)
            .unwrap_err()
            .kind,
        RecordFaultKind::Mac
    );
    let without = Keyring::new([(2, [3; 32])].into(), 2).unwrap();
    assert_eq!(
        decode(&row, &scope(), &without, MacCheck::Keyed)
            .unwrap_err()
            .kind,
        RecordFaultKind::KeyMissing(1)
    );
    assert!(decode(&row, &scope(), &without, MacCheck::Unverified).is_ok());
}

#[test]
fn salts_make_equal_contents_differ() {
    let entry = vec![Entry::from(ItemBody::new(
        Role::User,
        Channel::Question,
        RawJson::parse("[]").unwrap(),
    ))];
    let one = Batch::pack(entry.clone(), &OsEntropy).unwrap();
    let two = Batch::pack(entry, &OsEntropy).unwrap();
    assert_ne!(
        one.records[0].items[0].commitment,
        two.records[0].items[0].commitment
    );
}
