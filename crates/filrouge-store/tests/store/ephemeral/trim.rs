//! The oldest turns are dropped when a session has too many turns or bytes, and the rest stays consistent.

use std::sync::Arc;

use filrouge_store::command::{RedactionTarget, Scope, Write};
use filrouge_store::contract::differential::session_readings;
use filrouge_store::contract::fixture::{
    anyone, append, code, finalize, interrupt, keyed, redact, redact_items, replacement, sid,
    start_with,
};
use filrouge_store::contract::session_writes::{erase, event, link};
use filrouge_store::contract::{Fixture, SameEntropy};
use filrouge_store::hot::{FieldRetention, HotBounds, HotStore};
use filrouge_store::read::{TurnOrder, TurnQuery};
use filrouge_types::{Channel, ErrorCode, Failure, Turn, TurnId};

use crate::ephemeral::store::Store;

async fn turns(f: &Fixture, who: &Scope, order: TurnOrder, limit: usize) -> Vec<Turn> {
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let query = TurnQuery {
            order,
            limit,
            cursor,
            ..TurnQuery::default()
        };
        let (mut page, next) = f.ledger.turns(who, &sid("s0"), query).await.unwrap();
        if order == TurnOrder::Newest {
            page.reverse();
        }
        all.extend(page);
        cursor = next;
        if cursor.is_none() {
            return all;
        }
    }
}

/// Reads as a restore does: turn rows from the newest back, then the items. Returns the ordinals and the seqs.
async fn read_for_restore(f: &Fixture, who: &Scope) -> Result<(Vec<u64>, Vec<u64>), Failure> {
    let id = sid("s0");
    let ordinals_and_seqs = f.ledger.query_session(who, &id, |snapshot, scope, id| {
        let session = snapshot.get(scope, id)?;
        let (mut rows, mut before) = (Vec::new(), None);
        loop {
            let page = snapshot.turn_rows_descending(&session, before, 2)?;
            let Some(last) = page.last() else { break };
            before = Some(last.place());
            rows.extend(page.iter().map(|row| row.ordinal));
        }
        let mut max_bytes = 1 << 20;
        let items = snapshot.items_between(&session, 1, session.head.last_seq, &mut max_bytes)?;
        Ok((rows, items.iter().map(|i| i.seq).collect()))
    });
    ordinals_and_seqs.await
}

#[tokio::test]
async fn turns_beyond_the_limit_are_dropped() {
    let (store, who) = (Store::with_max_turns(5), anyone());
    let (process, f) = store.process_and_fixture();
    let mut created = Vec::new();
    for n in 0..8 {
        let start = start_with(&who, "s0", &format!("r{n}"), "q", Some("a"), |_, items| {
            items.insert(1, keyed(&format!("k{n}"), "seen"));
        });
        created.push(f.try_start(&who, start).await.unwrap());
    }
    assert_eq!(process.counts().trimmed_turns, 3);
    let session = f.session(&who, "s0").await.unwrap();
    assert_eq!((session.turn_count, session.last_seq), (8, 24));
    for f in [&f, &store.fixture()] {
        for limit in [1, 2, 5, 50] {
            assert_eq!(turns(f, &who, TurnOrder::Oldest, limit).await, created[3..]);
            let mut newest = turns(f, &who, TurnOrder::Newest, limit).await;
            newest.reverse();
            assert_eq!(newest, created[3..]);
            let items = f.items(&who, "s0", limit).await;
            assert_eq!(
                items.iter().map(|i| i.seq).collect::<Vec<_>>(),
                (10..=24).collect::<Vec<_>>()
            );
        }
        let (rows, items) = read_for_restore(f, &who).await.unwrap();
        assert_eq!(rows, [8, 7, 6, 5, 4]);
        assert_eq!(items, (10..=24).collect::<Vec<_>>());
    }
    assert_eq!(
        session_readings(&f).await,
        session_readings(&store.fixture()).await
    );
    let (old, kept) = (created[2].turn_id, created[3].turn_id);
    for write in [
        finalize("s0", old, Some("a")),
        append("s0", old, vec![keyed("new", "x")], None),
        redact("s0", RedactionTarget::Turn(old)),
        interrupt("s0", old, i64::MAX),
        replacement(&who, "s0", "other", old, "w"),
    ] {
        assert_eq!(code(f.write(&who, write).await), ErrorCode::TurnExpired);
    }
    let read = async |id: TurnId| f.ledger.turn(&who, &sid("s0"), id).await;
    assert_eq!(code(read(old).await), ErrorCode::TurnExpired);
    assert_eq!(read(kept).await.unwrap(), created[3]);
    // The key of a dropped item is free; the key of a remaining item is not.
    let keyed_start = |request: &str, key: &str| {
        start_with(&who, "s0", request, "q", None, |_, items| {
            items.push(keyed(key, "x"));
        })
    };
    let taken = f.try_start(&who, keyed_start("r8", "k3")).await;
    assert_eq!(code(taken), ErrorCode::IdempotencyMismatch);
    f.try_start(&who, keyed_start("r8", "k2")).await.unwrap();
    // A retry of a remaining turn is a replay; a retry of a dropped one starts it again.
    assert!(f.complete_turn(&who, "s0", "r7", "a").await.replayed);
    let again = f.complete_turn(&who, "s0", "r0", "a").await;
    assert_eq!(
        (again.turn_id, again.ordinal, again.replayed),
        (created[0].turn_id, 10, false)
    );
}

