//! Only the seq determines the order; the store assigns it inside the commit.

use filrouge_types::Channel;

use super::fixture::{Fixture, anyone, finalize, item};

pub async fn seq_is_dense_from_one(f: &Fixture) {
    let who = anyone();
    for n in 0..5 {
        let turn = f.start(&who, "s", &format!("r{n}")).await;
        for m in 0..3 {
            let batch = (0..=m)
                .map(|i| item(Channel::Thought, &i.to_string()))
                .collect();
            f.append(&who, &turn, batch).await.unwrap();
        }
        f.write_turn(&who, finalize("s", turn.turn_id, Some("a")))
            .await
            .unwrap();
    }
    let items = f.items(&who, "s", 7).await;
    let seqs: Vec<u64> = items.iter().map(|i| i.seq).collect();
    assert_eq!(seqs, (1..=40).collect::<Vec<_>>());
    assert_eq!(f.last_seq(&who, "s").await, 40);
    f.assert_intact().await;
}

pub async fn turns_interleave(f: &Fixture) {
    let who = anyone();
    let a = f.start(&who, "s", "a").await;
    let b = f.start(&who, "s", "b").await;
    assert_eq!((a.first_seq, b.first_seq), (1, 2));
    assert_eq!(
        f.append(&who, &a, vec![item(Channel::Plan, "a")])
            .await
            .unwrap()
            .0,
        3
    );
    assert_eq!(
        f.append(&who, &b, vec![item(Channel::Plan, "b")])
            .await
            .unwrap()
            .0,
        4
    );
    let b = f
        .write_turn(&who, finalize("s", b.turn_id, Some("B")))
        .await
        .unwrap();
    let a = f
        .write_turn(&who, finalize("s", a.turn_id, Some("A")))
        .await
        .unwrap();
    assert_eq!((b.last_seq, a.last_seq), (5, 6));
    assert_eq!((a.ordinal, b.ordinal), (1, 2));
    let owners: Vec<_> = f
        .items(&who, "s", 100)
        .await
        .iter()
        .map(|i| i.turn_id.unwrap())
        .collect();
    let (a, b) = (a.turn_id, b.turn_id);
    assert_eq!(owners, [a, b, a, b, b, a]);
    f.assert_intact().await;
}

pub async fn the_clock_does_not_determine_the_order(f: &Fixture) {
    let who = anyone();
    let first = f.complete_turn(&who, "s", "r1", "one").await;
    f.clock.advance(-5_000_000);
    let second = f.complete_turn(&who, "s", "r2", "two").await;
    assert!(
        second.created_at < first.created_at,
        "the clock was set back"
    );
    assert!(second.first_seq > first.last_seq, "the order is unaffected");
    assert_eq!((first.ordinal, second.ordinal), (1, 2));
    let session = f.ledger.session(&who, &first.session_id).await.unwrap();
    assert_eq!((session.turn_count, session.last_seq), (2, 4));
    f.assert_intact().await;
}

pub async fn big_batches_keep_their_order(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    let batch: Vec<_> = (0..1000)
        .map(|n| item(Channel::Observation, &format!("{n}")))
        .collect();
    let parts: Vec<_> = batch.iter().map(|i| i.parts.clone()).collect();
    assert_eq!(
        f.append(&who, &turn, batch).await.unwrap(),
        (2, 1001, false)
    );
    for page in [1, 63, 64, 65, 500] {
        let got: Vec<_> = f
            .items(&who, "s", page)
            .await
            .into_iter()
            .skip(1)
            .map(|i| i.body.parts)
            .collect();
        assert_eq!(got, parts, "pages of {page}");
    }
    f.assert_intact().await;
}
