//! The page of sessions, over HTTP: the list, the search, and what each caller sees; sign-in; `filrouge ui`.

use serde_json::json;

use crate::caller::{Caller, key, key_id, within_five_seconds};
use crate::http::{Client, Response, text_item};
use crate::search_http::{encoded, record_three_sessions, turn};
use crate::source_cli::{PLAN, home};
use crate::world::{Server, World};

/// Returns a page, which must be shown.
#[track_caller]
fn page(caller: &Caller, path: &str) -> String {
    let response = caller.send("GET", path, None);
    assert_eq!(response.status, 200, "{path}: {response:?}");
    assert_eq!(
        response.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    response.text
}

/// The page of a search.
#[track_caller]
fn search(caller: &Caller, q: &str) -> String {
    page(caller, &format!("/?q={}", encoded(q)))
}

/// The values of an attribute that follows `before` in a page, in order.
fn values(html: &str, before: &str) -> Vec<String> {
    let parts = html.split(before).skip(1);
    let value = |part: &str| part.split('"').next().unwrap().replace("&amp;", "&");
    parts.map(value).collect()
}

/// The addresses of the sessions of a page, in order.
fn rows(html: &str) -> Vec<String> {
    values(html, "class=\"open\" href=\"")
}

/// The addresses of all sessions of a list, page by page, and the number of pages.
fn all_rows(caller: &Caller, path: &str) -> (Vec<String>, usize) {
    let (mut all, mut next, mut pages) = (Vec::new(), Some(path.to_owned()), 0);
    while let Some(path) = next {
        let html = page(caller, &path);
        all.extend(rows(&html));
        next = values(&html, "id=\"older-link\" href=\"").pop();
        pages += 1;
    }
    (all, pages)
}

fn create(client: &Client, id: &str) {
    let session =
        json!({ "session_id": id, "title": format!("About {id}"), "project_id": "garden" });
    client.post("", &session).wrote(201);
}

/// Records a session with a turn that has failed, and an item with usage.
fn record_failure(client: &Client, session: &str) {
    let started = json!({ "request_id": "r", "question_neutral": "How warm is it?" });
    let turns = format!("/{session}/turns");
    let turn = client.post(&turns, &started).wrote(201);
    let turn = turn["turn_id"].as_str().unwrap();
    let mut item = text_item("i", "assistant", "thought", "look outside");
    item["agent"] = json!("guide");
    item["usage"] = json!({ "input_tokens": 1200, "output_tokens": 300 });
    let items = json!({ "items": [item] });
    client
        .post(&format!("{turns}/{turn}/items"), &items)
        .wrote(201);
    let error =
        json!({ "error": { "code": "model_down", "message": "no route", "retryable": true } });
    client
        .post(&format!("{turns}/{turn}/fail"), &error)
        .wrote(200);
}

/// Sends a form as a page of `origin` does.
fn post_form(server: &Server, path: &str, form: &str, headers: &str) -> Response {
    let text = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}content-type: application/x-www-form-urlencoded\r\n\
         content-length: {}\r\n\r\n{form}",
        form.len()
    );
    server.client().send_bytes(text.as_bytes())
}

/// Signs in with a key, as a form of the page `/` does; returns the browser.
#[track_caller]
fn sign_in(server: &Server, key: &str) -> Caller {
    let response = post_form(
        server,
        "/ui/sign-in",
        &format!("key={key}"),
        "origin: http://localhost\r\n",
    );
    assert_eq!(response.status, 303, "{response:?}");
    assert_eq!(response.header("location"), Some("/"));
    let cookie = response.header("set-cookie").unwrap();
    for attribute in ["; Path=/", "; HttpOnly", "; SameSite=Lax", "; Max-Age="] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    let pair = cookie.split(';').next().unwrap();
    Caller::anonymous(server).with("cookie", pair)
}

