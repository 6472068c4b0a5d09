//! Statistics: the counts of a session alone, with its descendants, and without copied messages.

use std::sync::Arc;

use filrouge_store::memory::MemoryLedger;
use filrouge_store::{Keyring, OsEntropy};
use filrouge_types::{FixedClock, RawJson, SessionId, TenantId, Turn};
use serde_json::{Value, json};

use super::{SessionStatistics, Statistics, Tokens};
use crate::caller::{Caller, Permission};
use crate::{CreateSession, Engine, RedactTurn, Settings, StartTurn};

struct World {
    engine: Engine,
    clock: Arc<FixedClock>,
    caller: Caller,
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap().block_on(future)
}

impl World {
    fn new() -> Self {
        let keyring = Arc::new(Keyring::single([7; 32]));
        let clock = Arc::new(FixedClock::at(1_700_000_000_000_000));
        let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), clock.clone());
        let settings = Settings::default();
        let engine = Engine::new(
            Arc::new(ledger),
            Arc::new(OsEntropy),
            clock.clone(),
            settings,
        );
        let ada = Some("ada".parse().unwrap());
        Self {
            engine,
            clock,
            caller: Caller::local(TenantId::default_tenant(), ada),
        }
    }

    fn create(&self, id: &str, parent: Option<&str>, metadata: Value) {
        let request = CreateSession {
            session_id: Some(id.parse().unwrap()),
            parent_session_id: parent.map(|p| p.parse().unwrap()),
            metadata: Some(RawJson::write(&metadata).unwrap()),
            ..CreateSession::default()
        };
        run(self.engine.sessions.create(&self.caller, request)).unwrap();
    }

    /// Writes a complete turn with `items` between question and answer.
    fn turn(&self, session: &str, request: &str, items: Value) -> Turn {
        let body = json!({ "request_id": request, "question_neutral": "?", "answer_neutral": "!", "items": items });
        let request: StartTurn = serde_json::from_value(body).unwrap();
        let session = session.parse().unwrap();
        let started = run(self.engine.turns.start(&self.caller, session, request));
        started.unwrap().into_value()
    }

    fn statistics(&self, id: &str) -> SessionStatistics {
        let id: SessionId = id.parse().unwrap();
        run(self.engine.stats.of(&self.caller, &id)).unwrap()
    }
}

fn observation(id: &str, input: u64) -> Value {
    json!({ "item_id": id, "role": "assistant", "channel": "observation", "agent": "build", "model": "mini",
        "usage": { "input_tokens": input, "output_tokens": 1 }, "parts": [{ "type": "text", "text": "." }] })
}

fn at(mut item: Value, time: &str) -> Value {
    item["occurred_at"] = json!(time);
    item
}

fn input(statistics: &Statistics) -> u64 {
    statistics.tokens.input
}

#[test]
fn one_session_is_counted() {
    let world = World::new();
    let call = |id: &str| json!({ "type": "tool_call", "call_id": id, "name": "ls", "args": {} });
    let result =
        |ok: bool| json!({ "type": "tool_result", "call_id": "1", "ok": ok, "content": "" });
    world.turn("s", "r1", json!([
        observation("a", 10),
        { "role": "assistant", "channel": "tool_call", "parts": [call("1"), call("2")], "agent": "plan" },
        { "role": "tool", "channel": "tool_result", "parts": [result(false), result(true)] },
        { "role": "tool", "channel": "tool_result", "parts": [{ "type": "tool_result", "ok": "false" }] },
        { "role": "user", "channel": "question", "parts": [{ "type": "file" }] },
        { "role": "assistant", "channel": "hitl_request", "parts": [] },
        { "role": "assistant", "channel": "thought", "parts": [], "usage": { "cost": 1 } },
        at(observation("old", 5), "2001-01-01T00:00:00Z"),
    ]));
    world.clock.advance(2_500_000);
    let body = json!({ "request_id": "r2", "question_translated": "¿?" });
    let request = serde_json::from_value(body).unwrap();
    run(world
        .engine
        .turns
        .start(&world.caller, "s".parse().unwrap(), request))
    .unwrap();
    let statistics = world.statistics("s");
    let own = &statistics.own;
    assert_eq!((own.sessions, own.turns, own.items), (1, 2, 12));
    let by_status = own.turns_by_status;
    assert_eq!(
        (by_status.finalized, by_status.open, by_status.failed),
        (1, 1, 0)
    );
    // Two questions (the file continues the first), an answer, and the request to the human.
    assert_eq!((own.messages, own.tool_calls, own.tool_errors), (4, 2, 1));
    let tokens = Tokens {
        input: 15,
        output: 2,
        ..Tokens::default()
    };
    assert_eq!((own.tokens, own.usage_unknown), (tokens, 1));
    let names = |names: &std::collections::BTreeSet<Box<str>>| {
        names.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        (names(&own.agents), names(&own.models)),
        (vec!["build".into(), "plan".into()], vec!["mini".to_owned()])
    );
    assert_eq!(
        own.first_at.unwrap().to_string(),
        "2001-01-01T00:00:00.000000Z"
    );
    assert_eq!(own.last_at.unwrap().as_micros(), 1_700_000_002_500_000);
    assert_eq!(own.duration_ms, Some(1_700_000_002_500 - 978_307_200_000));
    assert_eq!(
        (own, own),
        (&statistics.with_descendants, &statistics.without_copied)
    );
    assert!(!statistics.truncated);
}

