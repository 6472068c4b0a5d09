//! Shares: what a shared page shows to whom, when it ends, and that it reaches nothing else (DESIGN §8).

use serde_json::{Value, json};

use crate::caller::{Caller, key, key_id};
use crate::http::Response;
use crate::world::{Server, World};

/// What the form sends to share an entire conversation.
const ALL: &str = "hours=1&first=&last=";

/// A turn whose items have a word of their own for each kind of content. Its items have the seqs from 1 to 5.
fn turn() -> Value {
    json!({ "request_id": "r1", "question_neutral": "question-word", "answer_neutral": "answer-word", "items": [
        { "role": "assistant", "channel": "thought", "agent": "agent-word", "model": "model-word",
          "parts": [{ "type": "text", "text": "thought-word" }] },
        { "role": "assistant", "channel": "tool_call", "agent": "agent-word", "model": "model-word",
          "parts": [{ "type": "tool_call", "call_id": "c", "name": "tool-word", "args": { "x": "args-word" } }] },
        { "role": "tool", "channel": "tool_result",
          "parts": [{ "type": "tool_result", "call_id": "c", "ok": true, "content": "result-word" }] }] })
}

fn second_turn() -> Value {
    json!({ "request_id": "r2", "question_neutral": "second-question", "answer_neutral": "second-answer" })
}

/// A running server whose session `s` of the end user `owner-word` has one turn.
fn serve(world: &World) -> Server {
    let server = world.serve();
    let owner = server.client().for_identity("owner-word");
    owner.post("/s/turns", &turn()).wrote(201);
    server
}

/// Sends a form; `headers` are more lines of the request's head.
fn post_form(server: &Server, headers: &str, path: &str, form: &str) -> Response {
    let length = form.len();
    let text = format!(
        "POST {path} HTTP/1.0\r\nhost: localhost\r\nconnection: close\r\n{headers}\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {length}\r\n\r\n{form}"
    );
    server.client().send_bytes(text.as_bytes())
}

/// Shares the session `s`; returns the path of the shared page.
#[track_caller]
fn share(server: &Server, headers: &str, form: &str) -> String {
    share_session(server, "s", headers, form)
}

/// Shares a session; returns the path of the shared page. `headers` are more lines of the request's head.
#[track_caller]
pub(crate) fn share_session(server: &Server, session: &str, headers: &str, form: &str) -> String {
    let target = format!("/ui/sessions/{session}/shares");
    let created = post_form(server, headers, &target, form);
    assert_eq!(created.status, 200, "{created:?}");
    let from = created.text.find("/ui/shared/").expect("an address");
    let path = &created.text[from..];
    path[..path.find('"').unwrap()].to_owned()
}

/// The share's id in the path of its page.
fn share_id(path: &str) -> &str {
    &path["/ui/shared/".len()..][..12]
}

/// Requests a page without any credentials.
fn visit(server: &Server, path: &str) -> Response {
    Caller::anonymous(server).send("GET", path, None)
}

#[track_caller]
fn read(server: &Server, path: &str) -> String {
    let response = visit(server, path);
    assert_eq!(response.status, 200, "{response:?}");
    response.text
}

/// Everything in a response that a visitor could distinguish, except times and ids of requests.
fn comparable(response: &Response) -> (u16, Vec<String>, String) {
    let names = response.headers.iter().map(|(n, v)| match n.as_str() {
        "date" | "filrouge-request-id" | "x-request-id" => n.clone(),
        _ => format!("{n}: {v}"),
    });
    (response.status, names.collect(), response.text.clone())
}

/// The values of all attributes with this name.
fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let begin = format!(" {name}=\"");
    let values = html.split(begin.as_str()).skip(1);
    values.map(|rest| rest.split('"').next().unwrap()).collect()
}

#[test]
fn a_share_shows_only_what_its_creator_has_chosen() {
    let world = World::new();
    let server = serve(&world);
    let words = [
        "thought-word",
        "tool-word",
        "args-word",
        "result-word",
        "agent-word",
        "model-word",
        "owner-word",
    ];
    for (options, hidden) in [
        ("", &[][..]),
        ("&without_reasoning=1", &words[..1]),
        ("&without_tools=1", &words[1..4]),
        ("&without_names=1", &words[4..]),
        (
            "&without_reasoning=1&without_tools=1&without_names=1",
            &words[..],
        ),
    ] {
        let path = share(&server, "", &format!("{ALL}{options}"));
        let page = read(&server, &path);
        assert!(page.contains("question-word") && page.contains("answer-word"));
        for word in words {
            let is_hidden = hidden.contains(&word);
            assert_eq!(page.contains(word), !is_hidden, "{options}: {word}");
        }
    }
    server.stop();
    world.verify();
}

