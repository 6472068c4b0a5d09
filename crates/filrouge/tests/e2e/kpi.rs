//! Key figures over HTTP and on the command line, compared with those of a week that were computed by hand.

use serde_json::{Value, json};

use crate::caller::{Caller, key};
use crate::world::World;

/// A tenant's admin.
struct Admin(Caller);

impl Admin {
    /// Records an event of a session, which is created if missing. `at` is a day and a time of 2026. A repetition
    /// changes nothing.
    fn write(&self, session: &str, key: &str, kind: &str, at: &str) {
        let created = self.0.post("", &json!({ "session_id": session })).status;
        assert!([200, 201].contains(&created), "{created}");
        let at = format!("2026-{at}Z");
        let event = json!({ "key": key, "kind": kind, "at": at });
        let written = self.0.post(&format!("/{session}/events"), &event).status;
        assert!([200, 201].contains(&written), "{written}");
    }

    fn kpi(&self, tenant: &str, query: &str) -> crate::http::Response {
        let target = format!("/api/admin/tenants/{tenant}/kpi{query}");
        self.0.send("GET", &target, None)
    }
}

/// Records the events of the week from Monday, 2 November, to Sunday, 8 November 2026, and some just outside it.
fn record_week(admin: &Admin) {
    for (call, at) in [
        ("c00", "11-01T23:59:59.999999"), // the week before
        ("c01", "11-02T00:00:00"),        // the first moment of the week
        ("c02", "11-02T09:00:00"),
        ("c03", "11-03T09:00:00"),
        ("c04", "11-03T10:00:00"),
        ("c05", "11-04T09:00:00"),
        ("c06", "11-05T09:00:00"),
        ("c07", "11-05T10:00:00"),
        ("c08", "11-06T09:00:00"),
        ("c09", "11-07T09:00:00"),
        ("c10", "11-08T23:59:59.999999"), // its last moment
        ("c11", "11-09T00:00:00"),        // the week after
    ] {
        admin.write(call, "start", "call_started", at);
    }
    for (call, key, kind, at) in [
        ("c02", "wait-1", "call_lock_timeout", "11-02T09:00:10"),
        ("c02", "wait-2", "call_lock_timeout", "11-02T09:00:12"),
        ("c05", "wait-1", "call_lock_timeout", "11-04T09:00:10"),
        // A session without `call_started`: its event counts, but it is not a call.
        ("stray", "wait-1", "call_lock_timeout", "11-04T09:00:11"),
        // A call of the week before that was resumed in this one.
        ("c00", "resume-1", "resume_from_pg", "11-02T00:00:05"),
        ("c03", "resume-1", "resume_from_pg", "11-03T09:01:00"),
        ("c04", "resume-1", "resume_from_pg", "11-03T10:01:00"),
        ("c04", "resume-2", "resume_from_pg", "11-03T10:02:00"),
        (
            "c04",
            "anew-1",
            "session_reconstruct_used",
            "11-03T10:01:00",
        ),
        (
            "c04",
            "anew-2",
            "session_reconstruct_used",
            "11-03T10:02:00",
        ),
        ("c06", "what-1", "unknown_state", "11-05T09:01:00"),
        ("c06", "what-2", "unknown_state", "11-05T09:02:00"),
        ("c07", "what-1", "unknown_state", "11-05T10:01:00"),
        ("c06", "hand-1", "transferred", "11-05T09:03:00"),
        ("c07", "hand-1", "transferred_human", "11-05T10:03:00"),
        ("c07", "hand-2", "transferred", "11-05T10:03:01"),
        ("c08", "hand-1", "transferred_human", "11-06T09:03:00"),
        ("c02", "done", "booking_confirmed", "11-02T09:05:00"),
        ("c09", "done", "booking_confirmed", "11-07T09:05:00"),
    ] {
        admin.write(call, key, kind, at);
    }
    // A repeated event counts once.
    admin.write("c05", "wait-1", "call_lock_timeout", "11-04T09:00:10");
}