/// A dropped open turn leaves items among those of later turns: they are shown and can be redacted, but are not adopted
/// at a login.
#[tokio::test]
async fn interleaved_turns_are_trimmed() {
    let (store, who) = (Store::with_max_turns(2), anyone());
    let (process, f) = store.process_and_fixture();
    let long = f.start(&who, "s0", "long").await;
    f.complete_turn(&who, "s0", "r1", "a").await;
    let open = f.start(&who, "s0", "open").await;
    assert_eq!(process.counts().trimmed_turns, 1);
    assert_eq!(
        code(f.append(&who, &long, vec![keyed("k", "x")]).await),
        ErrorCode::TurnExpired
    );
    let middle = f.complete_turn(&who, "s0", "r2", "b").await;
    f.append(&who, &open, vec![keyed("late", "late text")])
        .await
        .unwrap();
    f.complete_turn(&who, "s0", "r3", "c").await;
    // `open` was dropped, and its last item follows `middle`.
    let (rows, items) = read_for_restore(&f, &who).await.unwrap();
    assert_eq!(rows, [5, 4]);
    assert_eq!(items, (middle.first_seq..=9).collect::<Vec<_>>());
    let stray = f
        .items(&who, "s0", 9)
        .await
        .into_iter()
        .find(|i| i.turn_id == Some(open.turn_id));
    let stray = stray.unwrap();
    let write = redact_items("s0", &[(stray.seq, stray.seq)]);
    f.write_redaction(&who, write.clone()).await.unwrap();
    assert!(f.write_redaction(&who, write).await.unwrap().replayed);
    assert_eq!(f.session(&who, "s0").await.unwrap().turn_count, 5);
    let (_, adopt) = store
        .extract("s0", &FieldRetention::default())
        .await
        .unwrap()
        .unwrap();
    let channels: Vec<_> = adopt
        .items
        .iter()
        .map(|i| i.item.body.channel.to_string())
        .collect();
    assert_eq!(
        channels,
        ["question", "final", "question", "final", "redaction"]
    );
    let parts = adopt.items[4].item.body.parts.as_str();
    assert!(
        parts.starts_with(r#"[{"type":"redaction","seqs":[],"by":"#),
        "{parts}"
    );
    assert!(
        adopt
            .items
            .iter()
            .zip(1..)
            .all(|(entry, seq)| entry.item.seq == seq)
    );
}

/// Bytes are limited as well; a turn that does not fit is refused and changes nothing.
#[tokio::test]
async fn turns_beyond_the_byte_limit_are_dropped() {
    let bounds = HotBounds {
        bytes: 20_000,
        ..HotBounds::default()
    };
    let (store, who) = (Store::new(bounds), anyone());
    let (process, f) = store.process_and_fixture();
    // Random text, which cannot be compressed.
    let words = |n: u64, len: usize| {
        let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let letter = |_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            char::from(b'!' + u8::try_from(x % 90).unwrap())
        };
        (0..len).map(letter).collect::<String>()
    };
    for n in 0..40 {
        f.complete_turn(&who, "s0", &format!("r{n}"), &words(n, 2000))
            .await;
        let fields = store
            .hot
            .load(&store.key("s0"))
            .await
            .unwrap()
            .unwrap()
            .fields;
        assert!(fields.iter().map(|f| f.value.len()).sum::<usize>() <= 20_000);
    }
    let remaining = turns(&f, &who, TurnOrder::Oldest, 50).await;
    assert_eq!(remaining.last().unwrap().ordinal, 40);
    assert!(
        remaining.len() > 5 && remaining.len() < 15,
        "{}",
        remaining.len()
    );
    assert_eq!(process.counts().trimmed_turns, 40 - remaining.len() as u64);
    let before = session_readings(&f).await;
    for (session, request) in [("s0", "large"), ("new", "large")] {
        let large = start_with(
            &who,
            session,
            request,
            "q",
            Some(&words(1, 40_000)),
            |_, _| {},
        );
        let refused = f.write(&who, Write::Start(Arc::new(large))).await;
        assert_eq!(code(refused), ErrorCode::LimitExceeded);
    }
    assert_eq!(
        code(f.session(&who, "new").await),
        ErrorCode::SessionNotFound
    );
    assert_eq!(session_readings(&f).await, before);
    // A turn that grows displaces earlier turns, but not itself.
    let open = f.start(&who, "s0", "open").await;
    for n in 0..9 {
        let item = keyed(&format!("k{n}"), &words(n, 1500));
        f.append(&who, &open, vec![item]).await.unwrap();
    }
    assert_eq!(
        turns(&f, &who, TurnOrder::Oldest, 50)
            .await
            .last()
            .unwrap()
            .turn_id,
        open.turn_id
    );
    let full = f
        .append(&who, &open, vec![keyed("full", &words(9, 9000))])
        .await;
    assert_eq!(code(full), ErrorCode::LimitExceeded);
    assert_eq!(
        session_readings(&f).await,
        session_readings(&store.fixture()).await
    );
}

