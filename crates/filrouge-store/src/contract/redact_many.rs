//! Redaction with retries, in lists, and at random.

use std::collections::BTreeMap;
use std::sync::Arc;

use filrouge_types::{Channel, ErrorCode, Turn};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::fixture::{
    Fixture, anyone, append, cancel, code, fail, finalize, interrupt, item, keyed, redact,
    redact_items, replacement, sid, start,
};
use crate::chain::{Link, LinkScope};
use crate::command::{RedactionTarget, Write};
use crate::read::{TurnOrder, TurnQuery};
use crate::record::{MacCheck, decode};

pub async fn retries_after_a_redaction_are_replayed(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    let batch = || {
        vec![
            keyed("k1", "one"),
            item(Channel::Plan, "two"),
            keyed("k3", "x"),
        ]
    };
    let first = f.append(&who, &turn, batch()).await.unwrap();
    let close = finalize("s", turn.turn_id, Some("answer"));
    f.write_turn(&who, close.clone()).await.unwrap();
    let failed = f.start(&who, "s", "failed").await;
    f.write_turn(&who, fail("s", failed.turn_id, "e"))
        .await
        .unwrap();
    f.redact_turn(&who, &turn).await.unwrap();
    f.redact_turn(&who, &failed).await.unwrap();
    let position = f.ledger.position();

    let again = f.start(&who, "s", "r").await;
    assert!(again.replayed && !again.differs && again.deleted_at.is_some());
    // The first body is not recoverable: that is the purpose of a redaction.
    let other = f.try_start(&who, start(&who, "s", "r", "another")).await;
    assert!(!other.unwrap().differs);
    let again = f.append(&who, &turn, batch()).await.unwrap();
    assert_eq!(again, (first.0, first.1, true));
    let again = f.write_turn(&who, close).await.unwrap();
    assert!(again.replayed && again.answer_neutral.is_none());
    let other = finalize("s", turn.turn_id, Some("another"));
    assert!(f.write_turn(&who, other).await.unwrap().replayed);
    let again = f.write_turn(&who, fail("s", failed.turn_id, "e")).await;
    assert!(again.unwrap().replayed);
    let other = f.write_turn(&who, fail("s", failed.turn_id, "other")).await;
    assert!(other.unwrap().replayed);
    let other = f.write_turn(&who, fail("s", turn.turn_id, "e")).await;
    assert_eq!(code(other), ErrorCode::TurnClosed);

    let swapped = vec![
        keyed("k3", "x"),
        item(Channel::Plan, "two"),
        keyed("k1", "one"),
    ];
    let refused = f.append(&who, &turn, swapped).await;
    assert_eq!(code(refused), ErrorCode::IdempotencyMismatch);
    let mut kind = batch();
    kind[1].channel = Channel::Thought;
    let refused = f.append(&who, &turn, kind).await;
    assert_eq!(code(refused), ErrorCode::IdempotencyMismatch);
    let part = vec![keyed("k1", "one"), keyed("new", "x")];
    let refused = f.append(&who, &turn, part).await;
    assert_eq!(code(refused), ErrorCode::PartialReplay);
    assert_eq!(f.ledger.position(), position);
    f.assert_intact().await;
}