/// The figures of the week that [`record_week`] records:
///
/// - calls: c01 to c10, 10
/// - timeouts: two of c02, one of c05, one of the stray, 4 in total: 4 / 10 = 40 percent
/// - resumes: c00, c03 and two of c04, 4 in total: 4 / 10
/// - reconstructed sessions: c04, 1 / 10
/// - sessions with an unknown state: c06 and c07, 2 / 10
/// - transferred sessions: c06, c07 and c08, 3 / 10
/// - events: 10 starts, 4 timeouts, 4 resumes, 2 reconstructions, 3 unknown states, 4 transfers and 2 bookings: 29
fn expected() -> Value {
    json!({
        "period": "2026-W45",
        "since": "2026-11-02T00:00:00.000000Z",
        "until": "2026-11-09T00:00:00.000000Z",
        "calls": 10,
        "call_lock_timeouts": 4,
        "call_lock_timeout_rate_pct": 40.0,
        "call_lock_timeout_alert": true,
        "resume_from_pg_count": 4,
        "resume_from_pg_rate": 0.4,
        "sessions_reconstructed": 1,
        "session_reconstruct_rate": 0.1,
        "sessions_with_unknown_state": 2,
        "unknown_state_rate": 0.2,
        "sessions_transferred": 3,
        "transfer_rate": 0.3,
        "events": 29,
        "kinds": [
            {"kind": "call_started", "events": 10},
            {"kind": "call_lock_timeout", "events": 4},
            {"kind": "resume_from_pg", "events": 4},
            {"kind": "unknown_state", "events": 3},
            {"kind": "booking_confirmed", "events": 2},
            {"kind": "session_reconstruct_used", "events": 2},
            {"kind": "transferred", "events": 2},
            {"kind": "transferred_human", "events": 2},
        ],
        "events_of_other_kinds": 0,
    })
}

/// The same figures by week of [`SPAN`], as CSV.
const CSV: &str = "period,since,until,calls,call_lock_timeouts,call_lock_timeout_rate_pct,call_lock_timeout_alert,\
resume_from_pg_count,resume_from_pg_rate,sessions_reconstructed,session_reconstruct_rate,sessions_with_unknown_state,\
unknown_state_rate,sessions_transferred,transfer_rate,events\r\n\
2026-W44,2026-10-26T00:00:00.000000Z,2026-11-02T00:00:00.000000Z,1,0,0,false,0,0,0,0,0,0,0,0,1\r\n\
2026-W45,2026-11-02T00:00:00.000000Z,2026-11-09T00:00:00.000000Z,10,4,40,true,4,0.4,1,0.1,2,0.2,3,0.3,29\r\n\
2026-W46,2026-11-09T00:00:00.000000Z,2026-11-16T00:00:00.000000Z,1,0,0,false,0,0,0,0,0,0,0,0,1\r\n\
2026-W47,2026-11-16T00:00:00.000000Z,2026-11-20T00:00:00.000000Z,0,0,,false,0,,0,,0,,0,,0\r\n";

/// A window that starts a week before that week, and ends within a later one.
const SPAN: &str = "?since=2026-10-26T00:00:00Z&until=2026-11-20T00:00:00Z";

