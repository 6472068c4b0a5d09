//! The page of operations: live calls, stores, deliveries, key figures, and who may see them.

use serde_json::json;

use crate::caller::{Caller, key};
use crate::http::Response;
use crate::projected::{named_section, wait_until};
use crate::receiver::Receiver;
use crate::webhooks::{configure, with_secret, write_config};
use crate::world::World;

fn page(caller: &Caller, path: &str) -> Response {
    let page = caller.send("GET", path, None);
    assert_eq!(page.status, 200, "{page:?}");
    page
}

#[test]
fn live_calls_show_their_holder_and_fence() {
    let world = World::new();
    let server = world.serve();
    let caller = Caller::anonymous(&server);
    let empty = page(&caller, "/ui/operations").text;
    assert!(empty.contains("No session has a holder now"), "{empty}");
    assert!(empty.contains("No events in two weeks"), "{empty}");
    assert!(empty.contains("Everything works."), "{empty}");

    caller.post("", &json!({ "session_id": "call-1" })).is(201);
    caller.post("", &json!({ "session_id": "idle" })).is(201);
    let lease = json!({ "holder": "<agent>", "ttl_ms": 600_000 });
    let fence = caller.post("/call-1/lease", &lease).is(201)["fence"].clone();
    for path in ["/ui/operations", "/ui/operations/now"] {
        let shown = page(&caller, path).text;
        assert!(
            shown.contains("<a href=\"/ui/sessions/call-1\">"),
            "{shown}"
        );
        assert!(!shown.contains("/ui/sessions/idle"), "{shown}");
        let cells = format!("<td><bdi>&lt;agent&gt;</bdi></td><td class=\"number\">{fence}</td>");
        assert!(shown.contains(&cells), "{shown}");
    }
    let release = format!("/api/v1/sessions/call-1/lease?holder=%3Cagent%3E&fence={fence}");
    let released = caller.send("DELETE", &release, None);
    assert_eq!(released.status, 200, "{released:?}");
    let shown = page(&caller, "/ui/operations/now").text;
    assert!(!shown.contains("/ui/sessions/call-1"), "{shown}");
}

#[test]
fn key_figures_equal_those_of_the_native_route() {
    let world = World::new();
    let server = world.serve();
    let caller = Caller::anonymous(&server);
    for (call, kind) in [
        ("a", "call_started"),
        ("b", "call_started"),
        ("c", "call_started"),
        ("c", "call_lock_timeout"),
    ] {
        if kind == "call_started" {
            caller.post("", &json!({ "session_id": call })).is(201);
        }
        let event = json!({ "key": kind, "kind": kind });
        caller.post(&format!("/{call}/events"), &event).is(201);
    }
    let native = caller
        .send("GET", "/api/admin/tenants/default/technical-status", None)
        .is(200);
    assert_eq!(native["call_lock_timeout_rate_pct"], 33.33);
    let shown = page(&caller, "/ui/operations/figures").text;
    assert!(shown.contains("33.33 %"), "{shown}");
    assert!(shown.contains("exceeded"), "{shown}");
    assert!(!page(&caller, "/ui/operations").text.contains("No events"));
}

#[test]
fn webhooks_are_shown_to_their_tenant() {
    let world = World::new();
    let receiver = Receiver::start();
    configure(&world, &receiver, &with_secret(""));
    let admin = key(&world, &["--role", "admin"]);
    let other = key(&world, &["--role", "admin", "--tenant", "other"]);
    let server = world.serve();
    let shown = |key: &str, path: &str| {
        let caller = Caller::with_credentials(&server, key);
        page(&caller, path).text
    };
    let path = "/ui/operations/deliveries";
    assert!(shown(&admin, path).contains("<th scope=\"row\">crm</th>"));
    assert!(shown(&other, path).contains("No webhook is configured"));
    let with_admin = Caller::with_credentials(&server, &admin);
    with_admin
        .post("", &json!({ "session_id": "call-1" }))
        .is(201);
    let lease = json!({ "holder": "a", "ttl_ms": 600_000 });
    with_admin.post("/call-1/lease", &lease).is(201);
    assert!(shown(&admin, "/ui/operations").contains("call-1"));
    assert!(!shown(&other, "/ui/operations").contains("call-1"));
}

#[test]
fn projections_are_shown_to_the_tenants_that_they_copy() {
    let away = |name: &str, tenants: &str| {
        named_section(
            name,
            "opensearch",
            "http://127.0.0.1:9/",
            &format!("prefix = \"{name}\"\n{tenants}"),
        )
    };
    let world = World::new();
    let sections = away("shared", "") + &away("theirs", "tenants = [\"other\"]\n");
    write_config(&world, &sections);
    let server = world.serve();
    // Without keys, the browser of this machine is the operator.
    let operator = Caller::anonymous(&server);
    wait_until("both failures are shown", || {
        let shown = page(&operator, "/ui/operations").text;
        shown.contains("shared: ") && shown.contains("theirs: ")
    });
    server.stop();
    let admin = key(&world, &["--role", "admin"]);
    let other = key(&world, &["--role", "admin", "--tenant", "other"]);
    let server = world.serve();
    let shown = |key: &str| page(&Caller::with_credentials(&server, key), "/ui/operations").text;
    let hidden = "The operator sees why.";
    wait_until("the failures are noticed again", || {
        shown(&other).contains("theirs: ") && shown(&admin).contains(hidden)
    });
    let of_default = shown(&admin);
    assert!(
        of_default.contains("<th scope=\"row\">shared"),
        "{of_default}"
    );
    for absent in ["theirs", "shared: ", "127.0.0.1:9"] {
        assert!(!of_default.contains(absent), "{absent}: {of_default}");
    }
    let of_other = shown(&other);
    for row in ["shared", "theirs"] {
        let row = format!("<th scope=\"row\">{row}");
        assert!(of_other.contains(&row), "{of_other}");
    }
    assert_eq!(of_other.matches(hidden).count(), 1, "{of_other}");
    assert!(!of_other.contains("shared: "), "{of_other}");
    server.stop();
}

#[test]
fn only_observers_see_operations() {
    let world = World::new();
    let [admin, auditor, service] =
        ["admin", "auditor", "service"].map(|role| key(&world, &["--role", role]));
    let user = key(&world, &["--role", "user", "--identity", "ada"]);
    let server = world.serve();
    let status = |caller: &Caller, path: &str| caller.send("GET", path, None).status;
    let with = |key: &str| Caller::with_credentials(&server, key);
    let paths = ["", "/now", "/deliveries", "/figures"].map(|part| format!("/ui/operations{part}"));
    for path in &paths {
        assert_eq!(status(&with(&admin), path), 200, "{path}");
        assert_eq!(
            status(&with(&admin).for_identity("ada"), path),
            403,
            "{path}"
        );
        assert_eq!(status(&with(&service), path), 403, "{path}");
        assert_eq!(status(&with(&user), path), 403, "{path}");
        assert_eq!(status(&Caller::anonymous(&server), path), 401, "{path}");
        let of_auditor = if path.ends_with("/figures") { 403 } else { 200 };
        assert_eq!(status(&with(&auditor), path), of_auditor, "{path}");
    }
    let shown = page(&with(&auditor), "/ui/operations").text;
    assert!(!shown.contains("Key figures"), "{shown}");
}