/// A login, a redaction, an event or an erasure of a session at its limits drops no turn and is never refused.
#[tokio::test]
async fn writes_that_add_little_are_not_limited() {
    for turn_count in [1, 3] {
        for write in ["link", "redact", "event", "erase"] {
            let who = anyone();
            let words = |n: u64| "word ".repeat(100) + &n.to_string();
            // Salts are packed with the contents and can change the size by a byte, so both stores use the same salts.
            let turns: Vec<_> = (0..turn_count)
                .map(|n| {
                    let (request, words) = (format!("r{n}"), words(n));
                    start_with(&who, "s0", &request, "q", Some(&words), |_, _| {})
                })
                .collect();
            // The limit is the exact size of the session with these turns.
            let mut large = Store::with_large_bounds();
            large.entropy = Arc::new(SameEntropy);
            let f = large.fixture();
            for turn in &turns {
                f.try_start(&who, turn.clone()).await.unwrap();
            }
            let loaded = large.hot.load(&large.key("s0")).await.unwrap().unwrap();
            let bytes = loaded.fields.iter().map(|f| f.value.len() as u64).sum();
            let mut store = Store::new(HotBounds {
                bytes,
                turns: turn_count,
                ..HotBounds::default()
            });
            store.entropy = Arc::new(SameEntropy);
            let (process, f) = store.process_and_fixture();
            let mut created = Vec::new();
            for turn in turns {
                created.push(f.try_start(&who, turn).await.unwrap());
            }
            let last = created[created.len() - 1].turn_id;
            match write {
                "link" => drop(f.write(&who, link("s0", "ann")).await.unwrap()),
                "redact" => drop(
                    f.write(&who, redact("s0", RedactionTarget::Turn(last)))
                        .await
                        .unwrap(),
                ),
                "event" => drop(f.record(&who, event("s0", "e", "kind")).await.unwrap()),
                _ => drop(f.write(&who, erase("s0")).await.unwrap()),
            }
            assert_eq!(process.counts().trimmed_turns, 0, "{write}");
            if write == "link" {
                let (_, adopt) = store
                    .extract("s0", &FieldRetention::default())
                    .await
                    .unwrap()
                    .unwrap();
                let answers = adopt
                    .items
                    .iter()
                    .filter(|i| i.item.body.channel == Channel::Final);
                assert_eq!(answers.count() as u64, turn_count);
            }
        }
    }
}

/// DESIGN §7 specifies this limit.
#[tokio::test]
async fn five_hundred_turns_are_kept() {
    let (store, who) = (Store::new(HotBounds::default()), anyone());
    let (process, f) = store.process_and_fixture();
    for n in 0..501 {
        f.complete_turn(&who, "s0", &format!("r{n}"), "a").await;
    }
    assert_eq!(
        (process.counts().trimmed_turns, process.counts().loads),
        (1, 1)
    );
    let remaining = turns(&store.fixture(), &who, TurnOrder::Newest, 500).await;
    assert_eq!(
        (remaining.len(), remaining.last().unwrap().ordinal),
        (500, 2)
    );
}