#[test]
fn the_figures_equal_those_computed_by_hand() {
    let world = World::new();
    let default = key(&world, &["--role", "admin"]);
    let other = key(&world, &["--role", "admin", "--tenant", "other"]);
    let server = world.serve();
    let admin = Admin(Caller::with_credentials(&server, &default));
    let other = Admin(Caller::with_credentials(&server, &other));
    record_week(&admin);
    // The same calls and events in another tenant do not count.
    for n in 0..3 {
        let key = format!("wait-{n}");
        other.write("c02", &key, "call_lock_timeout", "11-03T09:00:00");
    }
    other.write("c02", "start", "call_started", "11-03T09:00:00");

    let report = admin.kpi("default", &format!("{SPAN}&by=week")).is(200);
    assert_eq!(report["tenant_id"], "default");
    assert_eq!(report["by"], "week");
    let rows = report["data"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "{report}");
    assert_eq!(rows[1], expected());
    assert_eq!(
        (&rows[0]["calls"], &rows[2]["calls"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(rows[3]["transfer_rate"], Value::Null);
    let other_tenant = other.kpi("other", &format!("{SPAN}&by=week")).is(200);
    assert_eq!(other_tenant["data"][1]["call_lock_timeout_rate_pct"], 300.0);
    assert_eq!(other_tenant["data"][1]["calls"], 1);

    let csv = admin.kpi("default", &format!("{SPAN}&by=week&format=csv"));
    assert_eq!((csv.status, csv.text.as_str()), (200, CSV));
    let kind = csv.header("content-type").unwrap();
    assert!(kind.starts_with("text/csv"), "{kind}");

    // By day, in a window that starts and ends in the middle of a day.
    let days = "?since=2026-11-05T09:02:00Z&until=2026-11-06T09:03:00Z&by=day";
    let days = admin.kpi("default", days).is(200);
    let reported: Vec<(&str, u64, u64)> = days["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            (
                row["period"].as_str().unwrap(),
                row["events"].as_u64().unwrap(),
                row["sessions_transferred"].as_u64().unwrap(),
            )
        })
        .collect();
    // The 5th from 09:02:00: what-2 and hand-1 of c06; the start, what-1, hand-1 and hand-2 of c07.
    // The 6th before 09:03:00: the start of c08, but not its transfer.
    assert_eq!(reported, [("2026-11-05", 6, 2), ("2026-11-06", 1, 0)]);
    // Without `by`, there is one row with all 12 calls.
    let all = admin.kpi("default", SPAN).is(200);
    assert_eq!(all["by"], Value::Null);
    assert_eq!(all["data"].as_array().unwrap().len(), 1);
    assert_eq!(all["data"][0]["calls"], 12);
    assert_eq!(all["data"][0]["period"], Value::Null);
    assert_eq!(all["data"][0]["transfer_rate"], 0.25); // 3 / 12
    check_command_line(&world, &report);
}

/// Checks that the command line shows the same report while the server runs.
fn check_command_line(world: &World, report: &Value) {
    let stats = [
        "stats",
        "--kpi",
        "--since",
        "2026-10-26T00:00:00Z",
        "--until",
        "2026-11-20T00:00:00Z",
        "--by",
        "week",
    ];
    assert_eq!(&world.json(&stats), report);
    let formatted = |format: &str| world.ok(&[&stats[..], &["--format", format]].concat());
    assert_eq!(formatted("csv"), CSV);
    assert_eq!(
        &serde_json::from_str::<Value>(&formatted("json")).unwrap(),
        report
    );
    let table = world.ok(&stats);
    let row = table.lines().find(|l| l.contains("2026-W45")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    let expected = [
        "2026-W45", "10", "4", "40.00!", "4", "0.4000", "0.1000", "0.2000", "0.3000", "29",
    ];
    assert_eq!(cells, expected, "{table}");
    // The output for a single period also lists the kinds of events.
    let week = [
        "stats",
        "--kpi",
        "--since",
        "2026-11-02T00:00:00Z",
        "--until",
        "2026-11-09T00:00:00Z",
    ];
    let week = world.ok(&week);
    assert!(week.contains("29"), "{week}");
    // A date as `--until` includes that day.
    let dates = [
        "stats",
        "--kpi",
        "--since",
        "2026-11-02",
        "--until",
        "2026-11-08",
    ];
    assert_eq!(world.ok(&dates), week);
    assert!(
        week.lines().any(|l| l.trim() == "2  booking_confirmed"),
        "{week}"
    );
    let other_tenant = world.json(&[&stats[..], &["--tenant", "other"]].concat());
    assert_eq!(other_tenant["data"][1]["call_lock_timeouts"], 3);
}

#[test]
fn invalid_queries_are_refused() {
    let world = World::new();
    let server = world.serve();
    let admin = Admin(Caller::anonymous(&server));
    for query in [
        "?by=month",
        "?since=yesterday",
        "?format=xml",
        "?since=2026-11-02T00:00:00Z&until=2026-11-02T00:00:00Z",
        "?since=2024-01-01T00:00:00Z&until=2026-01-01T00:00:00Z&by=day",
        "?week=45",
    ] {
        admin.kpi("default", query).fails(422, "invalid");
    }
    admin.kpi("other", "").fails(404, "tenant_not_found");
    admin.kpi("%2F..%2F", "").fails(404, "tenant_not_found");
    // The default window is the last seven days.
    let default = admin.kpi("default", "").is(200);
    assert_eq!(default["data"].as_array().unwrap().len(), 1);
    assert_eq!(default["data"][0]["calls"], 0);
    for wrong in [
        &["stats"][..],
        &["stats", "s", "--kpi"],
        &["stats", "s", "--since", "7d"],
        &["stats", "--kpi", "--since", "yesterday"],
        &["stats", "--kpi", "--since", "1d", "--until", "2d"],
        &["stats", "--kpi", "--by", "month"],
        &["stats", "--kpi", "--format", "csv", "--json"],
    ] {
        let output = world.run(wrong);
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (Some(2), ""),
            "{wrong:?}: {output:?}"
        );
    }
    let reported = world.run(&["stats"]).stderr;
    for usage in ["stats ID", "--kpi", "--source"] {
        assert!(reported.contains(usage), "{reported}");
    }
}
