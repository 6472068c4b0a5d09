//! Key figures: how events are counted, in which window, and in which rows of a report.

use std::sync::Arc;

use filrouge_store::memory::MemoryLedger;
use filrouge_store::{Keyring, OsEntropy};
use filrouge_types::{ErrorCode, FixedClock, TenantId, Timestamp};
use serde_json::json;

use super::{Every, KpiQuery, KpiReport, ServiceAgent, TechnicalStatus};
use crate::api_keys::Role;
use crate::caller::{Caller, CallerRole};
use crate::{CreateSession, Engine, RecordEvent, ResumeSession, Settings, StartTurn};

/// The time at which the tests' clocks start: a Sunday.
const NOW: &str = "2026-11-22T12:00:00Z";

struct World {
    engine: Engine,
    clock: Arc<FixedClock>,
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.unwrap().block_on(future)
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn operator(tenant: &str) -> Caller {
    Caller::operator(TenantId::new(tenant).unwrap())
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(FixedClock::at(time(NOW).as_micros()));
        let keyring = Arc::new(Keyring::single([7; 32]));
        let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), clock.clone());
        let engine = Engine::new(
            Arc::new(ledger),
            Arc::new(OsEntropy),
            clock.clone(),
            Settings::default(),
        );
        Self { engine, clock }
    }

    /// Records an event, creating its session if needed; `at` is a day and a time of November 2026.
    fn write(&self, tenant: &str, session: &str, key: &str, kind: &str, at: &str) {
        let caller = operator(tenant);
        let create = CreateSession {
            session_id: Some(session.parse().unwrap()),
            ..CreateSession::default()
        };
        run(self.engine.sessions.create(&caller, create)).unwrap();
        let at = format!("2026-11-{at}Z");
        let event: RecordEvent =
            serde_json::from_value(json!({ "key": key, "kind": kind, "at": at })).unwrap();
        run(self
            .engine
            .events
            .record(&caller, session.parse().unwrap(), event))
        .unwrap();
    }

    fn record(&self, session: &str, kind: &str, at: &str) {
        self.write("default", session, &format!("{kind} {at}"), kind, at);
    }

    fn status(&self) -> TechnicalStatus {
        run(self.engine.events.technical_status(&operator("default"))).unwrap()
    }

    fn report(&self, since: &str, until: &str, by: Option<Every>) -> KpiReport {
        let query = KpiQuery {
            since: Some(time(since)),
            until: Some(time(until)),
            by,
        };
        run(self.engine.events.key_figures(&operator("default"), query)).unwrap()
    }
}

#[test]
fn without_events_all_rates_are_absent() {
    let status = World::new().status();
    let figures = &status.figures;
    assert_eq!((figures.calls, figures.events), (0, 0));
    for rate in [
        figures.call_lock_timeout_rate_pct,
        figures.resume_from_pg_rate,
        figures.session_reconstruct_rate,
        figures.unknown_state_rate,
        figures.transfer_rate,
    ] {
        assert_eq!(rate, None);
    }
    assert!(!figures.call_lock_timeout_alert && !status.call_lock_timeout_spike);
    assert_eq!(status.service_agent, ServiceAgent::Offline);
    assert_eq!((status.last_event_at, status.last_event_ago), (None, None));
    assert_eq!(status.as_of, time(NOW));
    assert_eq!(status.window.since, time("2026-11-15T12:00:00Z"));
    // Without calls, timeouts have no rate.
    let world = World::new();
    world.record("s", "call_lock_timeout", "22T11:00:00");
    let figures = world.status().figures;
    assert_eq!((figures.calls, figures.call_lock_timeouts), (0, 1));
    assert_eq!(figures.call_lock_timeout_rate_pct, None);
    assert!(!figures.call_lock_timeout_alert);
}