#[test]
fn the_list_shows_sessions_and_their_figures() {
    let world = World::new();
    let server = world.serve();
    let ada = server.client().for_identity("ada");
    let browser = Caller::anonymous(&server);
    assert!(page(&browser, "/").contains("No sessions yet"));
    create(&ada, "s1");
    create(&ada, "s2");
    turn(&ada, "s1", "a", ("Is it green?", "Yes."));
    record_failure(&ada, "s3");
    let html = page(&browser, "/");
    assert_eq!(
        rows(&html),
        ["/ui/sessions/s3", "/ui/sessions/s1", "/ui/sessions/s2"]
    );
    let created = page(&browser, "/?order=created");
    assert_eq!(
        rows(&created),
        ["/ui/sessions/s3", "/ui/sessions/s2", "/ui/sessions/s1"]
    );
    for text in [
        "About s1",
        "How warm is it?",
        "<bdi>ada</bdi>",
        "<bdi>garden</bdi>",
        "<bdi>guide</bdi>",
    ] {
        assert!(html.contains(text), "{text}: {html}");
    }
    for column in [
        "Title",
        "Agents",
        "Owner",
        "Project",
        "Turns",
        "Tokens",
        "Cost",
        "Status",
        "Last activity",
    ] {
        assert!(
            html.contains(&format!("scope=\"col\">{column}</th>")),
            "{column}: {html}"
        );
    }
    let figures = page(&browser, "/ui/sessions/s3/figures");
    assert!(
        figures.contains("failed") && figures.contains("1\u{202f}500"),
        "{figures}"
    );
    // The figures are kept until the session has a new item.
    assert_eq!(page(&browser, "/ui/sessions/s3/figures"), figures);
    turn(&ada, "s3", "b", ("And now?", "Warm."));
    assert!(!page(&browser, "/ui/sessions/s3/figures").contains("failed"));
    // Without owners in it, an end user's list has no such column.
    let own = page(&browser.for_identity("ada"), "/");
    assert!(!own.contains("Owner"), "{own}");
}

#[test]
fn absurd_token_counts_have_figures() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let items = ["guide", "cook"].map(|agent| {
        let mut item = text_item(agent, "assistant", "thought", "count");
        item["agent"] = json!(agent);
        item["usage"] = json!({ "input_tokens": u64::MAX, "output_tokens": 1 });
        item
    });
    let turn = json!({ "request_id": "r", "question_neutral": "?", "answer_neutral": "!", "items": items });
    client.post("/s/turns", &turn).wrote(201);
    let figures = page(&Caller::anonymous(&server), "/ui/sessions/s/figures");
    assert!(figures.contains("18\u{202f}446\u{202f}744"), "{figures}");
    server.stop();
}

#[test]
fn sessions_are_found_by_words_and_filters() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record_three_sessions(&client);
    record_failure(&client.for_identity("ada"), "s4");
    client.post("/s2/close", &json!({})).wrote(200);
    let browser = Caller::anonymous(&server);
    let found = |q: &str| {
        let mut paths = rows(&search(&browser, q));
        paths.sort();
        let ids = paths.iter().map(|path| path.replace("/ui/sessions/", ""));
        ids.collect::<Vec<_>>().join(" ")
    };
    for (q, expected) in [
        ("cafe", "s1"),
        ("/Gate\\./", "s3"),
        ("role:user gate", "s2"),
        ("gate is:closed", "s2"),
        ("gate owner:ada", ""),
        ("warm owner:ada is:failed", "s4"),
        ("project:garden", "s1"),
        ("agent:botanist", "s1"),
        ("is:failed", "s4"),
        ("is:closed", "s2"),
        ("status:active project:garden", "s1"),
        ("owner:ada", "s4"),
        ("since:7d", "s1 s2 s3 s4"),
        ("before:2020-01-01", ""),
        ("source:ledger", "s1 s2 s3 s4"),
        ("source:codex", ""),
    ] {
        assert_eq!(found(q), expected, "{q}");
    }
    let html = search(&browser, "cafe");
    assert!(html.contains("<mark>café</mark>"), "{html}");
    assert!(
        html.contains("href=\"/ui/sessions/s1?at=1#seq-1\""),
        "{html}"
    );
    assert!(
        html.contains("1 matching session") && html.contains("value=\"cafe\""),
        "{html}"
    );
    // Quotation marks in a text are not those of the match.
    turn(&client, "s5", "q", ("Où est le «grand» château?", "«Là»."));
    let html = search(&browser, "château session:s5");
    assert!(
        html.contains("Où est le «grand» <mark>château</mark>?"),
        "{html}"
    );
    assert!(search(&browser, "unheard").contains("Nothing found"));
    for invalid in ["\"open", "is:red", "-is:failed", "before:foo", "/(/"] {
        let html = search(&browser, invalid);
        assert!(
            html.contains("id=\"wrong-search\"") && rows(&html).is_empty(),
            "{invalid}: {html}"
        );
    }
}

