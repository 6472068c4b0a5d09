//! Rows round-trip, and their MACs detect changes.

use std::time::Duration;

use filrouge_types::{Checkpoint, SessionId, TenantId, Timestamp, TurnId, TurnStatus};
use proptest::prelude::*;

use super::*;
use crate::digest::MaskedDigest;
use crate::keyring::Keyring;

mod heads;

fn test_keyring() -> Keyring {
    Keyring::new([(1, [1; 32]), (2, [2; 32])].into(), 2).unwrap()
}

fn head() -> impl Strategy<Value = HeadRow> {
    let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
    let lease = ("[a-z]{0,9}", 0..9_u64, any::<i64>());
    let lease = lease.prop_map(|(holder, fence, at)| match fence {
        0 => HeadLease::default(),
        fence => HeadLease {
            fence: fence << (fence * 6),
            server: holder.as_str().into(),
            holder: holder.into(),
            expires_at: Timestamp::from_micros(at),
            ttl: Duration::from_micros(fence),
            since: Timestamp::from_micros(at.wrapping_sub(7)),
        },
    });
    let checkpoints = proptest::collection::btree_map(any::<u32>(), any::<[u8; 4]>(), 0..4);
    let checkpoints = (checkpoints, any::<u16>(), any::<bool>());
    let checkpoints = checkpoints.prop_map(|(tags, redacted, are_named)| {
        let named = tags.into_iter().map(|(seq, tag)| {
            let seq = u64::from(seq);
            NamedCheckpoint { seq, tag }
        });
        let mut checkpoints = HeadCheckpoints::default();
        checkpoints.set(named.collect());
        if !are_named {
            checkpoints.named.clear();
        }
        checkpoints.redacted = u64::from(redacted % 999);
        checkpoints
    });
    let summaries = proptest::collection::vec(1..SEQ_MAX, 0..9);
    let extension = (lease, checkpoints, summaries, any::<bool>());
    (
        numbers,
        any::<[u8; 32]>(),
        any::<i64>(),
        any::<[u8; 16]>(),
        extension,
    )
        .prop_map(
            |(n, link, at, session, (lease, checkpoints, summaries, adopted))| HeadRow {
                lease,
                checkpoints,
                summaries,
                adopted,
                last_seq: n.0,
                turn_count: n.1,
                turn_rows: n.2,
                open_turns: n.3,
                link,
                ..HeadRow::empty(session, Timestamp::from_micros(at))
            },
        )
}

fn turn() -> impl Strategy<Value = TurnRow> {
    let place = (1..=ORDINAL_MAX, 1..=VERSION_MAX);
    let seqs = (
        1..SEQ_MAX / 2,
        0..SEQ_MAX / 2,
        any::<u64>(),
        any::<[bool; 2]>(),
    );
    let optional = || prop_oneof![Just(0), 1..SEQ_MAX / 2];
    let time_and_redaction = (any::<i64>(), optional(), optional());
    (any::<[u8; 16]>(), place, 0..5_u8, seqs, time_and_redaction).prop_map(
        |(id, place, status, seqs, (at, redacted_by, late))| {
            let (first, span, items, finals) = seqs;
            let now = Timestamp::from_micros(at);
            TurnRow {
                status: TurnStatus::from_code(status).unwrap(),
                last_seq: first + span,
                late_seq: if late == 0 { 0 } else { first + span + late },
                items,
                redacted_by,
                finals: finals.map(|exists| if exists { first + span / 2 } else { 0 }),
                ..TurnRow::new(TurnId::from_bytes(id), place.0, place.1, first, now)
            }
        },
    )
}

