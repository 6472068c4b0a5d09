use std::sync::Arc;

use filrouge_store::hot::HotStore;
use filrouge_types::{ErrorCode, TurnId};

use super::stores::Fate;
use super::world::{World, code, nobody, sid, user};
use crate::scopes::DurablePolicy;

/// A process dies between any two steps of a login; the next one goes on from there.
#[tokio::test]
async fn a_login_goes_on_after_a_kill_at_any_step() {
    let mut kills = 0;
    for done in [false, true] {
        for calls in 0.. {
            let world = World::new(DurablePolicy::Authenticated);
            let first = world.process();
            let s = sid("s");
            let mut ids: Vec<TurnId> = Vec::new();
            for request in ["a", "b"] {
                ids.push(first.whole(&nobody(), &s, request).await.unwrap().turn_id);
                world.tick();
            }
            ids.push(first.start(&nobody(), &s, "c").await.unwrap().turn_id);
            let before = first.turns(&nobody(), &s).await.unwrap();
            // One fate for both ways: it is the process that dies.
            let fate = Arc::new(Fate::dies_after(calls, done));
            let dying = world.process_with(fate.clone(), fate.clone());
            let died = dying.whole(&user("ada"), &s, "d").await;
            let killed = fate.is_dead();
            assert_eq!(died.is_err(), killed && died.is_err(), "{calls}");
            if died.is_err() {
                kills += 1;
            }
            // Whoever else comes in between gets nothing that is not theirs.
            let next = world.process();
            if let Ok(turns) = next.turns(&user("bob"), &s).await {
                assert_eq!(turns, before, "not linked yet");
                assert!(next.turns(&nobody(), &s).await.is_ok());
            }
            let turn = next.whole(&user("ada"), &s, "d").await.unwrap();
            ids.push(turn.turn_id);
            let turns = next.turns(&user("ada"), &s).await.unwrap();
            let found: Vec<TurnId> = turns.iter().map(|t| t.turn_id).collect();
            assert_eq!(found, ids, "killed after {calls}, done: {done}");
            assert_eq!(turns[..3], before[..], "killed after {calls}, done: {done}");
            assert_eq!(
                code(next.turns(&nobody(), &s).await),
                ErrorCode::SessionNotFound
            );
            let left = world.hot.load(&world.key(&s)).await.unwrap();
            assert_eq!(left, None, "killed after {calls}, done: {done}");
            assert!(
                next.ledger()
                    .verify(None)
                    .await
                    .unwrap()
                    .findings
                    .is_empty()
            );
            if !killed {
                break;
            }
        }
    }
    assert!(kills >= 10, "{kills} steps");
}

/// A redaction of an ephemeral session that was killed is finished by doing it again.
#[tokio::test]
async fn a_redaction_goes_on_after_a_kill_at_any_step() {
    let mut kills = 0;
    for done in [false, true] {
        for calls in 0.. {
            let world = World::new(DurablePolicy::Authenticated);
            let first = world.process();
            let s = sid("s");
            let turn = first.whole(&nobody(), &s, "secret").await.unwrap().turn_id;
            let old = world.hot.load(&world.key(&s)).await.unwrap().unwrap();
            let fate = Arc::new(Fate::dies_after(calls, done));
            let dying = world.process_with(fate.clone(), fate.clone());
            let died = dying.redact(&nobody(), &s, turn).await;
            let killed = fate.is_dead();
            if died.is_err() {
                kills += 1;
                world.process().redact(&nobody(), &s, turn).await.unwrap();
            }
            // Once it was acknowledged, no older dump brings it back.
            let key = world.key(&s);
            world.hot.forget(&key, None).await.unwrap();
            world.dump.lock().unwrap().sessions.insert(key, old);
            let next = world.process();
            let shown = next.turns(&nobody(), &s).await;
            assert_eq!(
                code(shown),
                ErrorCode::SessionNotFound,
                "killed after {calls}, done: {done}"
            );
            if !killed {
                break;
            }
        }
    }
    assert!(kills >= 4, "{kills} steps");
}
