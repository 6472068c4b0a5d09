use std::sync::atomic::Ordering;

use filrouge_store::hot::HotStore;
use filrouge_types::{ErrorCode, TurnStatus};

use super::world::{Process, World, code, nobody, operator, sid, text, until, user};
use crate::StartTurn;
use crate::caller::Caller;
use crate::scopes::DurablePolicy;

async fn log_in(
    process: &Process,
    session: &str,
    name: &str,
    whole: bool,
) -> Result<(), ErrorCode> {
    let (scope, s) = (user(name), sid(session));
    let done = if whole {
        process.whole(&scope, &s, name).await.map(|_| ())
    } else {
        let identity = scope.viewer.identity().unwrap().clone();
        process
            .engine
            .sessions
            .link(&Caller::from(&scope), s, identity)
            .await
            .map(|_| ())
    };
    done.map_err(|failure| failure.code)
}

/// Two processes, two identities, one session: one of them gets it, whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_logins_at_once_one_wins() {
    let world = World::new(DurablePolicy::Authenticated);
    let (one, two) = (world.process(), world.process());
    let mut won = [0, 0];
    for round in 0..200 {
        let name = format!("s{round}");
        let s = sid(&name);
        let asked = one.whole(&nobody(), &s, "first").await.unwrap().turn_id;
        let open = two.start(&nobody(), &s, "second").await.unwrap().turn_id;
        let whole = round % 2 == 0;
        let (a, b) = tokio::join!(
            log_in(&one, &name, "ada", whole),
            log_in(&two, &name, "bob", whole)
        );
        let refused = |answer| {
            matches!(answer, Err(ErrorCode::SessionLinked))
                || whole && matches!(answer, Err(ErrorCode::SessionConflict))
        };
        let (winner, process, loser) = match (a, b) {
            (Ok(()), b) if refused(b) => ("ada", &one, &two),
            (a, Ok(())) if refused(a) => ("bob", &two, &one),
            answers => panic!("round {round}: {answers:?}"),
        };
        won[usize::from(winner == "bob")] += 1;
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
        assert_eq!(turns[0].turn_id, asked);
        assert_eq!(
            (turns[1].turn_id, turns[1].status),
            (open, TurnStatus::Finalized)
        );
        assert_eq!(turns.len(), if whole { 3 } else { 2 });
    }
    assert!(won[0] + won[1] == 200);
    let counts = [one.scopes.counts(), two.scopes.counts()];
    assert_eq!(counts.iter().map(|c| c.logins).sum::<u64>(), 200);
    assert_eq!(counts.iter().map(|c| c.backfilled_turns).sum::<u64>(), 400);
}

/// The first words of nobody and of somebody under one id: what was acknowledged is seen by who may see it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_and_somebody_begin_at_once() {
    let world = World::new(DurablePolicy::Authenticated);
    let (one, two) = (world.process(), world.process());
    let ada = user("ada");
    for round in 0..200 {
        let s = sid(&format!("s{round}"));
        let (anonymous, known) = (nobody(), ada.clone());
        let (a, b) = tokio::join!(one.whole(&anonymous, &s, "a"), two.whole(&known, &s, "b"));
        b.unwrap();
        let expected = match a {
            Ok(_) => 2,
            Err(failure) => {
                assert_eq!(failure.code, ErrorCode::SessionConflict);
                1
            }
        };
        // It is there at once, or with her next write.
        two.start(&ada, &s, "c").await.unwrap();
        let turns = two.turns(&ada, &s).await.unwrap();
        let closed = turns.iter().filter(|t| t.status == TurnStatus::Finalized);
        assert_eq!(closed.count(), expected, "round {round}");
    }
}

/// Nobody writes while somebody logs in: what was acknowledged is in the ledger.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_that_was_acknowledged_is_lost_by_a_login() {
    let world = World::new(DurablePolicy::Authenticated);
    let (one, two) = (world.process(), world.process());
    let ada = user("ada");
    for round in 0..100 {
        let s = sid(&format!("s{round}"));
        one.whole(&nobody(), &s, "before").await.unwrap();
        let writing = async {
            let mut acknowledged = 1;
            for n in 0..20 {
                match one.whole(&nobody(), &s, &format!("r{n}")).await {
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
            log_in(&two, &format!("s{round}"), "ada", false).await
        };
        let (acknowledged, linked) = tokio::join!(writing, linking);
        linked.unwrap();
        let turns = world.page(&ada, &s, 100).await.unwrap().0;
        assert_eq!(turns.len(), acknowledged, "round {round}");
    }
}

/// The name comes into the ledger while nobody writes under it: nobody is told that they were heard who will not be, and
/// what was acknowledged before comes to the owner.
#[tokio::test]
async fn a_name_that_comes_into_the_ledger_meanwhile() {
    for there in [false, true] {
        let world = World::new(DurablePolicy::Authenticated);
        let (first, process) = (world.process(), world.process());
        let (s, ada) = (sid("s"), user("ada"));
        if there {
            first.whole(&nobody(), &s, "a").await.unwrap();
        }
        // Its place is known once the hot store is asked.
        let fate = &process.hot_fate;
        *fate.held_from.lock().unwrap() = Some(0);
        let meanwhile = async {
            until("the write", async || fate.calls.load(Ordering::Relaxed) > 0).await;
            let start = StartTurn {
                question_neutral: text("b"),
                ..StartTurn::new("b".parse().unwrap())
            };
            let alone = world.bypass();
            alone
                .turns
                .start(&Caller::from(&ada), s.clone(), start)
                .await
                .unwrap();
            *fate.held_from.lock().unwrap() = None;
        };
        let anyone = nobody();
        let (written, ()) = tokio::join!(process.whole(&anyone, &s, "c"), meanwhile);
        assert_eq!(code(written), ErrorCode::SessionConflict);
        let held = world.hot.load(&world.key(&s)).await.unwrap();
        assert_eq!(held.is_some(), there);
        first.whole(&ada, &s, "d").await.unwrap();
        let turns = first.turns(&ada, &s).await.unwrap();
        let heard = turns.iter().any(|turn| turn.request_id.as_str() == "a");
        assert_eq!(heard, there);
    }
}
