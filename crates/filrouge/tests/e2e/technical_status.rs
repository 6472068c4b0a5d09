//! The technical status of a tenant's live calls: key figures, spikes, whether the agent is online, and permissions.

use std::time::{Duration, Instant};

use filrouge_types::{Clock, SystemClock, Timestamp};
use serde_json::{Value, json};

use crate::caller::{Caller, key};
use crate::http::Response;
use crate::world::World;

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3600 * SECOND;

/// The time `micros` microseconds ago.
fn ago(micros: i64) -> String {
    Timestamp::from_micros(SystemClock.now().as_micros() - micros).to_string()
}

/// A caller that records events of calls and reads their status.
struct Calls(Caller);

impl Calls {
    /// Records an event; without a time, it happens now.
    fn record(&self, call: &str, key: &str, kind: &str, at: Option<String>) {
        let event = json!({ "key": key, "kind": kind, "at": at });
        let response = self.0.post(&format!("/{call}/events"), &event);
        assert_eq!(response.status, 201, "{response:?}");
    }

    fn create(&self, call: &str) {
        let response = self.0.post("", &json!({ "session_id": call }));
        assert_eq!(response.status, 201, "{response:?}");
    }

    fn status(&self, tenant: &str) -> Response {
        let target = format!("/api/admin/tenants/{tenant}/technical-status");
        self.0.send("GET", &target, None)
    }

    /// Polls until the status satisfies `condition`; it may be cached for some seconds.
    #[track_caller]
    fn until(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let status = self.status("default").is(200);
            if condition(&status) {
                return status;
            }
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "not within a minute: {what}; the status is {status}"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn the_status_of_a_new_tenant_is_empty() {
    let world = World::new();
    let server = world.serve();
    let status = Calls(Caller::anonymous(&server)).status("default").is(200);
    assert_eq!(status["calls"], 0);
    for absent in [
        "call_lock_timeout_rate_pct",
        "resume_from_pg_rate",
        "session_reconstruct_rate",
        "unknown_state_rate",
        "transfer_rate",
        "last_event_at",
        "last_event_ago",
    ] {
        assert_eq!(status.get(absent), Some(&Value::Null), "{absent}: {status}");
    }
    for flag in ["call_lock_timeout_alert", "call_lock_timeout_spike"] {
        assert_eq!(status[flag], false, "{flag}");
    }
    assert_eq!(status["resume_from_pg_count"], 0);
    assert_eq!(status["service_agent"], "offline");
    let window = [&status["window"]["since"], &status["window"]["until"]];
    let [since, until] = window.map(|t| t.as_str().unwrap().parse::<Timestamp>().unwrap());
    assert_eq!(until.as_micros() - since.as_micros(), 7 * 24 * HOUR);
    assert_eq!(status["as_of"], status["window"]["until"]);
}

#[test]
fn figures_follow_recorded_events() {
    let world = World::new();
    let server = world.serve();
    let calls = Calls(Caller::anonymous(&server));
    // The status covers seven days, so the first call is too old.
    for (call, days) in [("old", 8), ("a", 6), ("b", 3), ("c", 1)] {
        calls.create(call);
        calls.record(call, "start", "call_started", Some(ago(days * 24 * HOUR)));
    }
    calls.record("a", "resume", "resume_from_pg", Some(ago(2 * HOUR)));
    calls.record("b", "transfer", "transferred_human", Some(ago(2 * HOUR)));
    let last = ago(16 * 60 * SECOND);
    calls.record("b", "wait-0", "call_lock_timeout", Some(last.clone()));
    let status = calls.until("the status counts six events", |s| s["events"] == 6);
    assert_eq!(status["calls"], 3);
    assert_eq!(status["call_lock_timeouts"], 1);
    assert_eq!(status["call_lock_timeout_rate_pct"], 33.33); // 1 / 3 x 100
    assert_eq!(status["call_lock_timeout_alert"], true);
    assert_eq!(status["call_lock_timeout_spike"], false);
    assert_eq!(status["resume_from_pg_count"], 1);
    assert_eq!(status["resume_from_pg_rate"], 0.3333);
    assert_eq!(status["transfer_rate"], 0.3333);
    assert_eq!(status["last_event_at"], last.as_str());
    let seconds = status["last_event_ago"].as_u64().unwrap();
    assert!((960..1200).contains(&seconds), "{seconds}");
    assert_eq!(status["service_agent"], "offline");
    // Two more timeouts now: a spike, and the agent is online.
    for n in 1..3 {
        calls.record("b", &format!("wait-{n}"), "call_lock_timeout", None);
    }
    let status = calls.until("the status reports a spike", |s| {
        s["call_lock_timeout_spike"] == true
    });
    assert_eq!(status["call_lock_timeout_rate_pct"], 100.0); // 3 / 3 x 100
    assert_eq!(status["service_agent"], "online");
    assert!(status["last_event_ago"].as_u64().unwrap() < 900);
    // Three in the last hour are no spike if the week's other 167 hours had one each: 3 is not more than 3 x 167 / 167.
    for n in 0..167 {
        let key = format!("earlier-{n}");
        calls.record("b", &key, "call_lock_timeout", Some(ago(30 * HOUR + n)));
    }
    let status = calls.until("the status counts 170 timeouts", |s| {
        s["call_lock_timeouts"] == 170
    });
    assert_eq!(status["call_lock_timeout_spike"], false);
}

#[test]
fn only_a_tenants_admins_get_the_status() {
    let world = World::new();
    let roles = ["admin", "auditor", "service"];
    let [admin, auditor, service] = roles.map(|role| key(&world, &["--role", role]));
    let user = key(&world, &["--role", "user", "--identity", "ada"]);
    let other = key(&world, &["--role", "admin", "--tenant", "other"]);
    let server = world.serve();
    let with_credentials = |key: &str| Calls(Caller::with_credentials(&server, key));
    let admin = with_credentials(&admin);
    admin.create("s");
    admin.record("s", "start", "call_started", None);
    admin.until("the status counts the call", |s| s["calls"] == 1);
    // Another tenant looks absent, whether or not it exists.
    let other = with_credentials(&other);
    let problem = other.status("default").fails(404, "tenant_not_found");
    assert_eq!(problem["detail"], "there is no tenant \"default\"");
    other.status("never-was").fails(404, "tenant_not_found");
    assert_eq!(other.status("other").is(200)["events"], 0);
    for caller in [
        with_credentials(&auditor),
        with_credentials(&service),
        with_credentials(&user),
    ] {
        for tenant in ["default", "other"] {
            caller.status(tenant).fails(403, "forbidden");
        }
    }
    let for_ada = Calls(admin.0.for_identity("ada"));
    for_ada.status("default").fails(403, "forbidden");
    let anonymous = Calls(Caller::anonymous(&server));
    anonymous.status("default").fails(401, "unauthenticated");
}
