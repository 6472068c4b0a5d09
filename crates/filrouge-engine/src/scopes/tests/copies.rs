//! After any history, every response from a copy equals the ledger's response byte for byte.

use std::collections::BTreeMap;

use filrouge_store::hot::{HotBounds, HotStore};

use super::history::{CopyEffect, Random, TestedHistory};
use super::world::{TierWorld, page_of, sid, user};
use crate::scopes::DurablePolicy;

/// Compares the answers for several limits; returns the numbers of requests and of hits of the copy.
async fn compare(world: &TierWorld, history: &TestedHistory<'_>, context: &str) -> (u64, u64) {
    let (mut requests, mut hits) = (0, 0);
    for limit in [1, 2, 3, 7, 40] {
        let expected = world.page(&history.scope, &history.session, limit).await;
        let (scope, session) = (&history.scope, &history.session);
        let recent = history.process.tiers.recent_turns(scope, session, limit);
        let recent = recent.await;
        match (recent, expected) {
            (Ok(recent), Ok(expected)) => {
                requests += 1;
                if let Some(recent) = recent {
                    assert_eq!(recent.as_of_seq, None);
                    assert_eq!(page_of(recent), expected, "{context}, limit {limit}");
                    hits += 1;
                }
            }
            (recent, expected) => assert_eq!(recent.map(|_| ()), expected.map(|_| ()), "{context}"),
        }
    }
    (requests, hits)
}

#[tokio::test]
async fn a_copy_and_the_ledger_give_the_same_answers() {
    let (mut requests, mut hits, mut updated) = (0, 0, 0);
    for seed in 1..=10 {
        let world = TierWorld::new(DurablePolicy::All);
        let process = world.process();
        let mut history = TestedHistory {
            process: &process,
            bypass: world.bypass(),
            scope: user("ada"),
            session: sid("s"),
            random: Random(seed * 0x9e37_79b9),
            requests: 0,
            turns: BTreeMap::new(),
        };
        let mut is_copied = false;
        for step in 0..60 {
            let context = format!("seed {seed}, step {step}");
            let effect = history.step().await;
            world.tick();
            if history.random.below(4) == 0 {
                // Compares at once, while the step is still queued.
                compare(&world, &history, &context).await;
            }
            process.tiers.flush().await;
            let (compared, step_hits) = compare(&world, &history, &context).await;
            if is_copied && effect != CopyEffect::Invalidates && compared > 0 {
                assert_eq!(step_hits, compared, "{context}: the copy was not updated");
                updated += 1;
            }
            (requests, hits) = (requests + compared, hits + step_hits);
            // A missing copy was rebuilt.
            process.tiers.flush().await;
            let (compared, step_hits) = compare(&world, &history, &context).await;
            let (session, scope) = (&history.session, &history.scope);
            let is_empty = process
                .ledger()
                .session(scope, session)
                .await
                .map_or(0, |s| s.last_seq)
                == 0;
            assert!(
                step_hits == compared || is_empty,
                "{context}: {step_hits} of {compared} after it was rebuilt"
            );
            is_copied = compared > 0 && step_hits == compared;
        }
        let report = process.ledger().verify(None).await.unwrap();
        assert!(report.findings.is_empty(), "{report:?}");
    }
    assert!(
        requests > 2_500 && hits * 10 > requests * 7,
        "{hits} of {requests}"
    );
    assert!(updated > 300, "{updated} steps updated the copy");
}

/// The ledger answers requests that the bounded copy cannot answer.
#[tokio::test]
async fn a_bounded_copy_answers_requests_within_its_bounds() {
    let bounds = HotBounds {
        turns: 10,
        bytes: 40_000,
        ..HotBounds::default()
    };
    let world = TierWorld::bounded(DurablePolicy::All, bounds);
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    for n in 0..30 {
        process
            .complete_turn(&ada, &s, &format!("r{n}"))
            .await
            .unwrap();
        process.tiers.flush().await;
    }
    for (limit, is_hit) in [(1, true), (9, true), (10, false), (11, false), (40, false)] {
        let before = process.tiers.counts().recent_hits;
        let page = process.page(&ada, &s, limit).await.unwrap();
        assert_eq!(page, world.page(&ada, &s, limit).await.unwrap(), "{limit}");
        process.tiers.flush().await;
        let hits = process.tiers.counts().recent_hits - before;
        assert_eq!(hits == 1, is_hit, "{limit}");
    }
    // A copy whose bounds are too small for a request is not rebuilt for every request.
    let fills = process.tiers.counts().recent_fills;
    for _ in 0..5 {
        process.page(&ada, &s, 11).await.unwrap();
        process.tiers.flush().await;
    }
    assert!(process.tiers.counts().recent_fills <= fills + 1);
    let copy = world
        .hot
        .recent(&world.key(&s), 100)
        .await
        .unwrap()
        .unwrap();
    assert!(copy.turns.len() <= 10 && !copy.all);
}

/// A record that was changed in the hot store is not returned.
#[tokio::test]
async fn a_changed_record_is_not_returned() {
    let world = TierWorld::new(DurablePolicy::All);
    let process = world.process();
    let (s, ada) = (sid("s"), user("ada"));
    let key = world.key(&s);
    for request in ["a", "b"] {
        process.complete_turn(&ada, &s, request).await.unwrap();
    }
    process.tiers.flush().await;
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
        let before = process.tiers.counts().recent_unreadable;
        assert_eq!(process.page(&ada, &s, 9).await.unwrap(), expected);
        assert_eq!(process.tiers.counts().recent_unreadable, before + 1);
        // The copy is rebuilt.
        process.tiers.flush().await;
        let hits = process.tiers.counts().recent_hits;
        assert_eq!(process.page(&ada, &s, 9).await.unwrap(), expected);
        assert_eq!(process.tiers.counts().recent_hits, hits + 1);
    }
}

/// Concurrent writers of one session queue their steps in any order; another process writes as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writers_leave_a_correct_copy() {
    let world = TierWorld::new(DurablePolicy::All);
    let processes = [world.process(), world.process()];
    let (s, ada) = (sid("s"), user("ada"));
    let writers = (0..8).map(|writer| {
        let (process, s, ada) = (&processes[writer % 2], s.clone(), ada.clone());
        async move {
            for n in 0..25 {
                process
                    .complete_turn(&ada, &s, &format!("{writer}.{n}"))
                    .await
                    .unwrap();
                process.page(&ada, &s, 5).await.unwrap();
            }
        }
    });
    let mut running: Vec<_> = writers.map(Box::pin).collect();
    std::future::poll_fn(|cx| {
        running.retain_mut(|writer| writer.as_mut().poll(cx).is_pending());
        if running.is_empty() {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    for process in &processes {
        process.tiers.flush().await;
    }
    let expected = world.page(&ada, &s, 300).await.unwrap();
    assert_eq!(expected.0.len(), 200);
    for process in &processes {
        for _ in 0..3 {
            assert_eq!(process.page(&ada, &s, 300).await.unwrap(), expected);
            process.tiers.flush().await;
        }
        assert!(process.tiers.counts().recent_hits > 0);
    }
}
