//! A third party can recompute the chain, and every history verifies (DESIGN §9).

use filrouge_types::Channel;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use sha2::{Digest as _, Sha256};

use super::differential::{play, steps};
use super::fixture::{Fixture, anyone, finalize, item, keyed, sid};
use crate::ledger::LanePosition;
use crate::record::RecordRow;

/// Reads `n` bytes from the front.
fn take<'a>(bytes: &mut &'a [u8], n: usize) -> &'a [u8] {
    let (head, rest) = bytes.split_at(n);
    *bytes = rest;
    head
}

/// Reads a number in LEB128, as docs/format.md specifies.
fn number(bytes: &mut &[u8]) -> usize {
    let (mut n, mut shift) = (0, 0);
    loop {
        let b = take(bytes, 1)[0];
        n |= usize::from(b & 0x7f) << shift;
        shift += 7;
        if b & 0x80 == 0 {
            return n;
        }
    }
}

fn framed(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_be_bytes(), text].concat()
}

fn sha256(pieces: &[&[u8]]) -> [u8; 32] {
    Sha256::digest(pieces.concat()).into()
}

/// Computes the links of one record from docs/format.md alone, without the crate's decoder.
fn links(tenant: &str, session: &str, row: &RecordRow, mut previous: [u8; 32]) -> [u8; 32] {
    let mut head = row.head.as_slice();
    assert_eq!(take(&mut head, 2), [1, 1], "format 1, SHA-256");
    take(&mut head, 4);
    assert_eq!(take(&mut head, 1), [0], "not encrypted");
    let packed = take(&mut head, 1)[0];
    let raw_len = number(&mut head);
    let created_at = take(&mut head, 8);
    let turn_flag = take(&mut head, 1);
    let turn = take(&mut head, if turn_flag == [1] { 16 } else { 0 });
    assert_eq!(take(&mut head, 32), previous);
    assert_eq!(head.len(), 16, "the MAC ends it");
    let raw = match packed {
        0 => row.body.clone(),
        _ => zstd::decode_all(row.body.as_slice()).unwrap(),
    };
    assert_eq!(raw.len(), raw_len);
    let mut raw = raw.as_slice();
    for seq in row.first_seq..row.first_seq + row.count {
        let n = number(&mut raw);
        let fields = take(&mut raw, n);
        assert_eq!(take(&mut raw, 1), [0], "content exists");
        let salt = take(&mut raw, 16);
        let n = number(&mut raw);
        let parts = take(&mut raw, n);
        let commitment = sha256(&[b"filrouge parts 1\0", salt, parts]);
        previous = sha256(&[
            b"filrouge link 1\0",
            &framed(tenant.as_bytes()),
            &framed(session.as_bytes()),
            &previous,
            &seq.to_be_bytes(),
            turn_flag,
            turn,
            created_at,
            &framed(fields),
            &commitment,
        ]);
    }
    assert!(raw.is_empty());
    previous
}

pub async fn links_can_be_recomputed_by_a_stranger(f: &Fixture) {
    let who = anyone();
    for n in 0..3 {
        let turn = f.start(&who, "s/ü", &format!("r{n}")).await;
        let batch = (0..100)
            .map(|i| item(Channel::Observation, &format!("{i}")))
            .collect();
        f.append(&who, &turn, batch).await.unwrap();
        f.append(&who, &turn, vec![keyed(&format!("k{n}"), "x")])
            .await
            .unwrap();
        f.write_turn(&who, finalize("s/ü", turn.turn_id, Some("a")))
            .await
            .unwrap();
    }
    let (end, rows) = f
        .ledger
        .query_session(&anyone(), &sid("s/ü"), |snapshot, scope, id| {
            let session = snapshot.get(scope, id)?;
            Ok((
                session.head.link,
                snapshot.view.records(session.pk, 1, 1000)?,
            ))
        })
        .await
        .unwrap();
    assert!(rows.len() > 9);
    let last = rows
        .iter()
        .fold([0; 32], |previous, row| links("t", "s/ü", row, previous));
    assert_eq!(last, end);
}

pub async fn random_histories_verify_as_intact(f: &Fixture) {
    let mut runner = TestRunner::deterministic();
    for n in 0..8 {
        let steps = steps().new_tree(&mut runner).unwrap().current();
        play(f, &steps, &format!("h{n}-")).await;
        f.assert_intact().await;
    }
}

pub async fn the_commit_log_counts_every_commit(f: &Fixture) {
    let who = anyone();
    let lane = f.ledger.lanes().of_session(&who.tenant, &sid("s"));
    let newest = || f.ledger.position().lane(lane);
    assert_eq!(f.ledger.position().commit_count(), 0);
    assert_eq!(newest(), LanePosition::default());
    f.create(&who, "s").await.unwrap();
    f.create(&who, "s").await.unwrap();
    let first = newest();
    assert_eq!(first.commit_no, 1, "a replay commits nothing");
    f.complete_turn(&who, "s", "r", "a").await;
    let second = newest();
    assert_eq!(second.commit_no, 2);
    assert_ne!(first.link, second.link);
    assert_eq!(
        f.ledger.position().commit_count(),
        2,
        "no other lane has commits"
    );
    let report = f.ledger.verify(None).await.unwrap();
    assert_eq!(
        (report.sessions, report.turns, report.items, report.commits),
        (1, 1, 2, 2)
    );
}