fn entry() -> impl Strategy<Value = LogEntry> {
    let name = ("[a-z]{1,9}", ".{1,20}", any::<[u8; 16]>());
    let created = name.prop_map(|(t, s, owner)| {
        let name = TenantId::new(t).ok().zip(SessionId::new(s).ok());
        name.map_or(Change::Items, |(t, s)| Change::Created(t, s, owner))
    });
    let change = prop_oneof![
        Just(Change::Items),
        created,
        any::<[u8; 16]>().prop_map(Change::Linked),
        Just(Change::Patched),
        Just(Change::Erased),
        Just(Change::Event),
        Just(Change::Draft),
        Just(Change::Lease),
        Just(Change::Checkpoint),
        ".{0,20}".prop_map(|name| Change::Note(name.into())),
    ];
    (
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
        any::<[u8; 8]>(),
        change,
    )
        .prop_map(|(pk, first_seq, count, head, change)| LogEntry {
            pk,
            first_seq,
            count,
            head,
            change,
        })
}

#[test]
fn a_head_with_too_many_summaries_is_refused() {
    let row = HeadRow {
        summaries: (1..=8).collect(),
        ..HeadRow::default()
    };
    let mut bytes = row.sealed(&test_keyring(), 1).encode();
    // The number of summaries, before eight of one byte and the MAC.
    let count = bytes.len() - 16 - 8 - 1;
    assert_eq!(bytes[count], 8);
    bytes[count] = 24;
    assert_eq!(HeadRow::decode(&bytes), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn heads_round_trip_and_detect_changes(row in head(), pk in 1..PK_MAX, bit: prop::sample::Index) {
        let row = row.sealed(&test_keyring(), pk);
        let bytes = row.encode();
        prop_assert_eq!(HeadRow::decode(&bytes), Some(row.clone()));
        prop_assert_eq!(row.mac_matches(&test_keyring(), pk), Some(true));
        prop_assert_eq!(row.mac_matches(&test_keyring(), pk + 1), Some(false));
        prop_assert_eq!(row.mac_matches(&Keyring::single([1; 32]), pk), None);
        let mut changed = bytes.clone();
        let bit = bit.index(bytes.len() * 8);
        changed[bit / 8] ^= 1 << (bit % 8);
        if let Some(row) = HeadRow::decode(&changed) {
            prop_assert_ne!(row.mac_matches(&test_keyring(), pk), Some(true), "bit {}", bit);
        }
    }

    #[test]
    fn events_round_trip_and_detect_changes(texts in (".{1,9}", ".{0,9}"), times: (i64, i64), detail: bool, number in 1..9_u64, bit: prop::sample::Index) {
        let Ok(key) = EventKey::new(texts.0.as_str()) else { return Ok(()) };
        let event = filrouge_types::SessionEvent {
            key,
            kind: texts.1.into(),
            at: Timestamp::from_micros(times.0),
            detail: detail.then(|| RawJson::from_checked("{}")),
            created_at: Timestamp::from_micros(times.1),
        };
        let row = EventRow::sealed(number, event, &test_keyring(), 3);
        let bytes = row.encode();
        prop_assert_eq!(EventRow::decode(number, &bytes), Some(row.clone()));
        prop_assert_eq!(row.mac_matches(&test_keyring(), 3), Some(true));
        prop_assert_eq!(row.mac_matches(&test_keyring(), 4), Some(false));
        prop_assert_eq!(row.mac_matches(&Keyring::single([1; 32]), 3), None);
        let moved = EventRow::decode(number + 1, &bytes).unwrap();
        prop_assert_eq!(moved.mac_matches(&test_keyring(), 3), Some(false));
        let mut changed = bytes;
        let bit = bit.index(changed.len() * 8);
        changed[bit / 8] ^= 1 << (bit % 8);
        if let Some(row) = EventRow::decode(number, &changed) {
            prop_assert_ne!(row.mac_matches(&test_keyring(), 3), Some(true), "bit {}", bit);
        }
    }

    #[test]
    fn checkpoints_round_trip_and_detect_changes(label in proptest::option::of(".{0,9}"), text in ".{0,9}", at: i64, seq in 0..SEQ_MAX, bit: prop::sample::Index) {
        let checkpoint = Checkpoint {
            seq,
            label: label.map(Into::into),
            state: RawJson::from_checked(format!("{{\"s\":{text:?}}}")),
            created_at: Timestamp::from_micros(at),
        };
        let row = CheckpointRow::sealed(checkpoint, &test_keyring(), 3);
        let bytes = row.encode();
        prop_assert_eq!(CheckpointRow::decode(seq, &bytes), Some(row.clone()));
        prop_assert_eq!(row.mac_matches(&test_keyring(), 3), Some(true));
        prop_assert_eq!(row.mac_matches(&test_keyring(), 4), Some(false));
        prop_assert_eq!(row.mac_matches(&Keyring::single([1; 32]), 3), None);
        let moved = CheckpointRow::decode(seq + 1, &bytes).unwrap();
        prop_assert_eq!(moved.mac_matches(&test_keyring(), 3), Some(false));
        let mut changed = bytes;
        let bit = bit.index(changed.len() * 8);
        changed[bit / 8] ^= 1 << (bit % 8);
        if let Some(row) = CheckpointRow::decode(seq, &changed) {
            prop_assert_ne!(row.mac_matches(&test_keyring(), 3), Some(true), "bit {}", bit);
        }
    }

    #[test]
    fn notes_round_trip_and_detect_changes(name in ".{0,9}", version in 1..u64::MAX, value: Vec<u8>, bit: prop::sample::Index) {
        let row = NoteRow::sealed(name.as_str().into(), version, value, &test_keyring());
        let bytes = row.encode();
        prop_assert_eq!(NoteRow::decode(&name, &bytes), Some(row.clone()));
        prop_assert_eq!(row.mac_matches(&test_keyring()), Some(true));
        prop_assert_eq!(row.mac_matches(&Keyring::single([1; 32])), None);
        let renamed = NoteRow::decode("another name", &bytes).unwrap();
        prop_assert_eq!(renamed.mac_matches(&test_keyring()), Some(false));
        let mut changed = bytes;
        let bit = bit.index(changed.len() * 8);
        changed[bit / 8] ^= 1 << (bit % 8);
        if let Some(row) = NoteRow::decode(&name, &changed) {
            prop_assert_ne!(row.mac_matches(&test_keyring()), Some(true), "bit {}", bit);
        }
    }

    #[test]
    fn tombstones_round_trip(at: i64, owner: [u8; 16], items: u64, turns: u64, cut: prop::sample::Index) {
        let erased = Erased { at: Timestamp::from_micros(at), owner, items, turns };
        let bytes = erased.encode();
        prop_assert_eq!(Erased::decode(&bytes), Some(erased));
        prop_assert_eq!(Erased::decode(&bytes[..cut.index(bytes.len())]), None);
        prop_assert_eq!(Erased::decode(&[bytes.as_slice(), &[0]].concat()), None);
    }

    #[test]
    fn turns_round_trip_and_detect_changes(row in turn(), pk in 1..PK_MAX, bit: prop::sample::Index) {
        let row = row.sealed(&test_keyring(), pk);
        let bytes = row.encode();
        let (id, place) = (row.turn_id, row.place());
        prop_assert_eq!(TurnRow::decode(id, place, &bytes), Some(row.clone()));
        prop_assert_eq!(row.mac_matches(&test_keyring(), pk), Some(true));
        prop_assert_eq!(row.mac_matches(&test_keyring(), pk + 1), Some(false));
        for (id, place) in [(TurnId::from_bytes([0; 16]), place), (id, place ^ 1), (id, place ^ 256)] {
            let moved = TurnRow::decode(id, place, &bytes).unwrap();
            prop_assert_eq!(moved.mac_matches(&test_keyring(), pk), Some(false));
        }
        let mut changed = bytes.clone();
        let bit = bit.index(bytes.len() * 8);
        changed[bit / 8] ^= 1 << (bit % 8);
        if let Some(row) = TurnRow::decode(id, place, &changed) {
            prop_assert_ne!(row.mac_matches(&test_keyring(), pk), Some(true), "bit {}", bit);
        }
    }

    #[test]
    fn commits_round_trip_and_detect_changes(entries in proptest::collection::vec(entry(), 0..5), at: i64, digest: [[u8; 12]; 3], bit: prop::sample::Index) {
        let (keyring, at, digest) = (test_keyring(), Timestamp::from_micros(at), MaskedDigest::from_bytes(digest.concat().try_into().unwrap()));
        let lane = Lane::new(2);
        let first = LogRow::after(None, lane, at, &entries, digest, &keyring);
        let row = LogRow::after(Some(&first), lane, at, &entries, digest, &keyring);
        prop_assert_eq!((first.commit_no, row.commit_no), (1, 2));
        prop_assert_eq!((first.lane, row.lane), (lane, lane));
        let bytes = row.encode();
        prop_assert_eq!(LogRow::decode(lane, 2, &bytes), Some(row.clone()));
        prop_assert_eq!(row.entries(), Some(entries));
        prop_assert_eq!(row.follows(Some(&first), &keyring), Some(true));
        prop_assert_eq!(first.follows(None, &keyring), Some(true));
        prop_assert_eq!(row.follows(None, &keyring), Some(false));
        prop_assert_eq!(LogRow::decode(lane, 3, &bytes).unwrap().follows(Some(&row), &keyring), Some(false));
        // A commit is valid in its own lane only, even one without a predecessor.
        let moved = |row: &LogRow| LogRow::decode(Lane::new(3), row.commit_no, &row.encode()).unwrap();
        prop_assert_eq!(moved(&row).follows(Some(&first), &keyring), Some(false));
        prop_assert_eq!(moved(&first).follows(None, &keyring), Some(false));
        let mut changed = bytes.clone();
        let bit = bit.index(bytes.len() * 8);
        changed[bit / 8] ^= 1 << (bit % 8);
        if let Some(row) = LogRow::decode(lane, 2, &changed) {
            prop_assert_ne!(row.follows(Some(&first), &keyring), Some(true), "bit {}", bit);
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>, place: u64) {
        let _ = HeadRow::decode(&bytes);
        let _ = TurnRow::decode(TurnId::from_bytes([0; 16]), place, &bytes);
        let _ = CheckpointRow::decode(place, &bytes);
        let _ = LogRow::decode(Lane::FIRST, place, &bytes).map(|row| row.entries());
    }
}

#[test]
fn an_agents_mac_covers_its_name_and_its_session() {
    let keyring = test_keyring();
    let bytes = AgentRow::sealed("planner", &keyring, 1).encode();
    let matches = |agent: &str, pk| {
        let row = AgentRow::decode(agent, &bytes).unwrap();
        row.mac_matches(&keyring, pk)
    };
    assert_eq!(matches("planner", 1), Some(true));
    for (agent, pk) in [("planner", 2), ("planne", 1), ("", 1), ("Planner", 1)] {
        assert_eq!(matches(agent, pk), Some(false), "{agent} of session {pk}");
    }
    assert_eq!(AgentRow::decode("planner", &bytes[1..]), None);
}

#[test]
fn a_session_rows_fingerprint_covers_every_column() {
    let row = || SessionRow {
        tenant_id: TenantId::new("t").unwrap(),
        session_id: SessionId::new("s").unwrap(),
        identity_id: None,
        parent_session_id: None,
        project_id: None,
        team_id: None,
        title: None,
        status: SessionStatus::Active,
        state: None,
        metadata: RawJson::from_checked("{}"),
        created_at: Timestamp::from_micros(1),
        token: None,
        erased: None,
    };
    let erased = |items| Erased {
        at: Timestamp::from_micros(1),
        owner: [0; 16],
        items,
        turns: 0,
    };
    let empty = || Some("".into());
    let changed = [
        SessionRow {
            tenant_id: TenantId::new("u").unwrap(),
            ..row()
        },
        SessionRow {
            session_id: SessionId::new("z").unwrap(),
            ..row()
        },
        SessionRow {
            identity_id: IdentityId::new("i").ok(),
            ..row()
        },
        SessionRow {
            parent_session_id: SessionId::new("i").ok(),
            ..row()
        },
        SessionRow {
            project_id: ProjectId::new("i").ok(),
            ..row()
        },
        SessionRow {
            team_id: empty(),
            ..row()
        },
        SessionRow {
            title: empty(),
            ..row()
        },
        SessionRow {
            state: empty(),
            ..row()
        },
        SessionRow {
            status: SessionStatus::Paused,
            ..row()
        },
        SessionRow {
            metadata: RawJson::from_checked("{ }"),
            ..row()
        },
        SessionRow {
            created_at: Timestamp::from_micros(2),
            ..row()
        },
        SessionRow {
            token: Some(SessionToken([0; 16])),
            ..row()
        },
        SessionRow {
            token: Some(SessionToken([1; 16])),
            ..row()
        },
        SessionRow {
            erased: Some(erased(0)),
            ..row()
        },
        SessionRow {
            erased: Some(erased(1)),
            ..row()
        },
        row(),
    ];
    let fingerprints: std::collections::BTreeSet<_> =
        changed.iter().map(SessionRow::fingerprint).collect();
    assert_eq!(fingerprints.len(), changed.len());
}

/// Formats 2 and 3 are format 1 with an additional number: the seq of the redaction, or the distance of the newest late
/// item. Format 4 has both.
#[test]
fn a_turn_that_is_redacted_or_has_late_items_is_encoded_in_formats_2_to_4() {
    let now = Timestamp::from_micros(7);
    let row = TurnRow::new(TurnId::from_bytes([1; 16]), 1, 1, 5, now).sealed(&test_keyring(), 1);
    let bytes = row.encode();
    assert_eq!(bytes[..6], [1, 0, 0, 0, 2, 0]);
    assert_eq!(bytes.len(), 1 + 4 + 1 + 3 + 2 + 8 + 16);
    let redacted = TurnRow {
        redacted_by: 300,
        ..row.clone()
    };
    let redacted = redacted.sealed(&test_keyring(), 1).encode();
    assert_eq!((redacted[0], redacted.len()), (2, bytes.len() + 2));
    assert_eq!(redacted[1..11], bytes[1..11]);
    assert_eq!(redacted[11..13], [0xac, 2]);
    let late = TurnRow {
        late_seq: row.last_seq + 300,
        ..row.clone()
    };
    let encoded = late.clone().sealed(&test_keyring(), 1).encode();
    let unsigned = |bytes: &[u8]| bytes[1..bytes.len() - 16].to_vec();
    assert_eq!(encoded[0], 3);
    assert_eq!(unsigned(&encoded), unsigned(&redacted));
    let both = TurnRow {
        redacted_by: 300,
        ..late
    };
    let both = both.sealed(&test_keyring(), 1).encode();
    assert_eq!((both[0], &both[11..15]), (4, &[0xac, 2, 0xac, 2][..]));
    for mut without_number in [redacted, encoded] {
        without_number.splice(11..13, [0]);
        assert_eq!(
            TurnRow::decode(row.turn_id, row.place(), &without_number),
            None
        );
    }
}

/// Format 3 is format 1 with lease and checkpoints; format 4 is the same for an adopted session.
#[test]
fn a_commit_of_only_drafts_is_recognized() {
    let keyring = Keyring::single([1; 32]);
    let has_only_drafts = |changes: &[Change]| {
        let entry = |change: &Change| LogEntry {
            pk: 1,
            first_seq: 0,
            count: 0,
            head: [0; 8],
            change: change.clone(),
        };
        let entries: Vec<LogEntry> = changes.iter().map(entry).collect();
        let at = Timestamp::from_micros(0);
        LogRow::after(
            None,
            Lane::FIRST,
            at,
            &entries,
            MaskedDigest::from_bytes([0; 36]),
            &keyring,
        )
        .has_only_drafts()
    };
    assert!(has_only_drafts(&[Change::Draft]));
    assert!(has_only_drafts(&[Change::Draft, Change::Draft]));
    for changes in [
        vec![],
        vec![Change::Items],
        vec![Change::Draft, Change::Items],
        vec![Change::Note("n".into()), Change::Draft],
    ] {
        assert!(!has_only_drafts(&changes), "{changes:?}");
    }
}