#[test]
fn a_share_is_a_range_that_is_fixed_or_grows() {
    let world = World::new();
    let server = serve(&world);
    let fixed = share(&server, "", ALL);
    let grows = share(&server, "", &format!("{ALL}&grows=1"));
    let later = share(&server, "", "hours=1&first=5&last=5");
    let owner = server.client().for_identity("owner-word");
    owner.post("/s/turns", &second_turn()).wrote(201);
    assert!(!read(&server, &fixed).contains("second-answer"));
    assert!(read(&server, &grows).contains("second-answer"));
    for query in [
        "",
        "?after=0",
        "?after=5",
        "?after=6",
        "?after=18446744073709551615",
        "?x",
    ] {
        let page = read(&server, &format!("{later}{query}"));
        for word in [
            "question-word",
            "thought-word",
            "second-question",
            "second-answer",
        ] {
            assert!(!page.contains(word), "{query}: {word}");
        }
    }
    assert!(read(&server, &later).contains("answer-word"));
    let empty = post_form(
        &server,
        "",
        "/ui/sessions/s/shares",
        "hours=1&first=9&last=",
    );
    assert_eq!(empty.status, 422, "{empty:?}");
    server.stop();
}

#[test]
fn a_long_share_is_read_in_parts() {
    let world = World::new();
    let server = serve(&world);
    let owner = server.client().for_identity("owner-word");
    let item = |n: usize| json!({ "role": "assistant", "channel": "thought", "parts": [{ "type": "text", "text": format!("word{n}word") }] });
    let items: Vec<Value> = (0..250).map(item).collect();
    let long = json!({ "request_id": "long", "question_neutral": "long?", "answer_neutral": "the end", "items": items });
    owner.post("/s/turns", &long).wrote(201);
    let path = share(&server, "", ALL);
    let first = read(&server, &path);
    let next = attributes(&first, "href")
        .into_iter()
        .find(|href| href.starts_with("?after="));
    let second = read(&server, &format!("{path}{}", next.expect("a next part")));
    let both = format!("{first}{second}");
    assert!((0..250).all(|n| both.contains(&format!("word{n}word"))));
    assert!(second.contains("the end") && !second.contains("?after="));
    server.stop();
}

#[test]
fn shares_that_ended_and_that_never_existed_look_the_same() {
    let world = World::new();
    let server = serve(&world);
    let (revoked, erased) = (share(&server, "", ALL), share(&server, "", ALL));
    let unknown = format!("/ui/shared/{}", "a".repeat(55));
    let reference = visit(&server, &unknown);
    assert_eq!(reference.status, 404, "{reference:?}");
    read(&server, &revoked);
    let form = format!("share_id={}", share_id(&revoked));
    let done = post_form(&server, "", "/ui/sessions/s/shares/revoke", &form);
    assert_eq!(
        (done.status, done.header("location")),
        (303, Some("/ui/sessions/s/shares"))
    );
    let mixed = format!("/ui/shared/{}{}", share_id(&erased), "a".repeat(43));
    for path in [
        revoked.as_str(),
        &mixed,
        "/ui/shared/x",
        "/ui/shared/%FF",
        "/ui/shared/%00?after=1",
    ] {
        assert_eq!(
            comparable(&visit(&server, path)),
            comparable(&reference),
            "{path}"
        );
    }
    read(&server, &erased);
    server
        .client()
        .for_identity("owner-word")
        .delete("/s")
        .is(200);
    assert_eq!(comparable(&visit(&server, &erased)), comparable(&reference));
    server.stop();
    world.verify();
}

#[test]
fn a_redaction_applies_to_a_share_at_once() {
    let world = World::new();
    let server = serve(&world);
    let path = share(&server, "", ALL);
    assert!(read(&server, &path).contains("thought-word"));
    world.ok(&["redact", "s", "--seq", "2", "--reason", "asked to"]);
    let page = read(&server, &path);
    assert!(
        !page.contains("thought-word") && page.contains("Redacted"),
        "{page}"
    );
    server.stop();
}

#[test]
fn strangers_neither_share_nor_list_nor_revoke() {
    let world = World::new();
    let [ada, bob] =
        ["ada", "bob"].map(|name| key(&world, &["--role", "user", "--identity", name]));
    let auditor = key(&world, &["--role", "auditor"]);
    let server = world.serve();
    Caller::with_credentials(&server, &ada)
        .post("/s/turns", &turn())
        .wrote(201);
    let bearer = |key: &str| format!("authorization: Bearer {key}\r\n");
    let path = share(&server, &bearer(&ada), ALL);
    assert!(
        read(&server, &path).contains("answer-word"),
        "needs no credentials"
    );
    let revoke = format!("share_id={}", share_id(&path));
    let target = "/ui/sessions/s/shares";
    for (credentials, read_status, write_status) in [
        (String::new(), 401, 401),
        (bearer(&bob), 404, 404),
        (bearer(&auditor), 200, 403),
    ] {
        let listed = server
            .client()
            .send_without_body("GET", target, &credentials);
        assert_eq!(listed.status, read_status, "{listed:?}");
        assert_eq!(
            post_form(&server, &credentials, target, ALL).status,
            write_status
        );
        let revoked = post_form(&server, &credentials, &format!("{target}/revoke"), &revoke);
        assert_eq!(revoked.status, write_status, "{revoked:?}");
    }
    let other_site = format!("{}sec-fetch-site: cross-site\r\n", bearer(&ada));
    assert_eq!(post_form(&server, &other_site, target, ALL).status, 403);
    read(&server, &path);
    let listed = server
        .client()
        .send_without_body("GET", target, &bearer(&ada));
    let secret = &path["/ui/shared/".len()..][12..];
    assert!(listed.text.contains(share_id(&path)) && !listed.text.contains(secret));
    world.assert_not_stored(secret);
    server.stop();
}

