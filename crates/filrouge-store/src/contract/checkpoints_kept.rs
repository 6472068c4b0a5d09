//! Which checkpoints stay (DESIGN §6, §9).

use filrouge_types::{Channel, ErrorCode};

use super::asks::json;
use super::fixture::{Fixture, anyone, code, item, operator, redact_items, sid, user};
use super::live_asks::{checkpoint, keeping};

/// A session with an open turn of `n` items.
async fn of_items(f: &Fixture, s: &str, n: u64) {
    let who = user("ann");
    let turn = f.start(&who, s, "r").await;
    for _ in 1..n {
        f.append(&who, &turn, vec![item(Channel::Plan, "p")])
            .await
            .unwrap();
    }
}

pub async fn the_newest_are_kept(f: &Fixture) {
    let who = user("ann");
    of_items(f, "s", 9).await;
    for (keep, seq, kept) in [
        (3, 1, &[1][..]),
        (3, 2, &[2, 1]),
        (3, 5, &[5, 2, 1]),
        (3, 4, &[5, 4, 2]),
        (3, 6, &[6, 5, 4]),
        // One that is older than all that are kept does not stay.
        (3, 1, &[6, 5, 4]),
        (5, 3, &[6, 5, 4, 3]),
        (1, 7, &[7]),
        // One at least.
        (0, 8, &[8]),
        (u64::MAX, 9, &[9, 8]),
    ] {
        let state = format!(r#"{{"n":{seq}}}"#);
        let write = keeping(keep, "s", Some(seq), None, &state);
        f.checkpointed(&who, write).await.unwrap();
        let all = f.checkpoints(&who, "s").await.unwrap();
        let all: Vec<_> = all.into_iter().map(Result::unwrap).collect();
        let seqs: Vec<u64> = all.iter().map(|c| c.seq).collect();
        assert_eq!(seqs, kept, "keeping {keep}, then {seq}");
        for one in &all {
            assert_eq!(one.state, json(&format!(r#"{{"n":{}}}"#, one.seq)));
        }
        let newest = f.newest_checkpoint(&who, "s").await.checkpoint.unwrap();
        assert_eq!(newest.seq, kept[0]);
    }
    f.intact().await;
}

/// What an application knew of an item may stand in every checkpoint that covers it.
pub async fn redaction_takes_what_covers(f: &Fixture) {
    let who = user("ann");
    of_items(f, "s", 9).await;
    for seq in [2, 4, 6, 8] {
        let write = keeping(9, "s", Some(seq), Some("L"), "{}");
        f.checkpointed(&who, write).await.unwrap();
    }
    let redacted = |ranges: &[(u64, u64)]| redact_items("s", ranges);
    f.redacted(&who, redacted(&[(9, 9)])).await.unwrap();
    assert_eq!(f.checkpoint_seqs(&who, "s").await, [8, 6, 4, 2]);
    f.redacted(&who, redacted(&[(6, 6), (8, 8)])).await.unwrap();
    assert_eq!(f.checkpoint_seqs(&who, "s").await, [4, 2]);
    f.redacted(&who, redacted(&[(5, 5)])).await.unwrap();
    assert_eq!(f.checkpoint_seqs(&who, "s").await, [4, 2]);
    // What is put behind it may stay, also when the redaction comes again.
    let (behind, _) = f
        .checkpointed(&who, keeping(9, "s", None, Some("M"), "{}"))
        .await
        .unwrap();
    f.redacted(&who, redacted(&[(5, 5)])).await.unwrap();
    assert_eq!(f.checkpoint_seqs(&who, "s").await, [behind.seq, 4, 2]);
    f.redacted(&who, redacted(&[(1, 1)])).await.unwrap();
    assert_eq!(f.checkpoint_seqs(&who, "s").await, [0; 0]);
    let none = f.newest_checkpoint(&who, "s").await;
    assert_eq!((none.checkpoint, none.unreadable), (None, 0));
    let (again, created) = f
        .checkpointed(&who, checkpoint("s", Some(4), None, r#"{"b":1}"#))
        .await
        .unwrap();
    assert!(created && again.seq == 4, "another one, at its old seq");
    f.intact().await;
}

pub async fn a_redacted_turn_takes_what_covers(f: &Fixture) {
    let who = user("ann");
    let kept = f.whole(&who, "s", "r1", "a").await;
    let gone = f.whole(&who, "s", "r2", "a").await;
    for seq in [kept.last_seq, gone.first_seq, gone.last_seq] {
        f.checkpointed(&who, checkpoint("s", Some(seq), None, "{}"))
            .await
            .unwrap();
    }
    f.redact_turn(&who, &gone).await.unwrap();
    assert_eq!(f.checkpoint_seqs(&who, "s").await, [kept.last_seq]);
    f.intact().await;
}

pub async fn checkpoints_go_with_their_session(f: &Fixture) {
    let who = anyone();
    f.whole(&who, "s", "r", "a").await;
    f.checkpointed(&who, checkpoint("s", None, Some("L"), r#"{"a":1}"#))
        .await
        .unwrap();
    f.erase(&who, "s").await.unwrap();
    let read = f.checkpoints(&who, "s").await;
    assert_eq!(code(read), ErrorCode::SessionErased);
    let late = f
        .checkpointed(&who, checkpoint("s", None, None, "{}"))
        .await;
    assert_eq!(code(late), ErrorCode::SessionErased);
    let (id, of) = (sid("s"), sid("s"));
    let left = f.ledger.ask_in(&who, &of, move |sight| {
        let found = sight.view.session(&operator("t").tenant, &id, None)?;
        match found {
            Some(stored) => sight.view.checkpoint_seqs(stored.pk),
            None => Ok(Vec::new()),
        }
    });
    // An ephemeral session is gone whole.
    match left.await {
        Ok(left) => assert!(left.is_empty()),
        Err(failure) => assert_eq!(failure.code, ErrorCode::SessionErased),
    }
    f.intact().await;
}
