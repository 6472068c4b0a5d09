//! A session keeps its newest checkpoints; a redaction deletes those that cover redacted items (DESIGN §6, §9).

use std::sync::Arc;

use filrouge_types::{Channel, ErrorCode};

use super::fixture::{Fixture, anyone, code, item, operator, redact_items, sid, user};
use super::live_writes::{checkpoint, keeping};
use super::session_writes::json;

/// A session with an open turn of `n` items.
async fn create_session_of_items(f: &Fixture, s: &str, n: u64) {
    let who = user("ann");
    let turn = f.start(&who, s, "r").await;
    for _ in 1..n {
        f.append(&who, &turn, vec![item(Channel::Plan, "p")])
            .await
            .unwrap();
    }
}

pub async fn the_newest_checkpoints_are_kept(f: &Fixture) {
    let who = user("ann");
    create_session_of_items(f, "s", 9).await;
    for (keep, seq, kept) in [
        (3, 1, &[1][..]),
        (3, 2, &[2, 1]),
        (3, 5, &[5, 2, 1]),
        (3, 4, &[5, 4, 2]),
        (3, 6, &[6, 5, 4]),
        (5, 3, &[6, 5, 4, 3]),
        (1, 7, &[7]),
        // At least one checkpoint is kept.
        (0, 8, &[8]),
        (u64::MAX, 9, &[9, 8]),
    ] {
        let state = format!(r#"{{"n":{seq}}}"#);
        let write = keeping(keep, "s", Some(seq), None, &state);
        f.write_checkpoint(&who, write).await.unwrap();
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
    f.assert_intact().await;
}

/// A session that keeps more checkpoints than before takes one again that it had deleted, also with another state.
pub async fn a_deleted_checkpoint_can_be_written_again(f: &Fixture) {
    let who = user("ann");
    create_session_of_items(f, "s", 9).await;
    let put = |keep, seq, state| keeping(keep, "s", Some(seq), None, state);
    for seq in [2, 4, 6] {
        f.write_checkpoint(&who, put(2, seq, r#"{"n":1}"#))
            .await
            .unwrap();
    }
    assert_eq!(f.checkpoint_seqs(&who, "s").await, [6, 4]);
    let again = put(3, 2, r#"{"n":2}"#);
    let (written, created) = f.write_checkpoint(&who, again).await.unwrap();
    assert!(created);
    let all = f.checkpoints(&who, "s").await.unwrap();
    let seqs: Vec<u64> = all.iter().flatten().map(|c| c.seq).collect();
    assert_eq!((seqs, all.last()), (vec![6, 4, 2], Some(&Ok(written))));
    f.assert_intact().await;
}

/// A checkpoint that would be deleted at once is refused instead.
pub async fn a_checkpoint_older_than_all_kept_ones_is_refused(f: &Fixture) {
    let who = user("ann");
    create_session_of_items(f, "s", 9).await;
    let put = |keep, seq| keeping(keep, "s", Some(seq), None, "{}");
    for seq in [4, 6, 8] {
        f.write_checkpoint(&who, put(3, seq)).await.unwrap();
    }
    let position = f.ledger.position();
    for (keep, seq) in [(3, 3), (3, 0), (2, 5), (1, 7), (0, 7), (2, 1)] {
        let refused = f.write_checkpoint(&who, put(keep, seq)).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::Invalid, "keeping {keep}, {seq}");
        assert!(refused.hint.is_some());
    }
    // An existing one is replayed, whatever the limit.
    assert!(!f.write_checkpoint(&who, put(1, 4)).await.unwrap().1);
    assert_eq!(f.ledger.position(), position);
    f.write_checkpoint(&who, put(2, 7)).await.unwrap();
    assert_eq!(f.checkpoint_seqs(&who, "s").await, [8, 7]);
    f.assert_intact().await;
}

/// A late or repeated checkpoint from before a redaction may reveal redacted content.
pub async fn older_checkpoints_are_refused_after_a_redaction(f: &Fixture) {
    let who = user("ann");
    create_session_of_items(f, "s", 6).await;
    let put = |seq| keeping(9, "s", Some(seq), Some("L"), r#"{"kept":1}"#);
    for seq in [2, 5] {
        f.write_checkpoint(&who, put(seq)).await.unwrap();
    }
    f.write_redaction(&who, redact_items("s", &[(4, 4)]))
        .await
        .unwrap();
    assert_eq!(f.checkpoint_seqs(&who, "s").await, [2]);
    let position = f.ledger.position();
    for seq in [0, 1, 3, 4, 5, 6] {
        let refused = f.write_checkpoint(&who, put(seq)).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::Invalid, "{seq}");
        assert!(refused.hint.is_some_and(|hint| hint.contains("seq 7")));
    }
    assert!(
        !f.write_checkpoint(&who, put(2)).await.unwrap().1,
        "it stands"
    );
    assert_eq!(f.ledger.position(), position);
    f.write_checkpoint(&who, put(7)).await.unwrap();
    // A repeated redaction changes nothing.
    f.write_redaction(&who, redact_items("s", &[(4, 4)]))
        .await
        .unwrap();
    assert_eq!(f.checkpoint_seqs(&who, "s").await, [7, 2]);
    f.write_redaction(&who, redact_items("s", &[(1, 1)]))
        .await
        .unwrap();
    assert_eq!(
        code(f.write_checkpoint(&who, put(7)).await),
        ErrorCode::Invalid
    );
    f.write_checkpoint(&who, keeping(9, "s", None, None, "{}"))
        .await
        .unwrap();
    assert_eq!(f.checkpoint_seqs(&who, "s").await, [8]);
    f.assert_intact().await;
}

/// A store that adopts the session refuses such checkpoints as well.
pub async fn an_adopted_session_keeps_its_newest_redaction(f: &Fixture) {
    let who = user("ann");
    let turn = f.complete_turn(&who, "s", "r", "a").await;
    f.redact_turn(&who, &turn).await.unwrap();
    let there = super::differential::memory(f.keyring.clone());
    let write = crate::command::Write::Adopt(Arc::new(f.adopt_command_for(&who, "s").await));
    there.write(&who, write).await.unwrap();
    let put = |seq| checkpoint("s", seq, None, "{}");
    let refused = there.write_checkpoint(&who, put(Some(turn.last_seq))).await;
    assert_eq!(code(refused), ErrorCode::Invalid);
    assert!(there.write_checkpoint(&who, put(None)).await.unwrap().1);
    there.assert_intact().await;
}

/// A checkpoint may contain data of every item that it covers.
pub async fn redaction_deletes_covering_checkpoints(f: &Fixture) {
    let who = user("ann");
    create_session_of_items(f, "s", 9).await;
    for seq in [2, 4, 6, 8] {
        let write = keeping(9, "s", Some(seq), Some("L"), "{}");
        f.write_checkpoint(&who, write).await.unwrap();
    }
    let redacted = |ranges: &[(u64, u64)]| redact_items("s", ranges);
    f.write_redaction(&who, redacted(&[(9, 9)])).await.unwrap();
    assert_eq!(f.checkpoint_seqs(&who, "s").await, [8, 6, 4, 2]);
    f.write_redaction(&who, redacted(&[(6, 6), (8, 8)]))
        .await
        .unwrap();
    assert_eq!(f.checkpoint_seqs(&who, "s").await, [4, 2]);
    f.write_redaction(&who, redacted(&[(5, 5)])).await.unwrap();
    assert_eq!(f.checkpoint_seqs(&who, "s").await, [4, 2]);
    // A checkpoint that was written after the redaction is kept, even when the redaction is repeated.
    let (behind, _) = f
        .write_checkpoint(&who, keeping(9, "s", None, Some("M"), "{}"))
        .await
        .unwrap();
    f.write_redaction(&who, redacted(&[(5, 5)])).await.unwrap();
    assert_eq!(f.checkpoint_seqs(&who, "s").await, [behind.seq, 4, 2]);
    f.write_redaction(&who, redacted(&[(1, 1)])).await.unwrap();
    assert_eq!(f.checkpoint_seqs(&who, "s").await, [0; 0]);
    let none = f.newest_checkpoint(&who, "s").await;
    assert_eq!((none.checkpoint, none.unreadable), (None, 0));
    f.assert_intact().await;
}

pub async fn redacting_a_turn_deletes_covering_checkpoints(f: &Fixture) {
    let who = user("ann");
    let kept = f.complete_turn(&who, "s", "r1", "a").await;
    let redacted = f.complete_turn(&who, "s", "r2", "a").await;
    for seq in [kept.last_seq, redacted.first_seq, redacted.last_seq] {
        f.write_checkpoint(&who, checkpoint("s", Some(seq), None, "{}"))
            .await
            .unwrap();
    }
    f.redact_turn(&who, &redacted).await.unwrap();
    assert_eq!(f.checkpoint_seqs(&who, "s").await, [kept.last_seq]);
    f.assert_intact().await;
}

pub async fn erasure_deletes_checkpoints(f: &Fixture) {
    let who = anyone();
    f.complete_turn(&who, "s", "r", "a").await;
    f.write_checkpoint(&who, checkpoint("s", None, Some("L"), r#"{"a":1}"#))
        .await
        .unwrap();
    f.erase(&who, "s").await.unwrap();
    let read = f.checkpoints(&who, "s").await;
    assert_eq!(code(read), ErrorCode::SessionErased);
    let late = f
        .write_checkpoint(&who, checkpoint("s", None, None, "{}"))
        .await;
    assert_eq!(code(late), ErrorCode::SessionErased);
    let id = sid("s");
    let left = f.ledger.query_session(&who, &id, |snapshot, _, id| {
        let found = snapshot.view.session(&operator("t").tenant, id, None)?;
        match found {
            Some(stored) => snapshot.view.checkpoint_seqs(stored.pk),
            None => Ok(Vec::new()),
        }
    });
    // An ephemeral session is deleted completely.
    match left.await {
        Ok(left) => assert!(left.is_empty()),
        Err(failure) => assert_eq!(failure.code, ErrorCode::SessionErased),
    }
    f.assert_intact().await;
}