#[test]
fn a_list_continues_on_the_next_page_and_stays_put() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    for n in 0..60 {
        create(&client, &format!("s-{n}"));
    }
    let browser = Caller::anonymous(&server);
    let (all, pages) = all_rows(&browser, "/?q=project%3Agarden&order=created");
    let expected: Vec<String> = (0..60)
        .rev()
        .map(|n| format!("/ui/sessions/s-{n}"))
        .collect();
    assert_eq!((all, pages), (expected, 2));
    // The page asks for new sessions, and shows only their number.
    let html = page(&browser, "/");
    let notice = values(&html, "hx-get=\"/ui/new-sessions").pop().unwrap();
    let notice = format!("/ui/new-sessions{notice}");
    assert_eq!(page(&browser, &notice), "");
    create(&client, "new-1");
    assert!(page(&browser, &notice).contains("1 new session: show"));
    create(&client, "new-2");
    assert!(page(&browser, &notice).contains("2 new sessions: show"));
}

#[test]
fn nobody_sees_sessions_of_others() {
    let world = World::new();
    let of = |name: &str| key(&world, &["--role", "user", "--identity", name]);
    let (ada_key, bob_key) = (of("ada"), of("bob"));
    let server = world.serve();
    for (key, session) in [(&ada_key, "adas"), (&bob_key, "bobs")] {
        let caller = Caller::with_credentials(&server, key);
        let created = json!({ "session_id": session, "title": "The gate" });
        assert_eq!(caller.post("", &created).status, 201);
        let turn = json!({ "request_id": "r", "question_neutral": "Where is the gate?", "answer_neutral": session });
        assert_eq!(caller.post(&format!("/{session}/turns"), &turn).status, 201);
    }
    let ada = sign_in(&server, &ada_key);
    for path in [
        "/",
        "/?order=created",
        "/?q=owner%3Abob",
        "/?q=gate",
        "/?q=bobs",
        "/?q=is%3Aactive",
        "/ui/new-sessions",
    ] {
        let html = page(&ada, path)
            .replace("value=\"bobs\"", "")
            .replace("q=bobs", "");
        assert!(!html.contains("bobs"), "{path}: {html}");
    }
    let html = page(&ada, "/?q=gate");
    assert!(
        html.contains("1 matching session") && html.contains("/ui/sessions/adas"),
        "{html}"
    );
    assert!(page(&ada, "/ui/new-sessions").contains("1 new session"));
    let failure = |id: &str| {
        let response = ada.send("GET", &format!("/ui/sessions/{id}/figures"), None);
        (response.status, response.text.replace(id, "ID"))
    };
    let absent = failure("absent-1");
    assert_eq!((failure("bobs"), absent.0), (absent.clone(), 404));
}

#[test]
fn pages_allow_nothing_from_elsewhere() {
    let world = World::new();
    let server = world.serve();
    let browser = Caller::anonymous(&server);
    for (path, status) in [
        ("/", 200),
        ("/?q=is%3Ared", 200),
        ("/ui/new-sessions", 200),
        ("/ui/sessions/none", 404),
        ("/ui/none", 404),
        ("/?unknown=1", 422),
    ] {
        let response = browser.send("GET", path, None);
        assert_eq!(response.status, status, "{path}: {response:?}");
        let policy = response.header("content-security-policy").unwrap();
        for rule in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("cache-control", "no-store"),
            ("content-type", "text/html; charset=utf-8"),
        ] {
            assert_eq!(response.header(name), Some(value), "{path}: {response:?}");
        }
        for inline in [" style=", "<style", " onclick", "javascript:", "<script>"] {
            assert!(!response.text.contains(inline), "{path}: {inline}");
        }
    }
}

