//! Logins that race with each other and with anonymous writes.

use std::sync::atomic::Ordering;

use filrouge_store::hot::HotStore;
use filrouge_types::{ErrorCode, TurnStatus};

use super::world::{
    TierProcess, TierWorld, anonymous, code, operator, sid, text, user, wait_until,
};
use crate::StartTurn;
use crate::caller::Caller;
use crate::scopes::DurablePolicy;

/// Logs in with a turn or with a link.
async fn log_in(
    process: &TierProcess,
    session: &str,
    name: &str,
    by_turn: bool,
) -> Result<(), ErrorCode> {
    let (scope, s) = (user(name), sid(session));
    let result = if by_turn {
        process.complete_turn(&scope, &s, name).await.map(|_| ())
    } else {
        let identity = scope.viewer.identity().unwrap().clone();
        process
            .engine
            .sessions
            .link(&Caller::from(&scope), s, identity)
            .await
            .map(|_| ())
    };
    result.map_err(|failure| failure.code)
}

/// Two processes log in two identities to one session: one identity gets the complete session.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_of_two_concurrent_logins_wins() {
    let world = TierWorld::new(DurablePolicy::Authenticated);
    let (first, second) = (world.process(), world.process());
    let mut wins = [0, 0];
    for round in 0..200 {
        let name = format!("s{round}");
        let s = sid(&name);
        let first_turn = first
            .complete_turn(&anonymous(), &s, "first")
            .await
            .unwrap()
            .turn_id;
        let open = second
            .start(&anonymous(), &s, "second")
            .await
            .unwrap()
            .turn_id;
        let by_turn = round % 2 == 0;
        let (a, b) = tokio::join!(
            log_in(&first, &name, "ada", by_turn),
            log_in(&second, &name, "bob", by_turn)
        );
        let refused = |answer| {
            matches!(answer, Err(ErrorCode::SessionLinked))
                || by_turn && matches!(answer, Err(ErrorCode::SessionConflict))
        };
        let (winner, process, loser) = match (a, b) {
            (Ok(()), b) if refused(b) => ("ada", &first, &second),
            (a, Ok(())) if refused(a) => ("bob", &second, &first),
            answers => panic!("round {round}: {answers:?}"),
        };
        wins[usize::from(winner == "bob")] += 1;
        let owner = user(winner);
        let session = world.bypass();
        let session = session.ledger().session(&operator(), &s).await.unwrap();
        assert_eq!(
            session.identity_id,
            owner.viewer.identity().cloned(),
            "round {round}"
        );
        loser.finalize(&owner, &s, open, "done").await.unwrap();
        let turns = process.turns(&owner, &s).await.unwrap();
        assert_eq!(turns[0].turn_id, first_turn);
        assert_eq!(
            (turns[1].turn_id, turns[1].status),
            (open, TurnStatus::Finalized)
        );
        assert_eq!(turns.len(), if by_turn { 3 } else { 2 });
    }
    assert!(wins[0] + wins[1] == 200);
    let counts = [first.tiers.counts(), second.tiers.counts()];
    assert_eq!(counts.iter().map(|c| c.logins).sum::<u64>(), 200);
    assert_eq!(counts.iter().map(|c| c.backfilled_turns).sum::<u64>(), 400);
}

/// An anonymous and an identified caller write first to one id: every acknowledged write is visible to its owner.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_anonymous_and_an_identified_caller_create_a_session_concurrently() {
    let world = TierWorld::new(DurablePolicy::Authenticated);
    let (first, second) = (world.process(), world.process());
    let ada = user("ada");
    for round in 0..200 {
        let s = sid(&format!("s{round}"));
        let (anonymous, identified) = (anonymous(), ada.clone());
        let (a, b) = tokio::join!(
            first.complete_turn(&anonymous, &s, "a"),
            second.complete_turn(&identified, &s, "b")
        );
        b.unwrap();
        let expected = match a {
            Ok(_) => 2,
            Err(failure) => {
                assert_eq!(failure.code, ErrorCode::SessionConflict);
                1
            }
        };
        // The anonymous turn is in the ledger at once, or after ada's next write.
        second.start(&ada, &s, "c").await.unwrap();
        let turns = second.turns(&ada, &s).await.unwrap();
        let closed = turns.iter().filter(|t| t.status == TurnStatus::Finalized);
        assert_eq!(closed.count(), expected, "round {round}");
    }
}

/// Anonymous writes during a login: every acknowledged write is in the ledger.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_acknowledged_write_is_lost_by_a_login() {
    let world = TierWorld::new(DurablePolicy::Authenticated);
    let (first, second) = (world.process(), world.process());
    let ada = user("ada");
    for round in 0..100 {
        let s = sid(&format!("s{round}"));
        first
            .complete_turn(&anonymous(), &s, "before")
            .await
            .unwrap();
        let writing = async {
            let mut acknowledged = 1;
            for n in 0..20 {
                match first
                    .complete_turn(&anonymous(), &s, &format!("r{n}"))
                    .await
                {
                    Ok(_) => acknowledged += 1,
                    Err(failure) => {
                        assert_eq!(failure.code, ErrorCode::SessionConflict);
                        break;
                    }
                }
            }
            acknowledged
        };
        let linking = async {
            for _ in 0..round % 8 {
                tokio::task::yield_now().await;
            }
            log_in(&second, &format!("s{round}"), "ada", false).await
        };
        let (acknowledged, linked) = tokio::join!(writing, linking);
        linked.unwrap();
        let turns = world.page(&ada, &s, 100).await.unwrap().0;
        assert_eq!(turns.len(), acknowledged, "round {round}");
    }
}

/// The ledger gets a session of the same name while an anonymous caller writes to it. No write is acknowledged and then
/// lost, and earlier acknowledged writes go to the owner.
#[tokio::test]
async fn a_session_may_be_created_in_the_ledger_during_an_anonymous_write() {
    for has_existed in [false, true] {
        let world = TierWorld::new(DurablePolicy::Authenticated);
        let (other, process) = (world.process(), world.process());
        let (s, ada) = (sid("s"), user("ada"));
        if has_existed {
            other.complete_turn(&anonymous(), &s, "a").await.unwrap();
        }
        // The tier of the write is decided before the hot store is called.
        let switch = &process.hot_switch;
        *switch.held_from.lock().unwrap() = Some(0);
        let concurrent_write = async {
            wait_until("the write reaches the hot store", async || {
                switch.calls.load(Ordering::Relaxed) > 0
            })
            .await;
            let start = StartTurn {
                question_neutral: text("b"),
                ..StartTurn::new("b".parse().unwrap())
            };
            let bypass = world.bypass();
            bypass
                .turns
                .start(&Caller::from(&ada), s.clone(), start)
                .await
                .unwrap();
            *switch.held_from.lock().unwrap() = None;
        };
        let anyone = anonymous();
        let (written, ()) = tokio::join!(process.complete_turn(&anyone, &s, "c"), concurrent_write);
        assert_eq!(code(written), ErrorCode::SessionConflict);
        let hot_session = world.hot.load(&world.key(&s)).await.unwrap();
        assert_eq!(hot_session.is_some(), has_existed);
        other.complete_turn(&ada, &s, "d").await.unwrap();
        let turns = other.turns(&ada, &s).await.unwrap();
        let is_moved = turns.iter().any(|turn| turn.request_id.as_str() == "a");
        assert_eq!(is_moved, has_existed);
    }
}
