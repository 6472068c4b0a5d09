//! The pages that change a session: rename, close, redact and erase, by role, with a preview and receipts.

use serde_json::{Value, json};

use crate::caller::{Caller, key};
use crate::http::Client;
use crate::pages_visitor::{Visitor, values};
use crate::world::{Server, World};

/// The session of Ada, and one that does not exist. Both ids have the same length.
const HERS: &str = "hers-1";
const ABSENT: &str = "none-1";
/// A text of one turn that is not in the title.
const SECRET: &str = "canary-80085";

/// Records two turns of Ada; returns the id of the second one, which has [`SECRET`].
fn record(client: &Client) -> String {
    let ada = client.for_identity("ada");
    let turns = [("r1", "kept words"), ("r2", SECRET)].map(|(request, text)| {
        let item = json!({ "role": "assistant", "channel": "plan", "parts": [{ "type": "text", "text": text }] });
        let body = json!({ "request_id": request, "question_neutral": format!("{text}?"), "items": [item],
            "answer_neutral": format!("{text}!") });
        ada.post(&format!("/{HERS}/turns"), &body).wrote(201)
    });
    turns[1]["turn_id"].as_str().unwrap().to_owned()
}

/// A server with keys over the recorded session: the server, the id of the turn, and the keys of Ada, Bob, a service, an
/// auditor and an admin.
fn with_keys(world: &World) -> (Server, String, [String; 5]) {
    let server = world.serve();
    let turn = record(&server.client());
    server.stop();
    let keys = [
        &["user", "--identity", "ada"][..],
        &["user", "--identity", "bob"],
        &["service"],
        &["auditor"],
        &["admin"],
    ]
    .map(|role| key(world, &[&["--role"], role].concat()));
    (world.serve(), turn, keys)
}

/// The session as its owner sees it.
fn read(server: &Server, key: &str, path: &str) -> Value {
    Caller::with_credentials(server, key).get(path).is(200)
}

/// All forms that change a session, with valid fields.
fn forms() -> [(&'static str, &'static [(&'static str, &'static str)]); 5] {
    [
        ("rename", &[("title", "mine now")]),
        ("close", &[("reason", "done")]),
        ("reopen", &[]),
        (
            "redact",
            &[("seqs", "1"), ("previewed", "1"), ("reason", "why not")],
        ),
        ("erase", &[]),
    ]
}

const PAGES: [&str; 6] = [
    "rename",
    "close",
    "redact",
    "redact?seqs=1",
    "redacted?seq=1",
    "erase",
];

#[test]
fn sessions_of_others_look_absent_on_every_page() {
    let world = World::new();
    let (server, _, [ada, bob, service, ..]) = with_keys(&world);
    for key in [&bob, &service] {
        let visitor = Visitor::signed_in(&server, key);
        let answer = |method: &str, session: &str, page: &str, fields: &[(&str, &str)]| {
            let target = format!("/ui/sessions/{session}{page}");
            let response = match method {
                "GET" => visitor.get(&target),
                _ => visitor.post(&target, fields),
            };
            (response.status, response.text.replace(session, "ID"))
        };
        let pages = PAGES.iter().chain(&["verify", "receipt"]);
        for page in pages.map(|page| format!("/{page}")).chain([String::new()]) {
            let hers = answer("GET", HERS, &page, &[]);
            assert_eq!(hers.0, 404, "{page}: {hers:?}");
            assert_eq!(hers, answer("GET", ABSENT, &page, &[]), "{page}");
        }
        for (page, fields) in forms() {
            let page = format!("/{page}");
            let hers = answer("POST", HERS, &page, fields);
            assert_eq!(hers.0, 404, "{page}: {hers:?}");
            assert_eq!(hers, answer("POST", ABSENT, &page, fields), "{page}");
        }
    }
    let session = read(&server, &ada, &format!("/{HERS}"));
    assert_eq!(
        (&session["title"], &session["status"]),
        (&json!("kept words?"), &json!("active"))
    );
    assert_eq!(session["last_seq"], 6, "{session}");
    server.stop();
}

