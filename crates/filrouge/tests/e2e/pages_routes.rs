//! The routes of the pages: what each answers, and that it shows nobody another owner's data.

mod code;

use std::collections::BTreeSet;

use serde_json::json;

use self::code::routes_in_code;
use crate::caller::{Caller, key};
use crate::http::{Client, Response};
use crate::pages_shares::share_session;
use crate::world::{Server, World};

/// A route of the pages.
struct Route {
    method: &'static str,
    path: &'static str,
    /// The name of the page, if the route answers with an entire page.
    page: Option<&'static str>,
    /// What tests send: queries, or the fields of forms. Each contains everything that the route requires. `{turn_id}`
    /// is the turn of [`Ids`].
    sent: &'static [&'static str],
}

const fn page(path: &'static str, name: &'static str, queries: &'static [&'static str]) -> Route {
    Route {
        method: "GET",
        path,
        page: Some(name),
        sent: queries,
    }
}

const fn part(path: &'static str, queries: &'static [&'static str]) -> Route {
    Route {
        method: "GET",
        path,
        page: None,
        sent: queries,
    }
}

const fn form(path: &'static str, fields: &'static [&'static str]) -> Route {
    Route {
        method: "POST",
        path,
        page: None,
        sent: fields,
    }
}

/// The route of shared pages, which need no sign-in.
const SHARED: &str = "/ui/shared/{token}";

/// All routes. A test compares them with the code.
const ROUTES: &[Route] = &[
    page(
        "/",
        "sessions",
        &["", "q=harbour", "q=is:failed", "q=nobody-said-this"],
    ),
    part("/ui/new-sessions", &["", "q=harbour"]),
    part("/ui/sessions/{session_id}/figures", &[""]),
    page("/ui/sessions/{session_id}", "conversation", &["", "at=2"]),
    part("/ui/sessions/{session_id}/part", &["", "after=1"]),
    part("/ui/sessions/{session_id}/thread", &[""]),
    part("/ui/sessions/{session_id}/live", &[""]),
    page("/ui/sessions/{session_id}/items/{seq}", "item", &[""]),
    page(
        "/ui/sessions/{session_id}/context",
        "context",
        &["", "format=openai-chat"],
    ),
    part("/ui/sessions/{session_id}/export", &["", "format=html"]),
    page("/ui/histories/{source}/{session_id}", "history", &[""]),
    part("/ui/histories/{source}/{session_id}/part", &[""]),
    page(
        "/ui/histories/{source}/{session_id}/items/{seq}",
        "history-item",
        &[""],
    ),
    page("/ui/audit", "audit", &["", "view=table"]),
    part("/ui/audit", &["format=csv"]),
    page("/ui/sessions/{session_id}/audit", "session-audit", &[""]),
    page("/ui/sessions/{session_id}/verify", "verification", &[""]),
    page("/ui/integrity", "integrity", &[""]),
    form("/ui/integrity", &["bundle=x"]),
    page("/ui/sessions/{session_id}/rename", "rename", &[""]),
    form("/ui/sessions/{session_id}/rename", &["title=renamed"]),
    page("/ui/sessions/{session_id}/close", "close", &[""]),
    form("/ui/sessions/{session_id}/close", &["reason=done"]),
    form("/ui/sessions/{session_id}/reopen", &[""]),
    page(
        "/ui/sessions/{session_id}/redact",
        "redact",
        &["", "turn={turn_id}", "seqs=1"],
    ),
    form(
        "/ui/sessions/{session_id}/redact",
        &["turn={turn_id}&previewed=1&reason=x"],
    ),
    form(
        "/ui/sessions/{session_id}/redact",
        &["seqs=1&previewed=1&reason=x"],
    ),
    page("/ui/sessions/{session_id}/redacted", "redacted", &["seq=1"]),
    page("/ui/sessions/{session_id}/erase", "erase", &[""]),
    form("/ui/sessions/{session_id}/erase", &[""]),
    page("/ui/sessions/{session_id}/receipt", "receipt", &[""]),
    page("/ui/sessions/{session_id}/lineage", "lineage", &[""]),
    page(
        "/ui/histories/{source}/{session_id}/lineage",
        "history-lineage",
        &[""],
    ),
    page("/ui/sessions/{session_id}/shares", "shares", &[""]),
    form("/ui/sessions/{session_id}/shares", &["hours=1"]),
    form("/ui/sessions/{session_id}/shares/revoke", &["share_id=x"]),
    page(SHARED, "shared", &["", "after=1"]),
    page(
        "/ui/sessions/{session_id}/statistics",
        "session-statistics",
        &[""],
    ),
    page("/ui/statistics", "statistics", &[""]),
    page("/ui/operations", "operations", &[""]),
    part("/ui/operations/now", &[""]),
    part("/ui/operations/deliveries", &[""]),
    part("/ui/operations/figures", &[""]),
    form("/ui/sign-in", &["key=frk_unknown_unknown"]),
    form("/ui/sign-out", &[""]),
    part("/ui/assets/{name}", &[""]),
];

/// The values of the parameters in paths.
pub(crate) struct Ids {
    pub(crate) session: String,
    pub(crate) turn: String,
    /// The path of a page that shares the session.
    pub(crate) shared: String,
}

/// A session in the history of another program: its source and id. Tests copy the history.
const IN_HISTORY: &str = "claude-code/1f9f6b92-f7fe-4d48-a077-9082ea2f9a8f";

impl Route {
    /// The targets of its requests, each with its body.
    fn requests(&self, ids: &Ids) -> Vec<(String, String)> {
        let path = self
            .path
            .replace(SHARED, &ids.shared)
            .replace("{source}/{session_id}", IN_HISTORY)
            .replace("{session_id}", &ids.session)
            .replace("{turn_id}", &ids.turn)
            .replace("{seq}", "1")
            .replace("{name}", "pages.js");
        assert!(!path.contains('{'), "tests do not fill in {path}");
        let request = |sent: &&str| {
            let sent = sent.replace("{turn_id}", &ids.turn);
            match self.method {
                "POST" => (path.clone(), sent),
                _ if sent.is_empty() => (path.clone(), sent),
                _ => (format!("{path}?{sent}"), String::new()),
            }
        };
        self.sent.iter().map(request).collect()
    }
}

/// The entire pages: their names and targets.
pub(crate) fn pages(ids: &Ids) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for route in ROUTES {
        let Some(name) = route.page else { continue };
        for (number, (target, _)) in route.requests(ids).into_iter().enumerate() {
            let name = match number {
                0 => name.to_owned(),
                _ => format!("{name}-{number}"),
            };
            all.push((name, target));
        }
    }
    all
}

/// A person with a cookie of a sign-in.
struct Visitor {
    client: Client,
    cookie: String,
}

impl Visitor {
    /// Signs in with a key.
    fn sign_in(server: &Server, key: &str) -> Self {
        let mut visitor = Self {
            client: server.client(),
            cookie: String::new(),
        };
        let response = visitor.send("POST", "/ui/sign-in", &format!("key={key}"));
        assert_eq!(response.status, 303, "{response:?}");
        let cookie = response.header("set-cookie").unwrap();
        let cookie = cookie.split(';').next().unwrap();
        visitor.cookie = format!("cookie: {cookie}\r\n");
        visitor
    }

    /// Sends a request as a browser sends it from a page of the server.
    fn send(&self, method: &str, target: &str, body: &str) -> Response {
        let headers = format!("sec-fetch-site: same-origin\r\n{}", self.cookie);
        if method == "GET" {
            return self.client.send_without_body(method, target, &headers);
        }
        let text = format!(
            "{method} {target} HTTP/1.1\r\nhost: localhost\r\n{headers}connection: close\r\n\
             content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.client.send_bytes(text.as_bytes())
    }
}

/// Records and shares a session of a key's end user, with a word in every text; returns its ids.
fn record(server: &Server, key: &str, session: &str, word: &str) -> Ids {
    let caller = &Caller::with_credentials(server, key);
    let created = json!({ "session_id": session, "title": format!("harbour {word}"), "project_id": word,
        "metadata": { "note": word } });
    caller.post("", &created).wrote(201);
    let call = json!({ "type": "tool_call", "call_id": "1", "name": word, "args": { "in": word } });
    let result = json!({ "type": "tool_result", "call_id": "1", "ok": true, "content": word });
    let turn = json!({ "request_id": format!("r-{word}"), "question_neutral": format!("harbour {word}?"),
        "answer_neutral": format!("harbour {word}."), "metadata": { "note": word }, "items": [
            { "role": "assistant", "channel": "tool_call", "agent": word, "model": word, "parts": [call] },
            { "role": "tool", "channel": "tool_result", "parts": [result] },
        ] });
    let path = format!("/{session}/turns");
    let turn = caller.post(&path, &turn).wrote(201);
    let event = json!({ "key": "e", "kind": word, "detail": { "note": word } });
    caller
        .post(&format!("/{session}/events"), &event)
        .wrote(201);
    let failed = json!({ "request_id": "fails", "question_neutral": format!("harbour {word}?") });
    let failed = caller.post(&path, &failed).wrote(201);
    let failure = json!({ "error": { "code": word, "message": word } });
    let failed = failed["turn_id"].as_str().unwrap();
    caller
        .post(&format!("{path}/{failed}/fail"), &failure)
        .wrote(200);
    Ids {
        session: session.to_owned(),
        turn: turn["turn_id"].as_str().unwrap().to_owned(),
        shared: share_session(server, session, caller.headers(), "hours=1"),
    }
}

/// The answer to the route's request with `asked`, as if it had been sent with `shown`.
fn answer_as_of(visitor: &Visitor, route: &Route, asked: &Ids, shown: &Ids) -> Vec<(u16, String)> {
    let requests = route.requests(asked).into_iter();
    let answers = requests.map(|(target, body)| {
        let response = visitor.send(route.method, &target, &body);
        let text = response.text.replace(&asked.session, &shown.session);
        (response.status, text.replace(&asked.turn, &shown.turn))
    });
    answers.collect()
}

/// Checks that a route shows a visitor with the session `own` nothing of another owner's session, whose texts have this
/// word.
fn check_route(visitor: &Visitor, route: &Route, own: &Ids, foreign: &Ids, word: &str) {
    let shown = format!("{} {}", route.method, route.path);
    let absent = Ids {
        session: "non-session".to_owned(),
        turn: "00000000-0000-5000-8000-000000000000".to_owned(),
        shared: "/ui/shared/x".to_owned(),
    };
    if route.path.contains("{session_id}") {
        let answers = answer_as_of(visitor, route, foreign, foreign);
        for (status, text) in &answers {
            assert!((400..500).contains(status), "{shown}: {status} {text}");
            assert!(!text.contains(word), "{shown}: {text}");
        }
        let expected = answer_as_of(visitor, route, &absent, foreign);
        assert_eq!(answers, expected, "{shown}");
    } else if route.path != "/ui/sign-out" {
        for (target, body) in route.requests(own) {
            let text = visitor.send(route.method, &target, &body).text;
            assert!(!text.contains(word), "{target}: {text}");
            assert!(!text.contains(&foreign.session), "{target}: {text}");
        }
    }
    let mut texts = route.sent.iter().chain([&route.path]);
    if texts.any(|text| text.contains("{turn_id}")) {
        let [foreign_turn, no_turn] = [foreign, &absent].map(|other| Ids {
            session: own.session.clone(),
            turn: other.turn.clone(),
            shared: own.shared.clone(),
        });
        let answers = answer_as_of(visitor, route, &foreign_turn, &foreign_turn);
        let expected = answer_as_of(visitor, route, &no_turn, &foreign_turn);
        assert_eq!(answers, expected, "{shown}");
    }
}

#[test]
fn no_route_shows_another_owners_data() {
    let world = World::new();
    let keys = ["ada", "bob"].map(|name| key(&world, &["--role", "user", "--identity", name]));
    let server = world.serve();
    let hers = record(&server, &keys[0], "her-session", "amber");
    let his = record(&server, &keys[1], "his-session", "cobalt");
    let [ada, bob] = [0, 1].map(|n| Visitor::sign_in(&server, &keys[n]));
    for route in ROUTES {
        check_route(&ada, route, &hers, &his, "cobalt");
        check_route(&bob, route, &his, &hers, "amber");
    }
    // Pages show its owner, and a share shows anybody, what the checks above look for.
    for target in [
        "/".to_owned(),
        format!("/ui/sessions/{}", his.session),
        his.shared,
    ] {
        let text = bob.send("GET", &target, "").text;
        assert!(text.contains("cobalt"), "{target}: {text}");
    }
    server.stop();
}

#[test]
fn without_a_sign_in_every_page_is_the_form_to_sign_in() {
    let world = World::new();
    let key = key(&world, &["--role", "user", "--identity", "ada"]);
    let server = world.serve();
    let hers = record(&server, &key, "her-session", "cobalt");
    let client = server.client();
    for (_, target) in pages(&hers) {
        if target.starts_with(&hers.shared) {
            continue;
        }
        for cookie in ["", "cookie: filrouge-sign-in=forged.forged\r\n"] {
            let response = client.send_without_body("GET", &target, cookie);
            assert_eq!(response.status, 401, "{target}: {response:?}");
            assert!(response.text.contains("type=\"password\""), "{target}");
            assert!(!response.text.contains("cobalt"), "{target}");
        }
    }
    server.stop();
}

#[test]
fn every_route_has_a_check() {
    let routes = routes_in_code();
    let listed = ROUTES.iter();
    let listed: BTreeSet<_> = listed
        .map(|route| (route.method.to_owned(), route.path.to_owned()))
        .collect();
    assert!(routes.len() >= 7, "{routes:?}");
    assert_eq!(routes, listed, "ROUTES of this file lists all routes");
}
