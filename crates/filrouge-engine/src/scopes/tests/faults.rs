//! A hot store that fails at random, in any call, before or after the call takes effect. Answers about durable sessions
//! equal those of a ledger without a hot store. Answers about ephemeral sessions are correct, or failures.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use filrouge_store::Scope;
use filrouge_store::read::TurnQuery;
use filrouge_types::{
    Channel, ErrorCode, Failure, ItemBody, ItemId, RawJson, Role, SessionId, TurnId,
};

use super::history::Random;
use super::stores::FailureSwitch;
use super::world::{TierWorld, anonymous, sid, user};
use crate::caller::Caller;
use crate::scopes::DurablePolicy;
use crate::{AppendItems, CancelTurn, CreateSession, Engine, FinalizeTurn, RedactTurn, StartTurn};

/// A request that is made to two engines.
#[derive(Debug, Clone)]
enum Request {
    Create,
    Start(usize),
    Complete(usize),
    Append(usize, usize),
    Finalize(usize, usize),
    Cancel(usize),
    Redact(usize),
    Show(usize),
    List(usize),
    Items,
}

fn random_requests(random: &mut Random, count: usize) -> Vec<Request> {
    let mut requests = vec![Request::Create];
    for n in 0..count {
        let turn = random.below(n / 3 + 1);
        requests.push(match random.below(12) {
            0 | 1 => Request::Start(turn),
            2 | 3 => Request::Complete(turn),
            4 => Request::Append(turn, random.below(4)),
            5 | 6 => Request::Finalize(turn, random.below(2)),
            7 => Request::Cancel(turn),
            8 => Request::Redact(turn),
            9 => Request::Show(turn),
            10 => Request::List(random.below(8) + 1),
            _ => Request::Items,
        });
    }
    requests
}

/// The part of an answer that a retry repeats.
type Answer = Result<String, ErrorCode>;