#[test]
fn sessions_of_teams_are_no_calls() {
    let world = World::new();
    let team_session = CreateSession {
        session_id: Some("team".parse().unwrap()),
        team_id: Some("t".into()),
        ..CreateSession::default()
    };
    run(world
        .engine
        .sessions
        .create(&operator("default"), team_session))
    .unwrap();
    let event = json!({ "key": "k", "kind": "call_lock_timeout", "at": "2026-11-22T11:00:00Z" });
    let event: RecordEvent = serde_json::from_value(event).unwrap();
    let session = "team".parse().unwrap();
    run(world
        .engine
        .events
        .record(&operator("default"), session, event))
    .unwrap();
    world.record("call", "call_lock_timeout", "22T11:00:00");
    let status = world.status();
    assert_eq!(
        (status.figures.call_lock_timeouts, status.figures.events),
        (1, 1)
    );
    let report = world.report("2026-11-22T00:00:00Z", "2026-11-23T00:00:00Z", None);
    assert_eq!(report.data[0].figures.call_lock_timeouts, 1);
}

#[test]
fn figures_count_events_or_sessions_as_documented() {
    let world = World::new();
    for call in ["a", "b", "c", "d"] {
        world.record(call, "call_started", "20T10:00:00");
    }
    // The same kinds twice in one call: two events, one session.
    for at in ["20T10:01:00", "20T10:02:00"] {
        for kind in [
            "call_started",
            "call_lock_timeout",
            "resume_from_pg",
            "session_reconstruct_used",
            "unknown_state",
            "transferred",
            "transferred_human",
            "booking_confirmed",
        ] {
            world.record("a", kind, at);
        }
    }
    // A session that was never started counts in the other figures, but is no call.
    world.record("not-started", "transferred", "20T10:03:00");
    world.record("not-started", "resume_from_pg", "20T10:03:00");
    let figures = world.status().figures;
    assert_eq!(figures.calls, 4);
    assert_eq!(figures.call_lock_timeouts, 2);
    assert_eq!(figures.call_lock_timeout_rate_pct, Some(50.0)); // 2 / 4
    assert!(figures.call_lock_timeout_alert);
    assert_eq!(figures.resume_from_pg_count, 3);
    assert_eq!(figures.resume_from_pg_rate, Some(0.75)); // 3 / 4
    assert_eq!(figures.session_reconstruct_rate, Some(0.25)); // 1 / 4
    assert_eq!(figures.unknown_state_rate, Some(0.25)); // 1 / 4
    assert_eq!(figures.transfer_rate, Some(0.5)); // a and not-started, of 4
    assert_eq!(figures.events, 4 + 16 + 2);
    let kinds: Vec<(&str, u64)> = figures.kinds.iter().map(|k| (&*k.kind, k.events)).collect();
    assert_eq!(
        kinds,
        [
            ("call_started", 6),
            ("resume_from_pg", 3),
            ("transferred", 3),
            ("booking_confirmed", 2),
            ("call_lock_timeout", 2),
            ("session_reconstruct_used", 2),
            ("transferred_human", 2),
            ("unknown_state", 2),
        ]
    );
}

#[test]
fn the_window_is_seven_days_inclusive() {
    let world = World::new();
    for (session, at) in [
        ("too-early", "15T11:59:59.999999"),
        ("first", "15T12:00:00"),
        ("last", "22T12:00:00"),
        ("future", "22T12:00:00.000001"),
    ] {
        world.record(session, "call_started", at);
    }
    let status = world.status();
    assert_eq!(status.figures.calls, 2);
    assert_eq!(status.last_event_at, Some(time(NOW)));
    assert_eq!(status.last_event_ago, Some(0));
    // A microsecond later, the future event counts and the first one no longer does.
    world.clock.advance(1);
    let status = world.status();
    assert_eq!(status.figures.calls, 2);
    assert_eq!(
        status.last_event_at,
        Some(time("2026-11-22T12:00:00.000001Z"))
    );
}