#[test]
fn each_role_sees_and_does_what_it_may() {
    let world = World::new();
    let (server, _, [ada, _, _, auditor, admin]) = with_keys(&world);
    let links = |key: &str| {
        let page = Visitor::signed_in(&server, key).page(&format!("/ui/sessions/{HERS}"));
        let start = format!("<a href=\"/ui/sessions/{HERS}/");
        let mut links = values(&page, &start);
        links.retain(|link| {
            ["rename", "close", "redact", "erase", "audit"].contains(&link.as_str())
        });
        links
    };
    assert_eq!(links(&ada), ["rename", "close", "redact", "erase"]);
    assert_eq!(links(&auditor), ["audit"]);
    assert_eq!(
        links(&admin),
        ["rename", "close", "redact", "erase", "audit"]
    );
    let reader = Visitor::signed_in(&server, &auditor);
    for session in [HERS, ABSENT] {
        for page in PAGES.iter().chain(&["receipt"]) {
            let refused = reader.get(&format!("/ui/sessions/{session}/{page}"));
            assert_eq!(refused.status, 403, "{page}: {refused:?}");
        }
        for (page, fields) in forms() {
            let refused = reader.post(&format!("/ui/sessions/{session}/{page}"), fields);
            assert_eq!(refused.status, 403, "{page}: {refused:?}");
        }
    }
    let stranger = Visitor::new(&server);
    for (page, fields) in forms() {
        let target = format!("/ui/sessions/{HERS}/{page}");
        assert_eq!(stranger.post(&target, fields).status, 401, "{page}");
    }
    let admin = Visitor::signed_in(&server, &admin);
    for page in PAGES {
        admin.page(&format!("/ui/sessions/{HERS}/{page}"));
    }
    server.stop();
}

#[test]
fn pages_of_other_sites_change_nothing() {
    let world = World::new();
    let (server, _, [ada, ..]) = with_keys(&world);
    let visitor = Visitor::signed_in(&server, &ada);
    let before = read(&server, &ada, &format!("/{HERS}"));
    for (name, value) in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
    ] {
        let other = visitor.with(name, value);
        for (page, fields) in forms() {
            let target = format!("/ui/sessions/{HERS}/{page}");
            assert_eq!(
                other.post(&target, fields).status,
                403,
                "{name}: {value}, {page}"
            );
        }
    }
    assert_eq!(read(&server, &ada, &format!("/{HERS}")), before);
    server.stop();
}

