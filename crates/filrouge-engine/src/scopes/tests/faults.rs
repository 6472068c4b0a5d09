//! A hot store that fails at random, in any call, before or after it has done what was asked: durable answers are those
//! of a ledger without one; ephemeral ones are right, or none.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use filrouge_store::Scope;
use filrouge_store::read::TurnQuery;
use filrouge_types::{
    Channel, ErrorCode, Failure, ItemBody, ItemId, RawJson, Role, SessionId, TurnId,
};

use super::history::Dice;
use super::stores::Fate;
use super::world::{World, nobody, sid, user};
use crate::caller::Caller;
use crate::scopes::DurablePolicy;
use crate::{AppendItems, CancelTurn, CreateSession, Engine, FinalizeTurn, RedactTurn, StartTurn};

/// What is asked of two engines.
#[derive(Debug, Clone)]
enum Ask {
    Create,
    Start(usize),
    Whole(usize),
    Append(usize, usize),
    Finalize(usize, usize),
    Cancel(usize),
    Redact(usize),
    Show(usize),
    List(usize),
    Items,
}

fn asks(dice: &mut Dice, count: usize) -> Vec<Ask> {
    let mut asks = vec![Ask::Create];
    for n in 0..count {
        let turn = dice.throw(n / 3 + 1);
        asks.push(match dice.throw(12) {
            0 | 1 => Ask::Start(turn),
            2 | 3 => Ask::Whole(turn),
            4 => Ask::Append(turn, dice.throw(4)),
            5 | 6 => Ask::Finalize(turn, dice.throw(2)),
            7 => Ask::Cancel(turn),
            8 => Ask::Redact(turn),
            9 => Ask::Show(turn),
            10 => Ask::List(dice.throw(8) + 1),
            _ => Ask::Items,
        });
    }
    asks
}

/// An answer, as far as a retry gives it again.
type Answer = Result<String, ErrorCode>;