#[test]
fn the_agent_is_online_for_fifteen_minutes_after_an_event() {
    let world = World::new();
    world.record("s", "booking_confirmed", "22T11:45:00");
    let status = world.status();
    assert_eq!(status.service_agent, ServiceAgent::Online);
    assert_eq!(status.last_event_ago, Some(900));
    world.clock.advance(1_999_999);
    let status = world.status();
    assert_eq!(status.service_agent, ServiceAgent::Offline);
    assert_eq!(status.last_event_ago, Some(901));
}

#[test]
fn a_spike_is_an_hour_with_many_more_timeouts_than_the_hours_before() {
    let world = World::new();
    // One timeout is just before the last hour, two are within it.
    for at in ["22T11:00:00", "22T11:00:00.000001", "22T11:30:00"] {
        world.record("s", "call_lock_timeout", at);
    }
    assert!(!world.status().call_lock_timeout_spike);
    world.record("s", "call_lock_timeout", "22T12:00:00");
    assert!(world.status().call_lock_timeout_spike); // 3 x 167 > 3 x 1
    // 167 timeouts in the other 167 hours are one per hour: three in the last hour are not more than three times that.
    for n in 0..166 {
        world.record("s", "call_lock_timeout", &format!("18T09:00:00.{n:06}"));
    }
    assert!(!world.status().call_lock_timeout_spike);
    world.record("s", "call_lock_timeout", "22T11:59:00");
    assert!(world.status().call_lock_timeout_spike); // 4 x 167 > 3 x 167
}

#[test]
fn other_tenants_and_repeated_keys_do_not_count() {
    let world = World::new();
    for _ in 0..3 {
        world.write("default", "s", "start", "call_started", "22T11:00:00");
        world.write("default", "s", "wait-1", "call_lock_timeout", "22T11:00:01");
    }
    // The other tenant has a session with the same id, and one with another id.
    for session in ["s", "of-other"] {
        world.write("other", session, "start", "call_started", "22T11:58:00");
    }
    let status = world.status();
    assert_eq!((status.figures.calls, status.figures.events), (1, 2));
    assert_eq!(status.last_event_ago, Some(3599));
    let other_tenant = run(world.engine.events.technical_status(&operator("other"))).unwrap();
    assert_eq!(
        (
            other_tenant.figures.calls,
            other_tenant.figures.call_lock_timeouts
        ),
        (2, 0)
    );
}

#[test]
fn events_count_in_the_row_in_which_they_happened() {
    let world = World::new();
    // This event is recorded last but happened first: `at` decides its row.
    world.record("b", "call_started", "16T00:00:00");
    world.record("a", "transferred", "16T00:00:01");
    world.record("a", "call_started", "15T23:59:59.999999");
    let until = "2026-11-23T00:00:00Z";
    let weeks = world.report("2026-11-09T00:00:00Z", until, Some(Every::Week));
    let calls_and_rates = |report: &KpiReport| -> Vec<(String, u64, Option<f64>)> {
        let rows = report.data.iter();
        rows.map(|row| {
            let period = row.period.clone().unwrap_or_default();
            (period.into(), row.figures.calls, row.figures.transfer_rate)
        })
        .collect()
    };
    let row = |period: &str, calls, rate| (period.to_owned(), calls, rate);
    assert_eq!(
        calls_and_rates(&weeks),
        [row("2026-W46", 1, Some(0.0)), row("2026-W47", 1, Some(1.0))]
    );
    let days = world.report(
        "2026-11-14T00:00:00Z",
        "2026-11-17T00:00:00Z",
        Some(Every::Day),
    );
    assert_eq!(
        calls_and_rates(&days),
        [
            row("2026-11-14", 0, None),
            row("2026-11-15", 1, Some(0.0)),
            row("2026-11-16", 1, Some(1.0)),
        ]
    );
    let entire_window = world.report("2026-11-09T00:00:00Z", until, None);
    assert_eq!(calls_and_rates(&entire_window), [row("", 2, Some(0.5))]);
    // `until` is exclusive.
    let one_microsecond = world.report("2026-11-15T23:59:59.999999Z", "2026-11-16T00:00:00Z", None);
    assert_eq!(calls_and_rates(&one_microsecond), [row("", 1, Some(0.0))]);
    // The default window is the last seven days.
    let by_default = run(world
        .engine
        .events
        .key_figures(&operator("default"), KpiQuery::default()))
    .unwrap();
    assert_eq!(by_default.since, time("2026-11-15T12:00:00Z"));
    assert_eq!(by_default.until, time(NOW));
    assert_eq!(calls_and_rates(&by_default), [row("", 2, Some(0.5))]);
}