#[test]
fn recorded_text_is_never_markup() {
    let world = World::new();
    let server = world.serve();
    let hostile = "\"><script>alert(1)</script><img src=x onerror=alert(1)>";
    let client = server.client().for_identity(&hostile.replace('/', "-"));
    let session = json!({ "session_id": hostile, "title": hostile, "project_id": hostile });
    client.post("", &session).wrote(201);
    let path = format!("/{}/turns", encoded(hostile));
    let turn = json!({ "request_id": "r", "question_neutral": hostile, "answer_neutral": "«<b>»" });
    client.post(&path, &turn).wrote(201);
    let browser = Caller::anonymous(&server);
    let list = page(&browser, "/");
    assert!(list.contains("&lt;script&gt;"), "{list}");
    // The address leads to the session in spite of its id.
    let address = rows(&list).pop().unwrap();
    for html in [
        list,
        search(&browser, hostile),
        search(&browser, "alert"),
        search(&browser, &format!("is:{hostile}")),
        page(&browser, &format!("{address}/figures")),
    ] {
        for markup in ["<script>", "<img", "<b>"] {
            assert!(!html.contains(markup), "{markup}: {html}");
        }
    }
}

#[test]
fn a_key_signs_in_until_it_is_revoked() {
    let world = World::new();
    let admin = key(&world, &["--role", "admin"]);
    let server = world.serve();
    let nobody = Caller::anonymous(&server);
    let refused = nobody.send("GET", "/", None);
    assert_eq!(refused.status, 401);
    assert!(
        refused.text.contains("action=\"/ui/sign-in\""),
        "{refused:?}"
    );
    let wrong = post_form(&server, "/ui/sign-in", "key=fr_x_y", "");
    assert_eq!((wrong.status, wrong.header("set-cookie")), (401, None));
    assert!(
        wrong.text.contains("This is no valid API key or token."),
        "{wrong:?}"
    );
    let browser = sign_in(&server, &admin);
    assert!(page(&browser, "/").contains(key_id(&admin)));
    // The cookie opens no native route.
    browser.get("").fails(401, "unauthenticated");
    let cookie = browser.headers();
    for origin in [
        "origin: http://other.example\r\n",
        "sec-fetch-site: cross-site\r\n",
    ] {
        let headers = format!("{cookie}{origin}");
        let crossed = post_form(&server, "/ui/sign-out", "", &headers);
        assert_eq!(
            (crossed.status, crossed.header("set-cookie")),
            (403, None),
            "{crossed:?}"
        );
    }
    let out = post_form(
        &server,
        "/ui/sign-out",
        "",
        &format!("{cookie}origin: http://localhost\r\n"),
    );
    assert_eq!(out.status, 303);
    assert!(
        out.header("set-cookie").unwrap().contains("Max-Age=0"),
        "{out:?}"
    );
    world.ok(&["keys", "revoke", key_id(&admin)]);
    within_five_seconds("the sign-in ends with its key", || {
        browser.send("GET", "/", None).status == 401
    });
}

#[test]
fn ui_shows_histories_without_a_store() {
    let world = home();
    let server = world.start_ui(&[]);
    let browser = Caller::anonymous(&server);
    let (all, pages) = all_rows(&browser, "/");
    assert_eq!((all.len(), pages), (20, 1), "{all:?}");
    assert!(page(&browser, "/").contains("Claude Code"));
    assert_eq!(rows(&page(&browser, "/?source=codex")).len(), 2);
    assert!(rows(&page(&browser, "/?source=ledger")).is_empty());
    let plan = format!("/ui/histories/opencode/{PLAN}");
    assert!(rows(&search(&browser, "rate limiter")).contains(&plan));
    server.stop();
    assert!(world.is_empty(), "a store was created");
    let server = world.start_ui(&["--source", "claude-code"]);
    let (all, _) = all_rows(&Caller::anonymous(&server), "/");
    assert_eq!(all.len(), 4, "{all:?}");
    let refused = world.run(&["ui", "--no-open", "--source", "ledger"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
}

#[test]
fn ui_shows_the_store_and_histories_in_one_order() {
    let world = home();
    let server = world.serve();
    for n in 0..40 {
        create(&server.client(), &format!("s-{n}"));
    }
    let server = world.start_ui(&[]);
    let browser = Caller::anonymous(&server);
    let (mut all, pages) = all_rows(&browser, "/");
    assert_eq!(pages, 2);
    assert_eq!(all[0], "/ui/sessions/s-39");
    let from_ledger = all.iter().filter(|path| path.starts_with("/ui/sessions/"));
    assert_eq!((all.len(), from_ledger.count()), (60, 40));
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 60);
    assert_eq!(rows(&page(&browser, "/?source=ledger")).len(), 40);
}