#[test]
fn an_empty_session_has_no_duration() {
    let world = World::new();
    world.create("s", None, json!({}));
    let own = world.statistics("s").own;
    assert_eq!(
        (own.sessions, own.turns, own.items, own.duration_ms),
        (1, 0, 0, None)
    );
}

#[test]
fn replaced_turns_are_counted_as_items_and_redacted_turns_by_what_remains() {
    let world = World::new();
    let old = world.turn("s", "r", json!([observation("a", 1000)]));
    let body = json!({ "request_id": "r2", "question_neutral": "?", "answer_neutral": "!", "items": [observation("b", 7)] });
    let replacement = serde_json::from_value(body).unwrap();
    let sid: SessionId = "s".parse().unwrap();
    run(world
        .engine
        .turns
        .replace(&world.caller, sid.clone(), old.turn_id, replacement))
    .unwrap();
    let own = world.statistics("s").own;
    assert_eq!(
        (own.turns, own.items, own.messages, input(&own)),
        (1, 6, 2, 7)
    );

    let call = json!({ "role": "assistant", "channel": "tool_call", "parts": [{ "type": "tool_call", "call_id": "1" }] });
    let turn = world.turn("s", "r3", json!([call]));
    let before = world.statistics("s").own;
    let reason: RedactTurn = serde_json::from_value(json!({ "reason": "x" })).unwrap();
    run(world
        .engine
        .erasure
        .redact_turn(&world.caller, sid, turn.turn_id, reason))
    .unwrap();
    let after = world.statistics("s").own;
    assert_eq!(after.items, before.items + 1, "the redaction is an item");
    assert_eq!((after.turns, after.tool_calls), (before.turns, 1));
}

#[test]
fn descendants_are_added_and_others_are_not() {
    let world = World::new();
    world.create("p", None, json!({}));
    world.create("c", Some("p"), json!({}));
    world.create("g", Some("c"), json!({}));
    world.create("other", None, json!({}));
    for (n, session) in ["p", "c", "g", "other"].into_iter().enumerate() {
        // All sessions use one id for their item: ids are unique only in their session, so equal ids are not copies.
        world.turn(
            session,
            "r",
            json!([observation("1", 10_u64.pow(n as u32))]),
        );
    }
    let p = world.statistics("p");
    assert_eq!(
        (
            input(&p.own),
            input(&p.with_descendants),
            input(&p.without_copied)
        ),
        (1, 111, 111)
    );
    assert_eq!(
        (p.with_descendants.sessions, p.with_descendants.turns),
        (3, 3)
    );
    let c = world.statistics("c");
    assert_eq!((input(&c.own), input(&c.with_descendants)), (10, 110));
    let bob = Caller::local(TenantId::default_tenant(), Some("bob".parse().unwrap()));
    let refused = run(world.engine.stats.of(&bob, &"p".parse().unwrap())).unwrap_err();
    assert_eq!(refused.code.as_str(), "session_not_found");
}