#[test]
fn a_report_is_written_as_csv() {
    let world = World::new();
    world.record("a", "call_started", "17T10:00:00");
    world.record("b", "call_started", "17T10:00:00");
    world.record("c", "call_started", "17T10:00:00");
    world.record("a", "transferred", "17T10:00:00");
    let report = world.report(
        "2026-11-16T00:00:00Z",
        "2026-11-24T00:00:00Z",
        Some(Every::Week),
    );
    let csv = report.csv();
    let lines: Vec<&str> = csv.split_terminator("\r\n").collect();
    assert_eq!(
        lines[1],
        "2026-W47,2026-11-16T00:00:00.000000Z,2026-11-23T00:00:00.000000Z,3,0,0,false,0,0,0,0,0,0,1,0.3333,4"
    );
    assert_eq!(
        lines[2],
        "2026-W48,2026-11-23T00:00:00.000000Z,2026-11-24T00:00:00.000000Z,0,0,,false,0,,0,,0,,0,,0"
    );
    assert_eq!(lines.len(), 3);
    let names: Vec<&str> = lines[0].split(',').collect();
    assert_eq!(names.len(), lines[1].split(',').count());
    // The columns are the members of a row.
    let row = serde_json::to_value(&report.data[0]).unwrap();
    let mut members: Vec<&str> = row
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    members.retain(|member| !["kinds", "events_of_other_kinds"].contains(member));
    let mut sorted = names.clone();
    sorted.sort_unstable();
    members.sort_unstable();
    assert_eq!(sorted, members);
}

#[test]
fn an_end_user_is_refused() {
    let world = World::new();
    for role in [Role::Service, Role::User, Role::Admin] {
        let ada = Some("ada".parse().unwrap());
        let caller = Caller::new(TenantId::default_tenant(), CallerRole::Role(role), ada);
        let status = run(world.engine.events.technical_status(&caller)).unwrap_err();
        let report = run(world
            .engine
            .events
            .key_figures(&caller, KpiQuery::default()))
        .unwrap_err();
        assert_eq!(
            (status.code, report.code),
            (ErrorCode::Forbidden, ErrorCode::Forbidden)
        );
    }
}

#[test]
fn events_of_the_engine_itself_are_counted() {
    let world = World::new();
    world.record("s", "call_started", "22T11:50:00");
    let caller = operator("default");
    let turn = json!({ "request_id": "r", "question_neutral": "?", "answer_neutral": "!" });
    let turn: StartTurn = serde_json::from_value(turn).unwrap();
    run(world
        .engine
        .turns
        .start(&caller, "s".parse().unwrap(), turn))
    .unwrap();
    let resume = |holder: &str| {
        let request = ResumeSession {
            wait_ms: Some(1),
            ..ResumeSession::new(holder)
        };
        run(world
            .engine
            .calls
            .resume(&caller, &"s".parse().unwrap(), request))
    };
    // Without a checkpoint the state is rebuilt from items.
    resume("first").unwrap();
    assert_eq!(resume("second").unwrap_err().code, ErrorCode::LeaseTimeout);
    let figures = world.status().figures;
    assert_eq!(figures.call_lock_timeouts, 1);
    assert_eq!(figures.resume_from_pg_count, 1);
    assert_eq!(figures.session_reconstruct_rate, Some(1.0));
}
