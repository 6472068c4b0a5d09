//! Checkpoints: the application's state as of a seq, once per seq (DESIGN §6).

use std::sync::Arc;

use filrouge_types::ErrorCode;
use tokio::task::JoinSet;

use super::fixture::{Fixture, anyone, cmd, code, item, operator, sid, user};
use super::live_writes::{SECOND, checkpoint};
use super::session_writes::{close_session, json};
use crate::command::Outcome;
use crate::read::ChangeKind;

pub async fn a_checkpoint_is_written_once_per_seq(f: &Fixture) {
    let who = user("ann");
    f.complete_turn(&who, "s", "r", "a").await;
    let state = r#"{ "slot": "le 2", "n": 1.0, "to": "\u00e9" }"#;
    let write = |seq, state: &str| checkpoint("s", Some(seq), Some("WAIT"), state);
    let (first, created) = f.write_checkpoint(&who, write(1, state)).await.unwrap();
    assert!(created);
    assert_eq!((first.seq, first.label.as_deref()), (1, Some("WAIT")));
    assert_eq!(first.state.as_str(), state, "byte for byte");
    let position = f.ledger.position();
    f.clock.advance(SECOND);
    for same in [state, "{\"slot\":\"le 2\",\n\"n\":1.0,\"to\":\"\\u00e9\"}"] {
        let again = f.write_checkpoint(&who, write(1, same)).await.unwrap();
        assert_eq!(again, (first.clone(), false));
    }
    let relabelled = |label| checkpoint("s", Some(1), label, state);
    for other in [
        write(1, "{}"),
        write(1, r#"{"slot":"le 2","n":1,"to":"\u00e9"}"#),
        write(1, r#"{"slot":"le  2","n":1.0,"to":"\u00e9"}"#),
        relabelled(None),
        relabelled(Some("wait")),
    ] {
        let refused = f.write_checkpoint(&who, other).await;
        assert_eq!(code(refused), ErrorCode::IdempotencyMismatch);
    }
    for far in [3, 4, u64::MAX] {
        let refused = f.write_checkpoint(&who, write(far, "{}")).await;
        assert_eq!(code(refused), ErrorCode::Invalid, "{far}");
    }
    assert_eq!(f.ledger.position(), position);
    let absent = checkpoint("none", None, None, "{}");
    let absent = f.write_checkpoint(&who, absent).await;
    assert_eq!(code(absent), ErrorCode::SessionNotFound);
    let all = f.checkpoints(&who, "s").await.unwrap();
    assert_eq!(all, [Ok(first.clone())]);
    let newest = f.newest_checkpoint(&who, "s").await;
    assert_eq!((newest.checkpoint, newest.unreadable), (Some(first), 0));
    assert_eq!(f.last_seq(&who, "s").await, 2, "no item");
    f.assert_intact().await;
}

/// A checkpoint without a seq covers all items that exist when it is written.
pub async fn a_checkpoint_without_a_seq_covers_all_items(f: &Fixture) {
    let who = user("ann");
    f.create(&who, "s").await.unwrap();
    let now = |state: &str| checkpoint("s", None, None, state);
    let (first, _) = f.write_checkpoint(&who, now("{}")).await.unwrap();
    assert_eq!(
        (first.seq, first.label),
        (0, None),
        "the session has no item to cover"
    );
    f.complete_turn(&who, "s", "r", "a").await;
    let (second, created) = f.write_checkpoint(&who, now("{}")).await.unwrap();
    assert_eq!((second.seq, created), (2, true));
    assert!(!f.write_checkpoint(&who, now("{ }")).await.unwrap().1);
    let other = f.write_checkpoint(&who, now(r#"{"a":1}"#)).await;
    assert_eq!(code(other), ErrorCode::IdempotencyMismatch);
    assert_eq!(f.checkpoint_seqs(&who, "s").await, [2, 0]);
    // A closed session still accepts its last state.
    f.write(&who, close_session("s", None)).await.unwrap();
    let (last, created) = f.write_checkpoint(&who, now("{}")).await.unwrap();
    assert_eq!((last.seq, created), (3, true));
    f.assert_intact().await;
}

pub async fn states_of_any_size_are_stored(f: &Fixture) {
    let who = anyone();
    f.create(&who, "s").await.unwrap();
    for length in [0, 1, 127, 128, 70_000, 900_000] {
        let state = format!(r#"{{"x":"{}"}}"#, "é".repeat(length / 2));
        let turn = f.start(&who, "s", &format!("r{length}")).await;
        let write = checkpoint("s", Some(turn.first_seq), Some(""), &state);
        f.write_checkpoint(&who, write).await.unwrap();
        let newest = f.newest_checkpoint(&who, "s").await.checkpoint.unwrap();
        assert_eq!(
            (newest.state, newest.label),
            (json(&state), Some("".into()))
        );
    }
    f.assert_intact().await;
}

pub async fn the_newest_checkpoint_label_becomes_the_sessions_state(f: &Fixture) {
    let who = user("ann");
    f.complete_turn(&who, "s", "r", "a").await;
    let turn = f.start(&who, "s", "open").await;
    f.append(&who, &turn, vec![item(filrouge_types::Channel::Plan, "p")])
        .await
        .unwrap();
    let version = f.session(&who, "s").await.unwrap().version;
    for (seq, label, state) in [
        (2, Some("B"), Some("B")),
        // An older checkpoint describes a past state.
        (1, Some("A"), Some("B")),
        // A checkpoint without a label leaves the state unchanged.
        (3, None, Some("B")),
        (4, Some("C"), Some("C")),
    ] {
        let write = checkpoint("s", Some(seq), label, "{}");
        f.write_checkpoint(&who, write).await.unwrap();
        let session = f.session(&who, "s").await.unwrap();
        assert_eq!(session.state.as_deref(), state, "{seq}");
    }
    assert_ne!(f.session(&who, "s").await.unwrap().version, version);
    f.assert_intact().await;
}

pub async fn strangers_neither_read_nor_write_checkpoints(f: &Fixture) {
    let ann = user("ann");
    f.complete_turn(&ann, "s", "r", "a").await;
    f.write_checkpoint(&ann, checkpoint("s", None, None, "{}"))
        .await
        .unwrap();
    for who in [user("bob"), anyone(), operator("u")] {
        let put = f
            .write_checkpoint(&who, checkpoint("s", None, None, "{}"))
            .await;
        assert_eq!(code(put), ErrorCode::SessionNotFound);
        let read = f.checkpoints(&who, "s").await;
        assert_eq!(code(read), ErrorCode::SessionNotFound);
    }
    assert_eq!(f.checkpoint_seqs(&operator("t"), "s").await, [2]);
}

pub async fn one_of_many_equal_checkpoints_is_new(f: &Fixture) {
    let who = anyone();
    f.complete_turn(&who, "s", "r", "a").await;
    for (seq, states) in [(1, 1), (2, 4)] {
        let mut tasks = JoinSet::new();
        for n in 0..16 {
            let (ledger, who) = (f.ledger.clone(), who.clone());
            let state = format!(r#"{{"n":{}}}"#, n % states);
            let write = checkpoint("s", Some(seq), None, &state);
            tasks.spawn(async move { ledger.put(cmd(&who, write)).await });
        }
        let (mut new, mut known, mut refused) = (0, 0, 0);
        for answer in tasks.join_all().await {
            match answer {
                Ok(Outcome::Checkpoint { created, .. }) if created => new += 1,
                Ok(_) => known += 1,
                Err(failure) => {
                    assert_eq!(failure.code, ErrorCode::IdempotencyMismatch);
                    refused += 1;
                }
            }
        }
        assert_eq!(
            (new, known, refused),
            (1, 16 / states - 1, 16 - 16 / states)
        );
    }
    f.assert_intact().await;
}

/// Each checkpoint covers the items that existed when it was written, even under concurrent writes.
pub async fn a_checkpoint_covers_all_items_under_concurrent_writes(f: &Fixture) {
    let who = anyone();
    f.create(&who, "s").await.unwrap();
    let mut tasks = JoinSet::new();
    for n in 0..8 {
        let (ledger, who) = (f.ledger.clone(), who.clone());
        tasks.spawn(async move {
            for m in 0..4 {
                let request = format!("r{n} {m}");
                let command =
                    super::fixture::start_with(&who, "s", &request, "q", Some("a"), |_, _| {});
                let write = crate::command::Write::Start(Arc::new(command));
                ledger.put(cmd(&who, write)).await.unwrap();
                let write = checkpoint("s", None, Some("L"), "{}");
                match ledger.put(cmd(&who, write)).await.unwrap() {
                    Outcome::Checkpoint {
                        checkpoint,
                        last_seq,
                        ..
                    } => assert_eq!(checkpoint.seq, last_seq),
                    other => panic!("{other:?}"),
                }
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(f.checkpoint_seqs(&who, "s").await.len(), 3);
    let newest = f.newest_checkpoint(&who, "s").await.checkpoint.unwrap();
    assert_eq!(
        newest.seq, 64,
        "the last change in the feed is a checkpoint"
    );
    f.assert_intact().await;
}

pub async fn the_feed_shows_checkpoints(f: &Fixture) {
    let who = user("ann");
    f.complete_turn(&who, "s", "r", "a").await;
    let put = checkpoint("s", Some(1), Some("L"), "{}");
    f.write_checkpoint(&who, put.clone()).await.unwrap();
    f.write_checkpoint(&who, put).await.unwrap();
    let feed = f.feed(&who, 2).await;
    assert_eq!(feed.len(), 2);
    let last_change = feed.last().unwrap();
    assert_eq!(last_change.kind, ChangeKind::Checkpoint);
    assert!(f.feed(&user("bob"), 9).await.is_empty());
    let report = f.ledger.verify(Some((who, sid("s")))).await.unwrap();
    assert_eq!(report.checkpoints, 1);
}