pub async fn lists_skip_redacted_turns(f: &Fixture) {
    let who = anyone();
    let mut turns = Vec::new();
    for n in 0..30 {
        turns.push(f.complete_turn(&who, "s", &format!("r{n:02}"), "a").await);
    }
    f.start(&who, "s", "open").await;
    let is_redacted = |n: usize| (4..17).contains(&n) || n.is_multiple_of(7);
    for (_, turn) in turns.iter().enumerate().filter(|(n, _)| is_redacted(*n)) {
        f.redact_turn(&who, turn).await.unwrap();
    }
    let status = Some(filrouge_types::TurnStatus::Finalized);
    for (order, include_redacted) in [
        (TurnOrder::Oldest, false),
        (TurnOrder::Newest, false),
        (TurnOrder::Oldest, true),
        (TurnOrder::Newest, true),
    ] {
        let expected: Vec<u64> = (0..30)
            .filter(|n| include_redacted || !is_redacted(*n))
            .map(|n| n as u64 + 1)
            .collect();
        for limit in [1, 2, 3, 7, 50] {
            let (mut seen, mut cursor) = (Vec::new(), None);
            loop {
                let query = TurnQuery {
                    status,
                    include_redacted,
                    order,
                    cursor,
                    limit,
                };
                let (page, next) = f.ledger.turns(&who, &sid("s"), query).await.unwrap();
                assert!(page.len() == limit || next.is_none(), "full pages");
                let page: Vec<u64> = page.iter().map(|t| t.ordinal).collect();
                match order {
                    TurnOrder::Oldest => seen.extend(page),
                    TurnOrder::Newest => seen.splice(0..0, page).for_each(drop),
                }
                cursor = next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(seen, expected, "{order:?} {include_redacted} {limit}");
        }
    }
    f.assert_intact().await;
}

/// Interleaved turns, and a turn of many records.
pub async fn interleaved_and_long_turns_are_redacted(f: &Fixture) {
    let who = anyone();
    let one = f.start(&who, "s", "one").await;
    let two = f.start(&who, "s", "two").await;
    for n in 0..300 {
        let turn = if n % 3 == 0 { &one } else { &two };
        let words = format!("{n} ").repeat(if n == 20 { 90_000 } else { 3 });
        f.append(&who, turn, vec![item(Channel::Thought, &words)])
            .await
            .unwrap();
    }
    let many = (0..700).map(|n| keyed(&format!("k{n}"), "w")).collect();
    f.append(&who, &one, many).await.unwrap();
    f.write_turn(&who, finalize("s", one.turn_id, Some("a")))
        .await
        .unwrap();
    let before = f.items(&who, "s", 500).await;
    let redacted = f.redact_turn(&who, &one).await.unwrap();
    assert!(redacted.deleted_at.is_some());
    let after = f.items(&who, "s", 500).await;
    for (old, new) in before.iter().zip(&after) {
        let his = old.turn_id == Some(one.turn_id);
        assert_eq!(new.redacted, his, "seq {}", new.seq);
        assert!(his || old == new);
    }
    f.write_turn(&who, cancel("s", two.turn_id)).await.unwrap();
    f.assert_intact().await;
}

/// One step of a random history: its kind, the turn, and the number of items.
type RandomWrite = (u8, usize, u64);

async fn journal(f: &Fixture, session: &str, steps: &[RandomWrite]) -> Vec<Turn> {
    let who = anyone();
    let mut turns: Vec<Turn> = Vec::new();
    for (n, (kind, which, items)) in steps.iter().enumerate() {
        let word = |m: u64| format!("¤{session}.{n}.{m}¤ {}", "padding ".repeat(*which % 90));
        let new = format!("{session}.{n}");
        let Some(old) = turns.get(which % turns.len().max(1)).cloned() else {
            let command = start(&who, session, &new, &word(0));
            turns.push(f.try_start(&who, command).await.unwrap());
            continue;
        };
        let id = old.turn_id;
        // A write that the turn refuses is irrelevant to this test.
        let write = match kind {
            0 | 1 => Write::Start(Arc::new(start(&who, session, &new, &word(0)))),
            2..=4 => {
                let batch = (0..=*items).map(|m| item(Channel::Thought, &word(m)));
                append(session, id, batch.collect(), None)
            }
            5 => finalize(session, id, Some(&word(0))),
            6 => fail(session, id, &word(0)),
            7 => interrupt(session, id, i64::MAX),
            _ => replacement(&who, session, &new, id, &word(0)),
        };
        if let Ok(crate::Outcome::Turn(turn, _)) = f.write(&who, write).await
            && !turns.iter().any(|t| t.turn_id == turn.turn_id)
        {
            turns.push(*turn);
        }
    }
    turns
}

/// The links before and after each record, by its first seq.
async fn links(f: &Fixture, session: &str) -> BTreeMap<u64, (Link, Link)> {
    f.ledger
        .query_session(&anyone(), &sid(session), |snapshot, who, id| {
            let loaded = snapshot.get(who, id)?;
            let scope = LinkScope::new(&who.tenant, id);
            let rows = snapshot.view.records(loaded.pk, 1, 10_000)?;
            let read = |row| decode(row, &scope, snapshot.keyring, MacCheck::Keyed).unwrap();
            let links = rows.iter().map(|row| (row, read(row)));
            Ok(links
                .map(|(row, d)| (row.first_seq, (d.previous_link, d.last_link)))
                .collect())
        })
        .await
        .unwrap()
}

/// The results of all reads of a session.
async fn results_of(f: &Fixture, session: &str, turns: &[Turn]) -> String {
    let (who, id) = (anyone(), sid(session));
    let mut results = format!("{:?}", f.items(&who, session, 7).await);
    for turn in turns {
        results += &format!(
            "{:?}",
            f.ledger.turn(&who, &id, turn.turn_id).await.unwrap()
        );
    }
    for order in [TurnOrder::Oldest, TurnOrder::Newest] {
        let query = TurnQuery {
            include_redacted: true,
            order,
            limit: 100,
            ..TurnQuery::default()
        };
        results += &format!("{:?}", f.ledger.turns(&who, &id, query).await.unwrap());
    }
    results
}

/// Any redactions of any history leave it intact, its links unchanged, and none of the named contents readable.
pub async fn random_redactions_keep_the_history_intact(f: &Fixture) {
    let steps = proptest::collection::vec((0..10_u8, 0..99_usize, 0..70_u64), 3..40);
    let redactions = proptest::collection::vec((any::<bool>(), 0..200_u64, 0..9_u64), 1..8);
    let mut runner = TestRunner::deterministic();
    let mut redacted_count = 0;
    for n in 0..12 {
        let session = format!("j{n}");
        let who = anyone();
        let drawn = (&steps, &redactions).new_tree(&mut runner).unwrap();
        let (steps, redactions) = drawn.current();
        let turns = journal(f, &session, &steps).await;
        let before = f.items(&who, &session, 100).await;
        let old_links = links(f, &session).await;
        let mut named = std::collections::BTreeSet::new();
        for (whole, at, more) in redactions {
            let write = if whole {
                let at = usize::try_from(at).unwrap() % turns.len();
                redact(&session, RedactionTarget::Turn(turns[at].turn_id))
            } else {
                let first = at % before.len() as u64 + 1;
                redact_items(&session, &[(first, first + more), (first / 2 + 1, first)])
            };
            match f.write_redaction(&who, write).await {
                Ok(redacted) => named.extend(redacted.seqs.iter()),
                Err(refused) => assert!(
                    matches!(refused.code, ErrorCode::TurnOpen | ErrorCode::Invalid),
                    "{refused}"
                ),
            }
        }
        f.assert_intact().await;
        redacted_count += named.len();
        let after = f.items(&who, &session, 100).await;
        let results = results_of(f, &session, &turns).await;
        for (old, new) in before.iter().zip(&after) {
            assert_eq!(new.redacted, named.contains(&old.seq), "seq {}", old.seq);
            let Some(word) = old.body.parts.as_str().split('¤').nth(1) else {
                continue;
            };
            let word = format!("¤{word}¤");
            let twins = before
                .iter()
                .filter(|i| i.body.parts.as_str().contains(&word));
            let all_gone = twins.clone().all(|i| named.contains(&i.seq));
            assert_eq!(results.contains(&word), !all_gone, "{word}");
        }
        let new_links = links(f, &session).await;
        for (seq, link) in old_links {
            assert_eq!(new_links.get(&seq), Some(&link), "seq {seq}");
        }
    }
    assert!(redacted_count > 100, "items were redacted");
}
