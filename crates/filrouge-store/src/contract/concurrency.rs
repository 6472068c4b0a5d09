//! Many concurrent writers to few sessions.

use std::sync::Arc;

use filrouge_types::{Channel, TurnId, TurnStatus};
use tokio::task::JoinSet;

use super::fixture::{
    Fixture, anyone, append, body, cmd, finalize, item, keyed, sid, start, start_with,
};
use crate::command::{Command, Outcome, Write};

pub async fn many_tasks_write_to_few_sessions(f: &Fixture) {
    let who = anyone();
    let mut tasks = JoinSet::new();
    for task in 0..32 {
        let (ledger, who) = (f.ledger.clone(), who.clone());
        tasks.spawn(async move {
            let session = format!("s{}", task % 3);
            let command = start(&who, &session, &format!("r{task}"), "q");
            let outcome = ledger
                .put(cmd(&who, Write::Start(Arc::new(command))))
                .await
                .unwrap();
            let Outcome::Turn(turn, _) = outcome else {
                panic!("a turn")
            };
            let mut seqs = vec![turn.first_seq];
            for n in 0..20 {
                let items = vec![keyed(&format!("{task}-{n}"), "o"), item(Channel::Plan, "p")];
                let write = append(&session, turn.turn_id, items, None);
                let Outcome::Appended {
                    first_seq,
                    last_seq,
                    ..
                } = ledger.put(cmd(&who, write)).await.unwrap()
                else {
                    panic!("a place")
                };
                assert_eq!(last_seq, first_seq + 1, "a batch is contiguous");
                seqs.push(first_seq);
            }
            let write = finalize(&session, turn.turn_id, Some("a"));
            ledger.put(cmd(&who, write)).await.unwrap();
            assert!(
                seqs.is_sorted_by(|a, b| a < b),
                "the items of one caller are in their order"
            );
            turn.turn_id
        });
    }
    tasks.join_all().await;
    for n in 0..3 {
        let session = format!("s{n}");
        let items = f.items(&who, &session, 500).await;
        let turns = (0..32).filter(|t| t % 3 == n).count() as u64;
        assert_eq!(items.len() as u64, turns * 42);
        assert!(items.iter().zip(1..).all(|(i, seq)| i.seq == seq), "dense");
    }
    f.assert_intact().await;
}

/// Starts, keyed appends and closes of several turns; the same at every call.
fn history() -> Vec<Command> {
    let who = anyone();
    let mut all = Vec::new();
    for n in 0..8 {
        let session = format!("s{}", n % 2);
        let command = start_with(
            &who,
            &session,
            &format!("r{n}"),
            "q",
            Some("a"),
            |_, items| {
                items.insert(1, keyed(&format!("k{n}"), "o"));
            },
        );
        all.push(cmd(&who, Write::Start(Arc::new(command))));
    }
    all
}

pub async fn repeated_concurrent_writes_have_one_effect(f: &Fixture) {
    let who = anyone();
    let open = f.start(&who, "s0", "open").await;
    let mut tasks = JoinSet::new();
    for round in 0..4 {
        for command in history() {
            let ledger = f.ledger.clone();
            tasks.spawn(async move { ledger.put(command).await.unwrap() });
        }
        for n in 0..10 {
            let (ledger, who) = (f.ledger.clone(), who.clone());
            let batch = vec![keyed(&format!("a{n}"), "x"), keyed(&format!("b{n}"), "y")];
            let write = append(
                "s0",
                open.turn_id,
                batch,
                if round == 9 { Some(0) } else { None },
            );
            tasks.spawn(async move { ledger.put(cmd(&who, write)).await.unwrap() });
        }
    }
    let outcomes = tasks.join_all().await;
    let firsts = |o: &&Outcome| {
        matches!(
            o,
            Outcome::Appended {
                replayed: false,
                ..
            }
        ) || matches!(o, Outcome::Turn(t, _) if !t.replayed)
    };
    assert_eq!(outcomes.iter().filter(firsts).count(), 18);
    assert_eq!(f.last_seq(&who, "s0").await, 1 + 4 * 3 + 20);
    assert_eq!(f.last_seq(&who, "s1").await, 4 * 3);
    f.assert_intact().await;
}

pub async fn one_start_wins(f: &Fixture) {
    let who = anyone();
    let mut tasks = JoinSet::new();
    for n in 0..16 {
        let (ledger, who) = (f.ledger.clone(), who.clone());
        tasks.spawn(async move {
            let command = start(&who, "s", "r", &format!("body {}", n % 4));
            match ledger
                .put(cmd(&who, Write::Start(Arc::new(command))))
                .await
                .unwrap()
            {
                Outcome::Turn(turn, _) => *turn,
                other => panic!("{other:?}"),
            }
        });
    }
    let turns = tasks.join_all().await;
    assert_eq!(turns.iter().filter(|t| !t.replayed).count(), 1);
    assert_eq!(turns.iter().filter(|t| t.differs).count(), 12);
    assert!(
        turns
            .iter()
            .all(|t| t.question_neutral == turns[0].question_neutral)
    );
    assert_eq!(f.last_seq(&who, "s").await, 1);
}

pub async fn one_close_wins(f: &Fixture) {
    let who = anyone();
    let turn = f.start(&who, "s", "r").await;
    let id: TurnId = turn.turn_id;
    let wins = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for n in 0..16 {
        let (ledger, who, wins) = (f.ledger.clone(), who.clone(), wins.clone());
        tasks.spawn(async move {
            let write = finalize("s", id, Some(&format!("answer {n}")));
            if ledger.put(cmd(&who, write)).await.is_ok() {
                wins.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(wins.load(std::sync::atomic::Ordering::SeqCst), 1);
    let turn = f.ledger.turn(&who, &sid("s"), id).await.unwrap();
    assert_eq!((turn.status, turn.last_seq), (TurnStatus::Finalized, 2));
    assert_ne!(body("x"), body("y"));
    f.assert_intact().await;
}