fn without_replay<T: serde::Serialize>(answer: Result<T, Failure>) -> Answer {
    let json = answer.map(|value| serde_json::to_string(&value).unwrap());
    let json = json.map_err(|failure| failure.code)?;
    Ok(json.replace(r#""replayed":true"#, r#""replayed":false"#))
}

async fn execute(
    engine: &Engine,
    world: &TierWorld,
    scope: &Scope,
    s: &SessionId,
    request: &Request,
) -> Answer {
    let id = |n: &usize| -> TurnId {
        let request_id = format!("r{n}").parse().unwrap();
        world.keyring.turn_id(&scope.tenant, s, &request_id)
    };
    let text = super::world::text;
    let start = |n: &usize| StartTurn {
        question_neutral: text(&format!("what is {n}")),
        ..StartTurn::new(format!("r{n}").parse().unwrap())
    };
    match request {
        Request::Create => {
            let create = CreateSession {
                session_id: Some(s.clone()),
                ..CreateSession::default()
            };
            without_replay(
                engine
                    .sessions
                    .create(&Caller::from(scope), create)
                    .await
                    .map(|session| session.value),
            )
        }
        Request::Start(n) => without_replay(
            engine
                .turns
                .start(&Caller::from(scope), s.clone(), start(n))
                .await
                .map(|t| t.value),
        ),
        Request::Complete(n) => {
            let start = StartTurn {
                answer_neutral: text("that"),
                ..start(n)
            };
            without_replay(
                engine
                    .turns
                    .start(&Caller::from(scope), s.clone(), start)
                    .await
                    .map(|t| t.value),
            )
        }
        Request::Append(n, item) => {
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
            without_replay(appended.map(|a| (a.value.first_seq, a.value.last_seq)))
        }
        Request::Finalize(n, answer) => {
            let finalize = FinalizeTurn {
                answer_neutral: text(&format!("it is {answer}")),
                ..FinalizeTurn::default()
            };
            without_replay(
                engine
                    .turns
                    .finalize(&Caller::from(scope), s.clone(), id(n), finalize)
                    .await
                    .map(|t| t.value),
            )
        }
        Request::Cancel(n) => {
            let cancelled = engine
                .turns
                .cancel(
                    &Caller::from(scope),
                    s.clone(),
                    id(n),
                    CancelTurn::default(),
                )
                .await;
            without_replay(cancelled.map(|t| t.value))
        }
        Request::Redact(n) => {
            let reason = RedactTurn { reason: "r".into() };
            let erasure = &engine.erasure;
            let caller = Caller::from(scope);
            let redacted = erasure.redact_turn(&caller, s.clone(), id(n), reason).await;
            without_replay(redacted.map(|turn| turn.value))
        }
        Request::Show(n) => without_replay(engine.turns.get(&Caller::from(scope), s, id(n)).await),
        Request::List(limit) => list(engine, scope, s, *limit).await,
        Request::Items => without_replay(engine.turns.items(&Caller::from(scope), s, 0, 500).await),
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
    without_replay(
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
            let (world, reference_world) = (TierWorld::new(durable), TierWorld::new(durable));
            let switch = Arc::new(FailureSwitch::random(seed, 300));
            let process = world.process_with(Arc::default(), switch);
            let reference = reference_world.bypass();
            let (s, ada) = (sid("s"), user("ada"));
            let requests = random_requests(&mut Random(seed * 7919), 80);
            for (n, request) in requests.iter().enumerate() {
                let answer = execute(&process.engine, &world, &ada, &s, request).await;
                let expected = execute(&reference, &reference_world, &ada, &s, request).await;
                assert_eq!(answer, expected, "seed {seed}, {durable}, {n}: {request:?}");
                world.tick();
                reference_world.tick();
                if n % 3 == 0 {
                    process.tiers.flush().await;
                }
            }
            failures += process.tiers.counts().hot_failures;
        }
    }
    assert!(failures > 200, "{failures} failures");
}

#[tokio::test]
async fn ephemeral_answers_are_correct_or_failures() {
    let (mut failures, mut retries) = (0, 0);
    for seed in 1..=40 {
        let (world, reference_world) = (
            TierWorld::new(DurablePolicy::Authenticated),
            TierWorld::new(DurablePolicy::All),
        );
        let switches = [
            Arc::new(FailureSwitch::random(seed, 200)),
            Arc::new(FailureSwitch::random(!seed, 200)),
        ];
        let processes = switches.map(|switch| world.process_with(Arc::default(), switch));
        let reference = reference_world.bypass();
        let (s, scope) = (sid("s"), anonymous());
        let mut random = Random(seed * 104_729);
        for (n, request) in random_requests(&mut random, 60).iter().enumerate() {
            let expected = execute(&reference, &reference_world, &scope, &s, request).await;
            let mut answer = Err(ErrorCode::HotUnavailable);
            while answer == Err(ErrorCode::HotUnavailable) {
                let process = &processes[random.below(2)];
                answer = execute(&process.engine, &world, &scope, &s, request).await;
                retries += 1;
            }
            assert_eq!(answer, expected, "seed {seed}, {n}: {request:?}");
            world.tick();
            reference_world.tick();
        }
        let hot_failures = processes.map(|process| process.tiers.counts().hot_failures);
        failures += hot_failures.iter().sum::<u64>();
    }
    assert!(
        failures > 500 && retries > 40 * 60 + 400,
        "{failures} failures, {retries} retries"
    );
}

/// The session is lost between two calls. Every request about its turns is answered that they have expired, until the
/// session is created again.
#[tokio::test]
async fn a_lost_session_is_never_partly_present() {
    use filrouge_store::hot::HotStore;
    for seed in 1..=20 {
        let world = TierWorld::new(DurablePolicy::Authenticated);
        let process = world.process();
        let (s, scope) = (sid("s"), anonymous());
        let mut random = Random(seed * 31);
        for request in 0..5 {
            process
                .complete_turn(&scope, &s, &format!("r{request}"))
                .await
                .unwrap();
        }
        world.hot.forget(&world.key(&s), None).await.unwrap();
        for request in random_requests(&mut random, 20).iter().skip(1) {
            if matches!(request, Request::Start(_) | Request::Complete(_)) {
                continue;
            }
            let answer = execute(&process.engine, &world, &scope, &s, request).await;
            let expected = match request {
                Request::List(_) | Request::Items => ErrorCode::SessionNotFound,
                _ => ErrorCode::TurnExpired,
            };
            assert_eq!(answer, Err(expected), "{request:?}");
        }
        let query = TurnQuery {
            limit: 10,
            ..TurnQuery::default()
        };
        process.complete_turn(&scope, &s, "new").await.unwrap();
        let (turns, _) = process.ledger().turns(&scope, &s, query).await.unwrap();
        assert_eq!(turns.len(), 1, "turns of the lost session do not return");
        assert!(process.hot_switch.calls.load(Ordering::Relaxed) > 0);
    }
}
