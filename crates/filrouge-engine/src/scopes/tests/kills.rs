//! Processes that are killed between the steps of a login or a redaction.

use std::sync::Arc;

use filrouge_store::hot::HotStore;
use filrouge_types::{ErrorCode, TurnId};

use super::stores::FailureSwitch;
use super::world::{TierWorld, anonymous, code, sid, user};
use crate::scopes::DurablePolicy;

/// A process is killed between any two steps of a login; the next process continues from there.
#[tokio::test]
async fn a_login_continues_after_a_kill_at_any_step() {
    let mut kills = 0;
    for last_takes_effect in [false, true] {
        for calls in 0.. {
            let world = TierWorld::new(DurablePolicy::Authenticated);
            let first = world.process();
            let s = sid("s");
            let mut ids: Vec<TurnId> = Vec::new();
            for request in ["a", "b"] {
                ids.push(
                    first
                        .complete_turn(&anonymous(), &s, request)
                        .await
                        .unwrap()
                        .turn_id,
                );
                world.tick();
            }
            ids.push(first.start(&anonymous(), &s, "c").await.unwrap().turn_id);
            let before = first.turns(&anonymous(), &s).await.unwrap();
            // Both connections share one switch: the process is killed, not a store.
            let switch = Arc::new(FailureSwitch::dies_after(calls, last_takes_effect));
            let dying = world.process_with(switch.clone(), switch.clone());
            let written = dying.complete_turn(&user("ada"), &s, "d").await;
            let is_killed = switch.is_dead();
            assert!(written.is_ok() || is_killed, "{calls}");
            if written.is_err() {
                kills += 1;
            }
            // Meanwhile, other callers see only their own sessions.
            let next = world.process();
            if let Ok(turns) = next.turns(&user("bob"), &s).await {
                assert_eq!(turns, before, "the session is not linked yet");
                assert!(next.turns(&anonymous(), &s).await.is_ok());
            }
            let turn = next.complete_turn(&user("ada"), &s, "d").await.unwrap();
            ids.push(turn.turn_id);
            let turns = next.turns(&user("ada"), &s).await.unwrap();
            let turn_ids: Vec<TurnId> = turns.iter().map(|t| t.turn_id).collect();
            assert_eq!(
                turn_ids, ids,
                "killed after {calls}, last_takes_effect: {last_takes_effect}"
            );
            assert_eq!(
                turns[..3],
                before[..],
                "killed after {calls}, last_takes_effect: {last_takes_effect}"
            );
            assert_eq!(
                code(next.turns(&anonymous(), &s).await),
                ErrorCode::SessionNotFound
            );
            let hot_session = world.hot.load(&world.key(&s)).await.unwrap();
            assert_eq!(
                hot_session, None,
                "killed after {calls}, last_takes_effect: {last_takes_effect}"
            );
            assert!(
                next.ledger()
                    .verify(None)
                    .await
                    .unwrap()
                    .findings
                    .is_empty()
            );
            if !is_killed {
                break;
            }
        }
    }
    assert!(kills >= 10, "{kills} steps");
}

/// A retry completes the interrupted redaction of an ephemeral session.
#[tokio::test]
async fn a_redaction_continues_after_a_kill_at_any_step() {
    let mut kills = 0;
    for last_takes_effect in [false, true] {
        for calls in 0.. {
            let world = TierWorld::new(DurablePolicy::Authenticated);
            let first = world.process();
            let s = sid("s");
            let turn = first
                .complete_turn(&anonymous(), &s, "secret")
                .await
                .unwrap()
                .turn_id;
            let old = world.hot.load(&world.key(&s)).await.unwrap().unwrap();
            let switch = Arc::new(FailureSwitch::dies_after(calls, last_takes_effect));
            let dying = world.process_with(switch.clone(), switch.clone());
            let redacted = dying.redact(&anonymous(), &s, turn).await;
            let is_killed = switch.is_dead();
            if redacted.is_err() {
                kills += 1;
                world
                    .process()
                    .redact(&anonymous(), &s, turn)
                    .await
                    .unwrap();
            }
            // After the redaction was acknowledged, no older dump restores the contents.
            let key = world.key(&s);
            world.hot.forget(&key, None).await.unwrap();
            world.dump.lock().unwrap().sessions.insert(key, old);
            let next = world.process();
            let shown = next.turns(&anonymous(), &s).await;
            assert_eq!(
                code(shown),
                ErrorCode::SessionNotFound,
                "killed after {calls}, last_takes_effect: {last_takes_effect}"
            );
            if !is_killed {
                break;
            }
        }
    }
    assert!(kills >= 4, "{kills} steps");
}
