//! Redacting a record removes contents and keeps links and all other data.

use filrouge_types::{
    Channel, ItemBody, RawJson, Role, SessionId, TenantId, Timestamp, TurnId, Variant,
};
use proptest::prelude::*;

use super::*;
use crate::chain::GENESIS;
use crate::keyring::OsEntropy;

const FIRST: u64 = 5;
const REDACTION: u64 = 700;

fn scope() -> LinkScope {
    LinkScope::new(&TenantId::new("t").unwrap(), &SessionId::new("s").unwrap())
}

/// Two keys; `active` signs.
fn ring(active: KeyId) -> Keyring {
    Keyring::new([(1, [3; 32]), (2, [4; 32])].into(), active).unwrap()
}

/// One record with items of these lengths.
fn record(lengths: &[usize], turn_id: Option<TurnId>) -> RecordRow {
    let entry = |(n, length): (usize, &usize)| {
        let parts = RawJson::write(&[format!("{n}{}", "words ".repeat(*length))]).unwrap();
        let item = ItemBody {
            variant: Variant::Translated,
            agent: Some("agent".into()),
            ..ItemBody::new(Role::Tool, Channel::ToolResult, parts)
        };
        Entry {
            item,
            events: vec![Event::Interrupt {}],
        }
    };
    let entries: Vec<Entry> = lengths.iter().enumerate().map(entry).collect();
    let batch = Batch::pack(entries.clone(), &OsEntropy).unwrap();
    assert_eq!(batch.records.len(), 1);
    let (scope, keyring) = (scope(), ring(1));
    let placement = RecordPlacement {
        scope: &scope,
        turn_id,
        created_at: Timestamp::from_micros(12),
        keyring: &keyring,
    };
    placement.place(&batch.records[0], FIRST, GENESIS).0
}

fn read(row: &RecordRow) -> Result<Decoded, RecordFault> {
    decode(row, &scope(), &ring(2), MacCheck::Keyed)
}

fn erase(row: &RecordRow, named: &Seqs, by: u64) -> Option<RecordRow> {
    erase_contents(row, &read(row).unwrap(), named, by, &ring(2)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn erasing_removes_contents_and_keeps_links(
        lengths in proptest::collection::vec(0..60_usize, 1..40),
        named in proptest::collection::vec((FIRST..FIRST + 44, 0..4_u64), 1..5),
        some_turn: bool,
    ) {
        let row = record(&lengths, some_turn.then(|| TurnId::from_bytes([9; 16])));
        let named = Seqs::from_ranges(named.iter().map(|(first, more)| (*first, first + more))).unwrap();
        let before = read(&row).unwrap();
        let Some(new) = erase(&row, &named, REDACTION) else {
            prop_assert!(before.items.iter().all(|(i, _)| !named.contains(i.seq)));
            return Ok(());
        };
        let after = read(&new).unwrap();
        prop_assert_eq!((after.previous_link, after.last_link), (before.previous_link, before.last_link));
        prop_assert_eq!((new.first_seq, new.count), (row.first_seq, row.count));
        let mut pointers = Vec::new();
        for ((old, old_events), (new, events)) in before.items.into_iter().zip(after.items) {
            prop_assert_eq!(old_events, events);
            if named.contains(old.seq) {
                pointers.push((old.seq, REDACTION));
                prop_assert_eq!(new.body.parts.as_str(), "[]");
                let mut bare = filrouge_types::Item { redacted: true, ..old };
                bare.body.parts = new.body.parts.clone();
                prop_assert_eq!(bare, new);
            } else {
                prop_assert_eq!(old, new);
            }
        }
        prop_assert_eq!(after.redacted, pointers);
        prop_assert_eq!(erase(&new, &named, REDACTION + 1), None, "nothing is left to erase");
    }

    #[test]
    fn an_earlier_erasure_keeps_its_redaction(split in FIRST..FIRST + 9) {
        let row = record(&[30; 10], None);
        let one = erase(&row, &Seqs::from_ranges([(FIRST, split)]).unwrap(), REDACTION).unwrap();
        let all = erase(&one, &Seqs::from_ranges([(1, 99)]).unwrap(), REDACTION + 1).unwrap();
        for (seq, by) in read(&all).unwrap().redacted {
            prop_assert_eq!(by, if seq <= split { REDACTION } else { REDACTION + 1 });
        }
        prop_assert_eq!(read(&all).unwrap().last_link, read(&row).unwrap().last_link);
    }
}

#[test]
fn every_flipped_bit_of_an_erased_record_is_refused_or_points_elsewhere() {
    let row = record(&[4, 2], None);
    let good = erase(
        &row,
        &Seqs::from_ranges([(FIRST, FIRST)]).unwrap(),
        REDACTION,
    )
    .unwrap();
    let expected = read(&good).unwrap();
    for bit in 0..(good.head.len() + good.body.len()) * 8 {
        let mut row = good.clone();
        match (bit / 8).checked_sub(row.head.len()) {
            None => row.head[bit / 8] ^= 1 << (bit % 8),
            Some(at) => row.body[at] ^= 1 << (bit % 8),
        }
        // The pointer is not authenticated: readers check its target.
        if let Ok(read) = read(&row) {
            assert_ne!(read.redacted, expected.redacted, "bit {bit}");
            assert_eq!(format!("{:?}", read.items), format!("{:?}", expected.items));
        }
    }
}

#[test]
fn a_redaction_names_only_earlier_items() {
    let keyring = ring(1);
    let scope = scope();
    for (last, fits) in [(FIRST - 1, true), (FIRST, false), (FIRST + 1, false)] {
        let item = ItemBody::new(
            Role::System,
            Channel::Redaction,
            RawJson::from_checked("[]"),
        );
        let events = vec![Event::Redact(Seqs::from_ranges([(2, last)]).unwrap())];
        let batch = Batch::pack(vec![Entry { item, events }], &OsEntropy).unwrap();
        let placement = RecordPlacement {
            scope: &scope,
            turn_id: None,
            created_at: Timestamp::from_micros(1),
            keyring: &keyring,
        };
        let (row, _) = placement.place(&batch.records[0], FIRST, GENESIS);
        assert_eq!(read(&row).is_ok(), fits, "{last}");
    }
}