fn told<T: serde::Serialize>(answer: Result<T, Failure>) -> Answer {
    let json = answer.map(|value| serde_json::to_string(&value).unwrap());
    let json = json.map_err(|failure| failure.code)?;
    Ok(json.replace(r#""replayed":true"#, r#""replayed":false"#))
}

async fn answer(engine: &Engine, world: &World, scope: &Scope, s: &SessionId, ask: &Ask) -> Answer {
    let id = |n: &usize| -> TurnId {
        let request = format!("r{n}").parse().unwrap();
        world.keyring.turn_id(&scope.tenant, s, &request)
    };
    let text = super::world::text;
    let start = |n: &usize| StartTurn {
        question_neutral: text(&format!("what is {n}")),
        ..StartTurn::new(format!("r{n}").parse().unwrap())
    };
    match ask {
        Ask::Create => {
            let create = CreateSession {
                session_id: Some(s.clone()),
                ..CreateSession::default()
            };
            told(
                engine
                    .sessions
                    .create(&Caller::from(scope), create)
                    .await
                    .map(|session| session.value),
            )
        }
        Ask::Start(n) => told(
            engine
                .turns
                .start(&Caller::from(scope), s.clone(), start(n))
                .await
                .map(|t| t.value),
        ),
        Ask::Whole(n) => {
            let start = StartTurn {
                answer_neutral: text("that"),
                ..start(n)
            };
            told(
                engine
                    .turns
                    .start(&Caller::from(scope), s.clone(), start)
                    .await
                    .map(|t| t.value),
            )
        }
        Ask::Append(n, item) => {
            let parts = RawJson::parse(r#"[{"type":"text","text":"saw"}]"#).unwrap();
            let key: ItemId = format!("{n}.{item}").parse().unwrap();
            let item = ItemBody {
                item_id: Some(key),
                ..ItemBody::new(Role::Assistant, Channel::Observation, parts)
            };
            let append = AppendItems {
                items: vec![item],
                expected_seq: None,
                fence: None,
                release: false,
            };
            let appended = engine
                .turns
                .append(&Caller::from(scope), s.clone(), id(n), append)
                .await;
            told(appended.map(|a| (a.value.first_seq, a.value.last_seq)))
        }
        Ask::Finalize(n, answer) => {
            let finalize = FinalizeTurn {
                answer_neutral: text(&format!("it is {answer}")),
                ..FinalizeTurn::default()
            };
            told(
                engine
                    .turns
                    .finalize(&Caller::from(scope), s.clone(), id(n), finalize)
                    .await
                    .map(|t| t.value),
            )
        }
        Ask::Cancel(n) => {
            let cancelled = engine
                .turns
                .cancel(
                    &Caller::from(scope),
                    s.clone(),
                    id(n),
                    CancelTurn::default(),
                )
                .await;
            told(cancelled.map(|t| t.value))
        }
        Ask::Redact(n) => {
            let reason = RedactTurn { reason: "r".into() };
            let erasure = &engine.erasure;
            let caller = Caller::from(scope);
            let redacted = erasure.redact_turn(&caller, s.clone(), id(n), reason).await;
            told(redacted.map(|turn| turn.value))
        }
        Ask::Show(n) => told(engine.turns.get(&Caller::from(scope), s, id(n)).await),
        Ask::List(limit) => list(engine, scope, s, *limit).await,
        Ask::Items => told(engine.turns.items(&Caller::from(scope), s, 0, 500).await),
    }
}

async fn list(engine: &Engine, scope: &Scope, s: &SessionId, limit: usize) -> Answer {
    let recent = engine.core.recent_turns(scope, s, limit).await;
    if let Some(recent) = recent.map_err(|failure| failure.code)? {
        let (turns, next) = super::world::page_of(recent);
        return Ok(format!(
            "[[{}],{}]",
            turns.join(","),
            serde_json::to_string(&next).unwrap()
        ));
    }
    told(
        engine
            .ledger()
            .turns(scope, s, super::world::query(limit))
            .await,
    )
}

#[tokio::test]
async fn durable_answers_do_not_depend_on_the_hot_store() {
    let mut failures = 0;
    for seed in 1..=30 {
        for durable in [DurablePolicy::All, DurablePolicy::Authenticated] {
            let (world, plain) = (World::new(durable), World::new(durable));
            let fate = Arc::new(Fate::random(seed, 300));
            let process = world.process_with(Arc::default(), fate);
            let reference = plain.bypass();
            let (s, ada) = (sid("s"), user("ada"));
            for (n, ask) in asks(&mut Dice(seed * 7919), 80).iter().enumerate() {
                let ours = answer(&process.engine, &world, &ada, &s, ask).await;
                let theirs = answer(&reference, &plain, &ada, &s, ask).await;
                assert_eq!(ours, theirs, "seed {seed}, {durable}, {n}: {ask:?}");
                world.tick();
                plain.tick();
                if n % 3 == 0 {
                    process.scopes.settle().await;
                }
            }
            failures += process.scopes.counts().hot_failures;
        }
    }
    assert!(failures > 200, "{failures} failures");
}

#[tokio::test]
async fn ephemeral_answers_are_right_or_none() {
    let (mut failures, mut retries) = (0, 0);
    for seed in 1..=40 {
        let (world, plain) = (
            World::new(DurablePolicy::Authenticated),
            World::new(DurablePolicy::All),
        );
        let fates = [
            Arc::new(Fate::random(seed, 200)),
            Arc::new(Fate::random(!seed, 200)),
        ];
        let processes = fates.map(|fate| world.process_with(Arc::default(), fate));
        let reference = plain.bypass();
        let (s, scope) = (sid("s"), nobody());
        let mut dice = Dice(seed * 104_729);
        for (n, ask) in asks(&mut dice, 60).iter().enumerate() {
            let theirs = answer(&reference, &plain, &scope, &s, ask).await;
            let mut ours = Err(ErrorCode::HotUnavailable);
            while ours == Err(ErrorCode::HotUnavailable) {
                let process = &processes[dice.throw(2)];
                ours = answer(&process.engine, &world, &scope, &s, ask).await;
                retries += 1;
            }
            assert_eq!(ours, theirs, "seed {seed}, {n}: {ask:?}");
            world.tick();
            plain.tick();
        }
        let [one, two] = processes.map(|process| process.scopes.counts().hot_failures);
        failures += one + two;
    }
    assert!(
        failures > 500 && retries > 40 * 60 + 400,
        "{failures} failures, {retries} asked"
    );
}

/// The session is lost between two calls: whatever is asked of its turns has expired, until it begins anew.
#[tokio::test]
async fn a_lost_session_is_never_half_there() {
    use filrouge_store::hot::HotStore;
    for seed in 1..=20 {
        let world = World::new(DurablePolicy::Authenticated);
        let process = world.process();
        let (s, scope) = (sid("s"), nobody());
        let mut dice = Dice(seed * 31);
        for request in 0..5 {
            process
                .whole(&scope, &s, &format!("r{request}"))
                .await
                .unwrap();
        }
        world.hot.forget(&world.key(&s), None).await.unwrap();
        for ask in asks(&mut dice, 20).iter().skip(1) {
            if matches!(ask, Ask::Start(_) | Ask::Whole(_)) {
                continue;
            }
            let answer = answer(&process.engine, &world, &scope, &s, ask).await;
            let expected = match ask {
                Ask::List(_) | Ask::Items => ErrorCode::SessionNotFound,
                _ => ErrorCode::TurnExpired,
            };
            assert_eq!(answer, Err(expected), "{ask:?}");
        }
        let query = TurnQuery {
            limit: 10,
            ..TurnQuery::default()
        };
        process.whole(&scope, &s, "new").await.unwrap();
        let (turns, _) = process.ledger().turns(&scope, &s, query).await.unwrap();
        assert_eq!(turns.len(), 1, "what was there before is not mixed in");
        assert!(process.hot_fate.calls.load(Ordering::Relaxed) > 0);
    }
}
