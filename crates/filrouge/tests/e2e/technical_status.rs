//! How live calls of a tenant do right now: figures, spikes, whether the agent is at work, and who is told.

use std::time::{Duration, Instant};

use filrouge_types::{Clock, SystemClock, Timestamp};
use serde_json::{Value, json};

use crate::caller::{Caller, key};
use crate::http::Reply;
use crate::world::World;

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3600 * SECOND;

fn ago(micros: i64) -> String {
    Timestamp::from_micros(SystemClock.now().as_micros() - micros).to_string()
}

/// A caller who tells of calls and asks how they do.
struct Calls(Caller);

impl Calls {
    fn tell(&self, call: &str, key: &str, kind: &str, at: Option<String>) {
        let event = json!({ "key": key, "kind": kind, "at": at });
        let told = self.0.post(&format!("/{call}/events"), &event);
        assert_eq!(told.status, 201, "{told:?}");
    }

    fn make(&self, call: &str) {
        let made = self.0.post("", &json!({ "session_id": call }));
        assert_eq!(made.status, 201, "{made:?}");
    }

    fn ask(&self, tenant: &str) -> Reply {
        let target = format!("/api/admin/tenants/{tenant}/technical-status");
        self.0.send("GET", &target, None)
    }

    /// The status once it is as it must be: one that took long to make is given again for some seconds.
    #[track_caller]
    fn once(&self, what: &str, reached: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let status = self.ask("default").is(200);
            if reached(&status) {
                return status;
            }
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "{what}: {status}"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn nothing_has_happened_yet() {
    let world = World::new();
    let server = world.serve();
    let status = Calls(Caller::nobody(&server)).ask("default").is(200);
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
    for not in ["call_lock_timeout_alert", "call_lock_timeout_spike"] {
        assert_eq!(status[not], false, "{not}");
    }
    assert_eq!(status["resume_from_pg_count"], 0);
    assert_eq!(status["service_agent"], "offline");
    let window = [&status["window"]["since"], &status["window"]["until"]];
    let [since, until] = window.map(|t| t.as_str().unwrap().parse::<Timestamp>().unwrap());
    assert_eq!(until.as_micros() - since.as_micros(), 7 * 24 * HOUR);
    assert_eq!(status["as_of"], status["window"]["until"]);
}

#[test]
fn figures_follow_what_is_told() {
    let world = World::new();
    let server = world.serve();
    let calls = Calls(Caller::nobody(&server));
    // Of last week's calls one is too old to count.
    for (call, days) in [("old", 8), ("a", 6), ("b", 3), ("c", 1)] {
        calls.make(call);
        calls.tell(call, "start", "call_started", Some(ago(days * 24 * HOUR)));
    }
    calls.tell("a", "resume", "resume_from_pg", Some(ago(2 * HOUR)));
    calls.tell("b", "hand", "transferred_human", Some(ago(2 * HOUR)));
    let last = ago(16 * 60 * SECOND);
    calls.tell("b", "wait-0", "call_lock_timeout", Some(last.clone()));
    let status = calls.once("six events", |s| s["events"] == 6);
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
    // Two more within the hour, told as they happen: a spike, and the agent is at work.
    for n in 1..3 {
        calls.tell("b", &format!("wait-{n}"), "call_lock_timeout", None);
    }
    let status = calls.once("a spike", |s| s["call_lock_timeout_spike"] == true);
    assert_eq!(status["call_lock_timeout_rate_pct"], 100.0); // 3 / 3 x 100
    assert_eq!(status["service_agent"], "online");
    assert!(status["last_event_ago"].as_u64().unwrap() < 900);
    // As many as that are usual when the other hours of the week had one each: 3 is no more than 3 x 167 / 167.
    for n in 0..167 {
        let key = format!("before-{n}");
        calls.tell("b", &key, "call_lock_timeout", Some(ago(30 * HOUR + n)));
    }
    let status = calls.once("no spike", |s| s["call_lock_timeouts"] == 170);
    assert_eq!(status["call_lock_timeout_spike"], false);
}

#[test]
fn a_tenants_admins_are_told_and_nobody_else() {
    let world = World::new();
    let roles = ["admin", "auditor", "service"];
    let [admin, auditor, service] = roles.map(|role| key(&world, &["--role", role]));
    let user = key(&world, &["--role", "user", "--identity", "ada"]);
    let other = key(&world, &["--role", "admin", "--tenant", "other"]);
    let server = world.serve();
    let bearing = |key: &str| Calls(Caller::bearing(&server, key));
    let admin = bearing(&admin);
    admin.make("s");
    admin.tell("s", "start", "call_started", None);
    admin.once("the call", |s| s["calls"] == 1);
    // Another tenant's looks absent, whether it is there or not.
    let other = bearing(&other);
    let none = other.ask("default").fails(404, "tenant_not_found");
    assert_eq!(none["detail"], "there is no tenant \"default\"");
    other.ask("never-was").fails(404, "tenant_not_found");
    assert_eq!(other.ask("other").is(200)["events"], 0);
    for caller in [bearing(&auditor), bearing(&service), bearing(&user)] {
        for tenant in ["default", "other"] {
            caller.ask(tenant).fails(403, "forbidden");
        }
    }
    let for_ada = Calls(admin.0.of("ada"));
    for_ada.ask("default").fails(403, "forbidden");
    let nobody = Calls(Caller::nobody(&server));
    nobody.ask("default").fails(401, "unauthenticated");
}