#[test]
fn a_session_is_renamed_closed_and_reopened() {
    let world = World::new();
    let (server, _, [ada, ..]) = with_keys(&world);
    let visitor = Visitor::signed_in(&server, &ada);
    let path = format!("/ui/sessions/{HERS}");
    let is = |member: &str, value: Value| {
        let session = read(&server, &ada, &format!("/{HERS}"));
        assert_eq!(session[member], value, "{session}");
    };
    assert!(
        visitor
            .page(&format!("{path}/rename"))
            .contains(r#"value="kept words?""#)
    );
    let title = "<b>\"new\" & old</b>";
    assert_eq!(
        visitor.submit(&format!("{path}/rename"), &[("title", title)]),
        path
    );
    is("title", json!(title));
    assert!(!visitor.page(&path).contains("<b>"));
    visitor.submit(&format!("{path}/rename"), &[("title", " ")]);
    is("title", Value::Null);
    assert!(
        visitor
            .page(&format!("{path}/close"))
            .contains("No new turn")
    );
    visitor.submit(&format!("{path}/close"), &[("reason", "")]);
    is("status", json!("closed"));
    assert!(
        visitor
            .page(&format!("{path}/close"))
            .contains(&format!("{path}/reopen"))
    );
    visitor.submit(&format!("{path}/reopen"), &[]);
    is("status", json!("active"));
    let unknown = visitor.post(
        &format!("{path}/rename"),
        &[("title", "a"), ("owner", "bob")],
    );
    assert_eq!(unknown.status, 422, "{unknown:?}");
    server.stop();
    world.verify();
}

#[test]
fn a_redaction_erases_exactly_what_its_preview_shows() {
    let world = World::new();
    let (server, turn, [ada, _, _, _, admin]) = with_keys(&world);
    let visitor = Visitor::signed_in(&server, &ada);
    let path = format!("/ui/sessions/{HERS}");
    assert!(
        visitor
            .page(&format!("{path}/redact"))
            .contains(&format!("redact?turn={turn}"))
    );
    let redacted = || {
        let items = read(&server, &ada, &format!("/{HERS}/items?limit=500"));
        let items = items["data"].as_array().unwrap().clone();
        let redacted = items.iter().filter(|item| item["redacted"] == true);
        redacted
            .map(|item| item["seq"].to_string())
            .collect::<Vec<_>>()
    };
    let preview = |target: &str| {
        let page = visitor.page(&format!("{path}/redact?{target}"));
        let goes = page.split("class=\"stays\"").next().unwrap();
        let previewed = values(&page, "name=\"previewed\" value=\"").remove(0);
        (values(goes, "#seq-"), previewed, page)
    };
    let (shown, previewed, page) = preview(&format!("turn={turn}"));
    assert_eq!(
        (&shown[..], &*previewed),
        (&["4", "5", "6"].map(str::to_owned)[..], "4-6")
    );
    assert!(
        page.contains(SECRET) && page.contains("What stays"),
        "{page}"
    );
    let send = |previewed: &str, reason: &str| {
        let fields = [
            ("turn", &*turn),
            ("seqs", ""),
            ("previewed", previewed),
            ("reason", reason),
        ];
        visitor.post(&format!("{path}/redact"), &fields)
    };
    let changed = send("4-5", "at her wish");
    assert_eq!(changed.status, 409, "{changed:?}");
    assert!(changed.text.contains("Nothing was redacted"), "{changed:?}");
    assert_eq!(send("4-6", "  ").status, 422);
    assert!(redacted().is_empty());
    let done = send("4-6", "at her wish");
    assert_eq!(
        done.header("location"),
        Some(&*format!("{path}/redacted?seq=7")),
        "{done:?}"
    );
    assert_eq!(redacted(), shown);
    let receipt = visitor.page(&format!("{path}/redacted?seq=7"));
    assert!(
        receipt.contains("ledger") && receipt.contains(r#"data-status="erased""#),
        "{receipt}"
    );
    assert!(!visitor.page(&path).contains(SECRET));
    let (shown, previewed, page) = preview("seqs=1,+3");
    assert_eq!(
        (&shown[..], &*previewed),
        (&["1", "3"].map(str::to_owned)[..], "1 3")
    );
    assert!(
        page.contains("in these fields") && page.contains("title"),
        "{page}"
    );
    let fields = [
        ("seqs", "1, 3"),
        ("previewed", "1 3"),
        ("reason", "too"),
        ("with_title", "true"),
    ];
    visitor.submit(&format!("{path}/redact"), &fields);
    assert_eq!(redacted(), ["1", "3", "4", "5", "6"]);
    assert_eq!(
        read(&server, &ada, &format!("/{HERS}"))["title"],
        Value::Null
    );
    let audit = Visitor::signed_in(&server, &admin).page("/ui/audit?kind=redaction");
    assert!(
        audit.contains("at her wish") && audit.contains("4-6"),
        "{audit}"
    );
    for wrong in [
        "seqs=x",
        "seqs=0",
        "seqs=5-4",
        "turn=x",
        &format!("turn={turn}&seqs=1"),
        "seqs=99",
    ] {
        let refused = visitor.get(&format!("{path}/redact?{wrong}")).status;
        assert!([404, 422].contains(&refused), "{wrong}: {refused}");
    }
    server.stop();
    world.verify();
}

#[test]
fn an_erasure_asks_and_shows_its_receipt() {
    let world = World::new();
    let (server, _, [ada, bob, _, _, admin]) = with_keys(&world);
    let visitor = Visitor::signed_in(&server, &ada);
    let path = format!("/ui/sessions/{HERS}");
    let asked = visitor.page(&format!("{path}/erase"));
    assert!(
        asked.contains("Erase permanently") && asked.contains("kept words?"),
        "{asked}"
    );
    let early = visitor.get(&format!("{path}/receipt"));
    assert_eq!(
        early.header("location"),
        Some(&*format!("{path}/erase")),
        "{early:?}"
    );
    read(&server, &ada, &format!("/{HERS}"));
    let receipt = format!("{path}/receipt");
    assert_eq!(visitor.submit(&format!("{path}/erase"), &[]), receipt);
    let shown = visitor.page(&receipt);
    assert!(
        shown.contains(HERS) && shown.contains(r#"data-status="erased""#),
        "{shown}"
    );
    assert!(shown.contains("<dt>Items</dt><dd>6</dd>"), "{shown}");
    assert_eq!(
        visitor.page(&receipt),
        shown,
        "the receipt stays the first one"
    );
    assert_eq!(visitor.get(&path).status, 410);
    assert_eq!(Visitor::signed_in(&server, &bob).get(&receipt).status, 404);
    let audit = Visitor::signed_in(&server, &admin).page("/ui/audit?kind=erasure");
    assert!(audit.contains(HERS), "{audit}");
    server.stop();
    world.verify();
}
