//! The pages of the audit: who may see them, filters, pages, damage, and the file.

use serde_json::json;

use crate::audit::record;
use crate::caller::key;
use crate::pages_visitor::{Visitor, values};
use crate::world::World;

/// The damage of an item of the session `s1` in a file of SQLite.
const DAMAGE: &str = "UPDATE record SET body = CAST(x'ff' || substr(body, 2) AS BLOB) WHERE id = (SELECT record_id \
    FROM record_key WHERE first_seq = 2 AND session_pk = (SELECT pk FROM session WHERE session_id = 's1'))";

#[test]
fn only_auditors_and_admins_see_the_audit() {
    let world = World::new();
    let server = world.serve();
    record(&server.client());
    server.stop();
    let keys = ["admin", "auditor", "service"].map(|role| key(&world, &["--role", role]));
    let user = key(&world, &["--role", "user", "--identity", "ada"]);
    let server = world.serve();
    for (key, may) in [
        (&keys[0], true),
        (&keys[1], true),
        (&keys[2], false),
        (&user, false),
    ] {
        let visitor = Visitor::signed_in(&server, key);
        let expected = if may { 200 } else { 403 };
        for target in ["/ui/audit", "/ui/audit?format=csv", "/ui/sessions/s1/audit"] {
            assert_eq!(visitor.get(target).status, expected, "{key} {target}");
        }
        let absent = visitor.get("/ui/sessions/absent/audit").status;
        assert_eq!(absent, if may { 404 } else { 403 });
        let link = visitor.page("/").contains(r#"href="/ui/audit""#);
        assert_eq!(link, may, "{key}");
    }
    for target in ["/ui/audit", "/ui/audit?format=csv", "/ui/integrity"] {
        assert_eq!(Visitor::new(&server).get(target).status, 401, "{target}");
    }
    server.stop();
}

#[test]
fn the_audit_is_filtered_by_its_address() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record(&client);
    let body = json!({ "reason": "at her wish" });
    let (ada, bob) = (client.for_identity("ada"), client.for_identity("bob"));
    let turns = ada.get_body("/s1/turns");
    let turn = turns["data"][0]["turn_id"].as_str().unwrap();
    ada.post(&format!("/s1/turns/{turn}/redact"), &body)
        .wrote(200);
    bob.delete("/s2").wrote(200);
    let visitor = Visitor::new(&server);
    let all = visitor.page("/ui/audit");
    let kinds = values(&all, "class=\"audit-entry\" data-kind=\"");
    for kind in ["said", "tool", "failure", "link", "redaction", "erasure"] {
        assert!(kinds.iter().any(|shown| shown == kind), "{kind}: {kinds:?}");
        for view in ["", "table"] {
            let page = visitor.page(&format!("/ui/audit?kind={kind}&view={view}&tool=&since="));
            let start = if view.is_empty() {
                "class=\"audit-entry\""
            } else {
                "<tr"
            };
            let of_kind = values(&page, &format!("{start} data-kind=\""));
            let expected = kinds.iter().filter(|shown| *shown == kind).count();
            assert_eq!(of_kind, vec![kind; expected], "{view}");
        }
    }
    let redaction = visitor.page("/ui/audit?kind=redaction");
    assert!(redaction.contains("at her wish"), "{redaction}");
    let tool = visitor.page("/ui/sessions/s1/audit?tool=clock");
    assert!(
        tool.contains("clock") && !tool.contains("ledger</bdi>"),
        "{tool}"
    );
    let nobody = visitor.page("/ui/audit?identity_id=nobody");
    assert!(nobody.contains("Nothing found"), "{nobody}");
    assert!(!visitor.page("/ui/audit?until=1d").contains("audit-entry"));
    assert!(visitor.page("/ui/audit?since=1d").contains("audit-entry"));
    for wrong in [
        "kind=x",
        "since=soon",
        "identity_id=%01",
        "cursor=x",
        "format=xml",
        "color=red",
    ] {
        let refused = visitor.get(&format!("/ui/audit?{wrong}"));
        assert_eq!(refused.status, 422, "{wrong}: {refused:?}");
    }
    server.stop();
}

#[test]
fn later_pages_continue_the_audit() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    for n in 0..120 {
        let body = json!({ "request_id": format!("r{n}"), "question_neutral": format!("number {n}."), "answer_neutral": "x" });
        client.post("/s/turns", &body).wrote(201);
    }
    let visitor = Visitor::new(&server);
    let (mut target, mut seqs) = ("/ui/audit?view=table&tool=".to_owned(), Vec::new());
    loop {
        let page = visitor.page(&target);
        seqs.extend(
            values(&page, "#seq-")
                .iter()
                .map(|seq| seq.parse::<u64>().unwrap()),
        );
        let Some(next) = values(&page, "rel=\"next\" href=\"").pop() else {
            break;
        };
        assert!(next.contains("view=table"), "{next}");
        target = next;
    }
    assert_eq!(seqs, (1..=240).collect::<Vec<_>>());
    server.stop();
}

#[test]
fn the_file_is_that_of_the_api_with_safe_cells() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record(&client);
    let visitor = Visitor::new(&server);
    for (page, api) in [
        ("/ui/audit?format=csv&tool=", "/api/v1/audit?format=csv"),
        (
            "/ui/sessions/s3/audit?format=csv",
            "/api/v1/audit?format=csv&session_id=s3",
        ),
        (
            "/ui/audit?format=csv&tool=clock",
            "/api/v1/audit?format=csv&tool=clock",
        ),
    ] {
        let file = visitor.get(page);
        assert_eq!(file.status, 200, "{file:?}");
        assert_eq!(
            file.header("content-type"),
            Some("text/csv; charset=utf-8; header=present")
        );
        let disposition = file.header("content-disposition");
        assert_eq!(disposition, Some("attachment; filename=\"audit.csv\""));
        assert_eq!(file.text, client.get(api).text);
        if page.contains("s3") {
            assert!(
                file.text.contains("\"'=HYPERLINK(\"\"http://evil\"\""),
                "{file:?}"
            );
        }
    }
    server.stop();
}

#[test]
fn damaged_sessions_are_named() {
    let world = World::on_sqlite();
    let server = world.serve();
    record(&server.client());
    server.stop();
    let store = rusqlite::Connection::open(world.store()).unwrap();
    assert_eq!(store.execute(DAMAGE, []).unwrap(), 1);
    drop(store);
    let server = world.serve();
    let visitor = Visitor::new(&server);
    let page = visitor.page("/ui/audit");
    assert!(page.contains("Damaged sessions"), "{page}");
    assert!(
        page.contains(r#"<a href="/ui/sessions/s1/verify">"#),
        "{page}"
    );
    assert!(page.contains("s2"), "{page}");
    let verified = visitor.page("/ui/sessions/s1/verify");
    assert!(verified.contains(r#"data-verdict="broken""#), "{verified}");
    assert!(
        verified.contains("/ui/sessions/s1?at=2#seq-2"),
        "{verified}"
    );
    let healthy = visitor.page("/ui/sessions/s2/verify");
    assert!(healthy.contains(r#"data-verdict="intact""#), "{healthy}");
}