#[test]
fn a_share_ends_when_its_creators_key_is_revoked() {
    let world = World::new();
    let ada = key(&world, &["--role", "user", "--identity", "ada"]);
    let server = world.serve();
    Caller::with_credentials(&server, &ada)
        .post("/s/turns", &turn())
        .wrote(201);
    let path = share(&server, &format!("authorization: Bearer {ada}\r\n"), ALL);
    read(&server, &path);
    world.ok(&["keys", "revoke", key_id(&ada)]);
    assert_eq!(visit(&server, &path).status, 404);
    server.stop();
}

#[test]
fn the_audit_has_the_creation_the_first_opening_and_the_revocation() {
    let world = World::new();
    let server = serve(&world);
    let path = share(&server, "", ALL);
    for _ in 0..2 {
        read(&server, &path);
    }
    let form = format!("share_id={}", share_id(&path));
    post_form(&server, "", "/ui/sessions/s/shares/revoke", &form);
    let audit = world.ok(&["audit", "--session", "s"]);
    let rows: Vec<&str> = audit
        .lines()
        .filter(|line| line.contains("system  share"))
        .collect();
    assert_eq!(rows.len(), 3, "{audit}");
    for (row, kind) in rows.iter().zip(["shared", "share_opened", "share_revoked"]) {
        let detail = format!(r#""type":"{kind}","share_id":"{}""#, share_id(&path));
        assert!(row.contains(&detail), "{row}");
    }
    server.stop();
}

#[test]
fn guesses_are_limited_and_do_not_affect_shares_that_exist() {
    let world = World::new();
    let server = serve(&world);
    let path = share(&server, "", ALL);
    let guess = |n: usize| visit(&server, &format!("/ui/shared/{n:a>55}"));
    let refused = (0..10_000)
        .map(guess)
        .find(|response| response.status != 404);
    let refused = refused.expect("a refusal");
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (429, Some("1"))
    );
    read(&server, &path);
    server.stop();
}

#[test]
fn a_shared_page_has_no_scripts_and_leads_nowhere() {
    let world = World::new();
    let server = serve(&world);
    let path = share(&server, "", ALL);
    let missing = "/ui/shared/x".to_owned();
    for path in [path, missing] {
        let page = visit(&server, &path);
        let policy = page.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'none'; style-src 'sha256-"),
            "{policy}"
        );
        assert!(
            !policy.contains("script") && !policy.contains("'self'"),
            "{policy}"
        );
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(
            page.header("x-robots-tag"),
            Some("noindex, nofollow, noarchive")
        );
        assert_eq!(page.header("cache-control"), Some("no-store"));
        assert_eq!(page.header("x-frame-options"), Some("DENY"));
        assert_eq!(page.header("set-cookie"), None);
        for element in [
            "<script", "<form", "<iframe", "<link", "<img", "<object", "<base",
        ] {
            assert!(!page.text.contains(element), "{element}");
        }
        for href in attributes(&page.text, "href") {
            assert!(href.starts_with('#'), "{href}");
        }
        assert!(attributes(&page.text, "src").is_empty());
    }
    let foreign = server
        .client()
        .send_without_body("GET", "/ui/shared/x", "host: example.org\r\n");
    assert_eq!(
        foreign.status, 403,
        "a server without keys answers this machine only"
    );
    server.stop();
}

#[test]
fn sharing_can_be_off_and_durations_are_limited() {
    let world = World::new();
    let server = serve(&world);
    let path = share(&server, "", ALL);
    let too_long = post_form(
        &server,
        "",
        "/ui/sessions/s/shares",
        "hours=721&first=&last=",
    );
    assert_eq!(too_long.status, 422, "{too_long:?}");
    server.stop();
    let server = world.serve_with_env(&[("FILROUGE_PAGES_SHARE_MAX_DAYS", "0")], &[]);
    assert_eq!(visit(&server, &path).status, 404);
    let refused = post_form(&server, "", "/ui/sessions/s/shares", ALL);
    assert_eq!(refused.status, 403, "{refused:?}");
    let listed = visit(&server, "/ui/sessions/s/shares");
    assert!(
        listed.status == 200 && !listed.text.contains("new-share"),
        "{listed:?}"
    );
    server.stop();
}
