//! Whatever is answered from a copy is what the ledger answers, byte for byte, whatever has happened before.

use std::collections::BTreeMap;

use filrouge_store::hot::{HotBounds, HotStore};

use super::history::{Dice, History, Meant};
use super::world::{World, page_of, sid, user};
use crate::scopes::DurablePolicy;

/// Compares for several limits; gives how many were asked for and how many came from the copy.
async fn compare(world: &World, history: &History<'_>, what: &str) -> (u64, u64) {
    let (mut asked, mut hits) = (0, 0);
    for limit in [1, 2, 3, 7, 40] {
        let expected = world.page(&history.scope, &history.session, limit).await;
        let (scope, session) = (&history.scope, &history.session);
        let recent = history.process.scopes.recent_turns(scope, session, limit);
        let recent = recent.await;
        match (recent, expected) {
            (Ok(recent), Ok(expected)) => {
                asked += 1;
                if let Some(recent) = recent {
                    assert_eq!(recent.as_of_seq, None);
                    assert_eq!(page_of(recent), expected, "{what}, limit {limit}");
                    hits += 1;
                }
            }
            (recent, expected) => assert_eq!(recent.map(|_| ()), expected.map(|_| ()), "{what}"),
        }
    }
    (asked, hits)
}

#[tokio::test]
async fn a_copy_answers_what_the_ledger_answers() {
    let (mut asked, mut hits, mut went_on) = (0, 0, 0);
    for seed in 1..=10 {
        let world = World::new(DurablePolicy::All);
        let process = world.process();
        let mut history = History {
            process: &process,
            bypass: world.bypass(),
            scope: user("ada"),
            session: sid("s"),
            dice: Dice(seed * 0x9e37_79b9),
            requests: 0,
            turns: BTreeMap::new(),
        };
        let mut is_copied = false;
        for step in 0..60 {
            let what = format!("seed {seed}, step {step}");
            let meant = history.step().await;
            world.tick();
            if history.dice.throw(4) == 0 {
                // At once, while the step is on its way.
                compare(&world, &history, &what).await;
            }
            process.scopes.settle().await;
            let (now, found) = compare(&world, &history, &what).await;
            if is_copied && meant != Meant::Ends && now > 0 {
                assert_eq!(found, now, "{what}: the copy goes on");
                went_on += 1;
            }
            (asked, hits) = (asked + now, hits + found);
            // What was missed was made anew.
            process.scopes.settle().await;
            let (now, found) = compare(&world, &history, &what).await;
            let (session, scope) = (&history.session, &history.scope);
            let empty = process
                .ledger()
                .session(scope, session)
                .await
                .map_or(0, |s| s.last_seq)
                == 0;
            assert!(
                found == now || empty,
                "{what}: {found} of {now} once made anew"
            );
            is_copied = now > 0 && found == now;
        }
        let report = process.ledger().verify(None).await.unwrap();
        assert!(report.findings.is_empty(), "{report:?}");
    }
    assert!(asked > 2_500 && hits * 10 > asked * 7, "{hits} of {asked}");
    assert!(went_on > 300, "{went_on} steps went on");
}

/// Turns beyond what the hot store takes are left to the ledger.
#[tokio::test]
async fn a_bounded_copy_answers_what_it_reaches() {
    let bounds = HotBounds {
        turns: 10,
        bytes: 40_000,
        ..HotBounds::default()
    };
    let world = World::bounded(DurablePolicy::All, bounds);
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    for n in 0..30 {
        process.whole(&ada, &s, &format!("r{n}")).await.unwrap();
        process.scopes.settle().await;
    }
    for (limit, reached) in [(1, true), (9, true), (10, false), (11, false), (40, false)] {
        let before = process.scopes.counts().recent_hits;
        let page = process.page(&ada, &s, limit).await.unwrap();
        assert_eq!(page, world.page(&ada, &s, limit).await.unwrap(), "{limit}");
        process.scopes.settle().await;
        let hits = process.scopes.counts().recent_hits - before;
        assert_eq!(hits == 1, reached, "{limit}");
    }
    // One that is asked for again and again in vain is not made again and again.
    let fills = process.scopes.counts().recent_fills;
    for _ in 0..5 {
        process.page(&ada, &s, 11).await.unwrap();
        process.scopes.settle().await;
    }
    assert!(process.scopes.counts().recent_fills <= fills + 1);
    let copy = world
        .hot
        .recent(&world.key(&s), 100)
        .await
        .unwrap()
        .unwrap();
    assert!(copy.turns.len() <= 10 && !copy.all);
}

/// What was changed in the hot store is not answered.
#[tokio::test]
async fn a_changed_record_is_a_miss() {
    let world = World::new(DurablePolicy::All);
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    let key = world.key(&s);
    for request in ["a", "b"] {
        process.whole(&ada, &s, request).await.unwrap();
    }
    process.scopes.settle().await;
    let copy = world.hot.recent(&key, 9).await.unwrap().unwrap();
    let expected = world.page(&ada, &s, 9).await.unwrap();
    for change in 0..3 {
        let mut changed = copy.clone();
        match change {
            0 => *changed.turns[1].record.last_mut().unwrap() ^= 1,
            1 => changed.turns[0].record = changed.turns[1].record.clone(),
            _ => changed.turns[1].record.clear(),
        }
        world.dump.lock().unwrap().copies.insert(key, changed);
        let before = process.scopes.counts().recent_unreadable;
        assert_eq!(process.page(&ada, &s, 9).await.unwrap(), expected);
        assert_eq!(process.scopes.counts().recent_unreadable, before + 1);
        // It is made anew.
        process.scopes.settle().await;
        let hits = process.scopes.counts().recent_hits;
        assert_eq!(process.page(&ada, &s, 9).await.unwrap(), expected);
        assert_eq!(process.scopes.counts().recent_hits, hits + 1);
    }
}

/// Writers of one session overtake each other on their way to the queue; another process writes as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_writers_leave_a_copy_that_is_right() {
    let world = World::new(DurablePolicy::All);
    let processes = [world.process(), world.process()];
    let (s, ada) = (sid("s"), user("ada"));
    let writers = (0..8).map(|writer| {
        let (process, s, ada) = (&processes[writer % 2], s.clone(), ada.clone());
        async move {
            for n in 0..25 {
                process
                    .whole(&ada, &s, &format!("{writer}.{n}"))
                    .await
                    .unwrap();
                process.page(&ada, &s, 5).await.unwrap();
            }
        }
    });
    let mut writing: Vec<_> = writers.map(Box::pin).collect();
    std::future::poll_fn(|cx| {
        writing.retain_mut(|writer| writer.as_mut().poll(cx).is_pending());
        if writing.is_empty() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    for process in &processes {
        process.scopes.settle().await;
    }
    let expected = world.page(&ada, &s, 300).await.unwrap();
    assert_eq!(expected.0.len(), 200);
    for process in &processes {
        for _ in 0..3 {
            assert_eq!(process.page(&ada, &s, 300).await.unwrap(), expected);
            process.scopes.settle().await;
        }
        assert!(process.scopes.counts().recent_hits > 0);
    }
}