#[test]
fn copies_among_a_session_and_its_descendants_are_counted_once() {
    let world = World::new();
    let origin = json!({ "origin": { "source": "opencode", "created": "2026-01-01T00:00:00Z" } });
    world.create("p", None, origin.clone());
    world.create("c", Some("p"), origin);
    world.turn(
        "p",
        "m1",
        json!([observation("prt_1", 1), observation("prt_2", 10)]),
    );
    world.turn(
        "c",
        "m1",
        json!([observation("prt_2~abcdefg", 10), observation("prt_3", 100)]),
    );
    let p = world.statistics("p");
    assert_eq!(
        (input(&p.with_descendants), input(&p.without_copied)),
        (121, 111)
    );
    assert_eq!((p.with_descendants.items, p.without_copied.items), (8, 7));
    assert_eq!(p.without_copied.turns, 2, "each session has its own items");

    // With a declared origin, items of equal origin and id are one item in two sessions, but two in one session.
    let with_origin = |id: Option<&str>, origin: &str| {
        let mut item = observation("", 3);
        item["item_id"] = json!(id);
        item["metadata"] = json!({ "origin": origin });
        item
    };
    world.create("q", None, json!({}));
    world.create("d", Some("q"), json!({}));
    world.turn(
        "q",
        "r",
        json!([with_origin(Some("1"), "x"), with_origin(Some("2"), "x")]),
    );
    world.turn(
        "q",
        "s",
        json!([with_origin(None, "z"), with_origin(None, "z")]),
    );
    world.turn(
        "d",
        "r",
        json!([
            with_origin(Some("1"), "x"),
            with_origin(Some("2"), "y"),
            with_origin(None, "z")
        ]),
    );
    let q = world.statistics("q");
    assert_eq!(
        (
            input(&q.own),
            input(&q.with_descendants),
            input(&q.without_copied)
        ),
        (12, 21, 15)
    );
}

#[test]
fn messages_older_than_their_session_are_copies() {
    let world = World::new();
    world.create(
        "fork",
        None,
        json!({ "origin": { "source": "opencode", "created": "2026-02-01T00:00:00Z" } }),
    );
    let record_turn = |request: &str, time: &str, tokens: u64| {
        let items = json!([at(observation(request, tokens), time)]);
        let mut body = json!({ "request_id": request, "question_neutral": "?", "items": items });
        body["items"].as_array_mut().unwrap().insert(
            0,
            at(
                json!({ "role": "user", "channel": "question", "parts": [] }),
                time,
            ),
        );
        let request: StartTurn = serde_json::from_value(body).unwrap();
        run(world
            .engine
            .turns
            .start(&world.caller, "fork".parse().unwrap(), request))
        .unwrap();
    };
    record_turn("copied", "2026-01-31T23:59:59.999Z", 1000);
    record_turn("own", "2026-02-01T00:00:00Z", 7);
    let fork = world.statistics("fork");
    assert_eq!((input(&fork.own), input(&fork.without_copied)), (1007, 7));
    assert_eq!(fork.own.items, fork.without_copied.items + 2);
}

#[test]
fn items_and_names_beyond_the_limits_are_omitted_and_reported() {
    let world = World::new();
    world.create("p", None, json!({}));
    world.turn("p", "r", json!([observation("1", 1)]));
    for (n, id) in ["a", "b"].into_iter().enumerate() {
        world.create(id, Some("p"), json!({}));
        world.turn(id, "r", json!([observation("1", 10_u64.pow(n as u32 + 1))]));
    }
    // Each session has three items. The limit does not apply to the session's own items.
    for (limit, counted, sessions) in [(2, 1, 1), (3, 11, 2), (5, 11, 2), (6, 111, 3)] {
        let (scope, id) = (world.caller.scope(Permission::Read), "p".parse().unwrap());
        let query = world
            .engine
            .ledger()
            .query(move |snapshot| super::statistics(snapshot, &scope?, id, limit));
        let p = run(query).unwrap();
        assert_eq!(input(&p.own), 1);
        let with_descendants = (input(&p.with_descendants), p.with_descendants.sessions);
        assert_eq!(
            (with_descendants, p.truncated),
            ((counted, sessions), sessions < 3)
        );
        assert_eq!(input(&p.without_copied), counted);
    }
    for (names, truncated) in [(super::NAMES_MAX, false), (super::NAMES_MAX + 1, true)] {
        let plan_of = |n| json!({ "role": "assistant", "channel": "plan", "parts": [], "agent": format!("a{n}") });
        let id = format!("many-{names}");
        world.turn(&id, "r", (0..names).map(plan_of).collect());
        let many = world.statistics(&id);
        assert_eq!(
            (many.own.agents.len(), many.truncated),
            (super::NAMES_MAX, truncated)
        );
    }
}
