//! The page of a conversation: parts, permalinks, live items, what other owners see, and hostile texts.

use serde_json::{Value, json};

use crate::hostile::{HOSTILE, record};
use crate::http::{Client, Response, text_item};
use crate::mcp_stdio::{Agent, COMPACTED, session_id, with_history};
use crate::tail_client::Tail;
use crate::world::World;

/// The maximum size of the first part's page in bytes.
const PAGE_MAX: usize = 300_000;

/// Requests a page on behalf of an end user, or as the operator.
fn get(client: &Client, path: &str, identity: Option<&str>) -> Response {
    let headers = identity.map_or_else(String::new, |id| format!("filrouge-identity: {id}\r\n"));
    client.send_without_body("GET", path, &headers)
}

/// Requests a page, which must exist; returns its text.
#[track_caller]
fn page(client: &Client, path: &str) -> String {
    let response = get(client, path, None);
    assert_eq!(response.status, 200, "{path}: {}", response.text);
    let media_type = response.header("content-type");
    assert_eq!(media_type, Some("text/html; charset=utf-8"));
    response.text
}

/// The seqs of the items on a page, in their order.
fn seqs(page: &str) -> Vec<u64> {
    let ids = page.split(" id=\"seq-").skip(1);
    ids.map(|rest| rest.split('"').next().unwrap().parse().unwrap())
        .collect()
}

/// The address after `hx-get="` in the link of this class.
fn more(page: &str, class: &str) -> Option<String> {
    let (_, link) = page.split_once(&format!("class=\"more {class}\" hx-get=\""))?;
    let address = link.split('"').next().unwrap();
    Some(address.replace("&amp;", "&"))
}

/// Records a session of turns with 100 items of 200 bytes each.
fn record_long(client: &Client, session: &str, turns: usize) {
    for turn in 0..turns {
        let item = |n: usize| {
            let text = format!("turn {turn} item {n} {}", "x".repeat(200));
            text_item(&format!("{turn}-{n}"), "assistant", "thought", &text)
        };
        let items: Vec<Value> = (0..98).map(item).collect();
        let body = json!({ "request_id": format!("r{turn}"), "question_neutral": format!("Question {turn}?"),
            "answer_neutral": format!("Answer {turn}."), "items": items });
        client.post(&format!("/{session}/turns"), &body).wrote(201);
    }
}

fn question(request: &str, question: &str, answer: &str) -> Value {
    json!({ "request_id": request, "question_neutral": question, "answer_neutral": answer })
}

#[test]
fn a_long_conversation_is_shown_in_parts() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record_long(&client, "long", 12);
    let last = client.get_body("/long")["last_seq"].as_u64().unwrap();
    let first = page(&client, "/ui/sessions/long");
    assert!(first.len() <= PAGE_MAX, "{}", first.len());
    let order = ["Question 0?", "turn 0 item 0 ", "turn 0 item 1 "].map(|text| first.find(text));
    assert!(order.iter().all(Option::is_some) && order.is_sorted());
    // The parts follow one another without gaps.
    let mut seen = seqs(&first);
    let mut next = more(&first, "later");
    while let Some(path) = next {
        let part = page(&client, &path);
        assert!(part.len() <= PAGE_MAX && more(&part, "earlier").is_none());
        seen.extend(seqs(&part));
        next = more(&part, "later");
    }
    assert_eq!(seen, (1..=last).collect::<Vec<u64>>());
    // Each item has an address, at which the items around it are shown.
    for seq in [1, 2, 99, 600, last] {
        let around = page(&client, &format!("/ui/sessions/long?at={seq}"));
        assert!(seqs(&around).contains(&seq), "{seq}");
        assert!(around.contains(&format!("/ui/sessions/long?at={seq}#seq-{seq}")));
        assert_eq!(more(&around, "earlier").is_some(), seq > 20, "{seq}");
    }
    let around = page(&client, "/ui/sessions/long?at=600");
    let first = seqs(&around)[0];
    let before = page(&client, &more(&around, "earlier").unwrap());
    assert_eq!(seqs(&before).last(), Some(&(first - 1)));
    assert!(more(&before, "later").is_none());
    // The thread leads to each turn.
    assert_eq!(around.matches("class=\"thread\"").count(), 1);
    assert!(around.contains("aria-label=\"Turn 12\""), "{around}");
    let both = get(&client, "/ui/sessions/long?at=1&after=2", None);
    assert_eq!(both.status, 422);
    server.stop();
}

#[test]
fn a_large_item_is_cut_and_has_a_page_of_its_own() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let text = format!("begin {} end-of-the-text", "word ".repeat(400_000));
    client
        .post("/s/turns", &question("r", "Long?", &text))
        .wrote(201);
    let shown = page(&client, "/ui/sessions/s");
    assert!(shown.len() <= PAGE_MAX && shown.contains("begin word"));
    assert!(!shown.contains("end-of-the-text"));
    assert!(shown.contains("href=\"/ui/sessions/s/items/2\""));
    let complete = page(&client, "/ui/sessions/s/items/2");
    assert!(complete.contains("end-of-the-text"));
    assert_eq!(get(&client, "/ui/sessions/s/items/3", None).status, 404);
    server.stop();
}

#[test]
fn new_items_arrive_while_the_page_is_open() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let start = json!({ "request_id": "r", "question_neutral": "What now?" });
    let turn = client.post("/s/turns", &start).wrote(201);
    let turn = turn["turn_id"].as_str().unwrap();
    let shown = page(&client, "/ui/sessions/s");
    assert!(shown.contains("data-live=\"/ui/sessions/s/live\""));
    assert!(shown.contains("data-last=\"1\""));
    let mut live = Tail::open_at(server.origin(), "/ui/sessions/s/live?after=1", &[]);
    assert_eq!(live.status(), 200, "{}", live.head);
    let items = json!({ "items": [text_item("i", "assistant", "observation", "<b>Looking</b>")] });
    client
        .post(&format!("/s/turns/{turn}/items"), &items)
        .wrote(201);
    let event = live.next().unwrap();
    assert_eq!((event.name.as_str(), event.id), ("item", Some(2)));
    assert!(event.data.contains("id=\"seq-2\"") && event.data.contains(turn));
    assert!(event.data.contains("&lt;b&gt;Looking") && event.data.contains("data-status=\"open\""));
    let end = json!({ "answer_neutral": "Nothing." });
    client
        .post(&format!("/s/turns/{turn}/finalize"), &end)
        .wrote(200);
    let event = live.next().unwrap();
    assert!(
        event.data.contains("data-status=\"finalized\""),
        "{event:?}"
    );
    // A page that was disconnected continues after the last item that it has received.
    let again = [("last-event-id", "2")];
    let mut again = Tail::open_at(server.origin(), "/ui/sessions/s/live?after=1", &again);
    assert_eq!(again.next().unwrap().id, Some(3));
    client
        .post(
            &format!("/s/turns/{turn}/redact"),
            &json!({ "reason": "asked" }),
        )
        .wrote(200);
    assert_eq!(again.next().unwrap().name, "reload");
    server.stop();
}

#[test]
fn the_session_of_another_owner_looks_absent_on_every_page() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let ada = client.for_identity("ada");
    ada.post("/private/turns", &question("r", "secret", "secret"))
        .wrote(201);
    for path in [
        "",
        "?at=1",
        "/part",
        "/part?after=1",
        "/thread",
        "/items/1",
        "/live",
        "/live?after=0",
        "/context",
        "/context?format=anthropic",
        "/export",
        "/export?format=html",
    ] {
        let of = |session: &str, identity| {
            let path = format!("/ui/sessions/{session}{path}");
            let response = get(&client, &path, identity);
            (response.status, response.text.replace(session, "ID"))
        };
        let foreign = of("private", Some("bob"));
        assert_eq!(foreign.0, 404, "{path}: {foreign:?}");
        assert_eq!(foreign, of("missing", Some("bob")), "{path}");
        assert!(!foreign.1.contains("secret"));
        if !path.starts_with("/live") {
            assert_eq!(of("private", Some("ada")).0, 200, "{path}");
        }
    }
    server.stop();
}

#[test]
fn redacted_items_show_nothing_but_when_and_why() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let turn = client
        .post("/s/turns", &question("r", "the-secret?", "the-secret!"))
        .wrote(201);
    record_long(&client, "s", 2);
    let path = format!("/s/turns/{}/redact", turn["turn_id"].as_str().unwrap());
    client
        .post(&path, &json!({ "reason": "asked by the user" }))
        .wrote(200);
    // The item that records the redaction is in another part.
    let shown = page(&client, "/ui/sessions/s");
    assert!(!shown.contains("the-secret"));
    assert!(shown.contains("asked by the user") && shown.contains("?at=203#seq-203"));
    assert!(shown.contains("redacted-mark"));
    for path in [
        "/part?after=0",
        "/items/1",
        "/context",
        "/export?format=html",
    ] {
        let shown = get(&client, &format!("/ui/sessions/s{path}"), None);
        assert!(
            shown.status == 200 && !shown.text.contains("the-secret"),
            "{path}"
        );
    }
    server.stop();
}

#[test]
fn a_replaced_turn_shows_what_changed() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let old = question("r1", "Which day?", "One\nTwo\nThree");
    let turn = client.post("/s/turns", &old).wrote(201);
    let path = format!("/s/turns/{}/replace", turn["turn_id"].as_str().unwrap());
    client
        .post(&path, &question("r2", "Which day?", "One\n2\nThree"))
        .wrote(201);
    let shown = page(&client, "/ui/sessions/s");
    assert!(
        shown.contains("<span class=\"remove\">-Two\n</span>"),
        "{shown}"
    );
    assert!(shown.contains("<span class=\"add\">+2\n</span>"));
    assert!(shown.contains("replaced-mark"));
    server.stop();
}

#[test]
fn started_sessions_are_inline_and_load_when_they_are_opened() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    client
        .post("/parent/turns", &question("r", "Delegate.", "Done."))
        .wrote(201);
    let child =
        json!({ "session_id": "a/b", "parent_session_id": "parent", "title": "<i>Helper</i>" });
    client.post("", &child).wrote(201);
    client
        .post("/a%2Fb/turns", &question("r", "Subtask?", "Solved."))
        .wrote(201);
    let shown = page(&client, "/ui/sessions/parent");
    assert!(shown.contains("&lt;i&gt;Helper") && !shown.contains("Subtask?"));
    let part = "/ui/sessions/a%2Fb/part?inside=true";
    assert!(shown.contains(&format!("hx-get=\"{part}\"")), "{shown}");
    let inside = page(&client, part);
    assert!(inside.contains("Subtask?") && inside.contains("id=\"a%2Fb-seq-1\""));
    assert!(!inside.contains("data-last"));
    let own = page(&client, "/ui/sessions/a%2Fb");
    assert!(own.contains("href=\"/ui/sessions/parent\""));
    server.stop();
}

#[test]
fn the_context_page_shows_messages_and_what_was_left_out() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let mut turn = question("r", "What is **it**?", "A <test>.");
    turn["items"] = json!([
        text_item("t", "assistant", "thought", "hidden-thought"),
        text_item("e", "system", "error", "hidden-error"),
    ]);
    client.post("/s/turns", &turn).wrote(201);
    let report = client.get_body("/s/context?format=anthropic")["report"].clone();
    let shown = page(&client, "/ui/sessions/s/context?format=anthropic");
    assert!(shown.contains("What is <strong>it</strong>?") && shown.contains("A &lt;test&gt;."));
    let tokens = format!("<dd>{}</dd>", report["window"]["tokens"]);
    assert!(shown.contains(&tokens), "{tokens} {shown}");
    for dropped in report["dropped"].as_array().unwrap() {
        let reason = dropped["reason"].as_str().unwrap().replace('_', " ");
        assert!(shown.contains(&reason), "{reason}");
        assert!(shown.contains(&format!("?at={0}#seq-{0}", dropped["seq"])));
    }
    assert!(
        !report["dropped"].as_array().unwrap().is_empty(),
        "{report}"
    );
    assert_eq!(
        get(&client, "/ui/sessions/s/context?format=x", None).status,
        422
    );
    let file = get(&client, "/ui/sessions/s/export?format=html", None);
    assert!(
        file.header("content-disposition")
            .unwrap()
            .contains("session.html")
    );
    assert!(
        file.header("content-security-policy")
            .unwrap()
            .contains("sandbox")
    );
    server.stop();
}

#[test]
fn histories_of_other_programs_have_the_same_page() {
    let (world, source) = with_history();
    let mut agent = Agent::start(world.command(&["mcp", "--source", &source]));
    agent.initialize("2025-11-25");
    let id = session_id(&mut agent, COMPACTED);
    agent.end();
    let server = world.serve_with(&["--source", &source]);
    let client = server.client();
    let shown = page(&client, &format!("/ui/histories/opencode/{id}"));
    assert!(shown.contains("count the words"), "{shown}");
    assert!(seqs(&shown).contains(&1) && !shown.contains("data-live"));
    let around = page(&client, &format!("/ui/histories/opencode/{id}?at=2"));
    assert!(seqs(&around).contains(&2));
    let part = page(
        &client,
        &format!("/ui/histories/opencode/{id}/part?after=1"),
    );
    assert_eq!(seqs(&part)[0], 2);
    let item = page(&client, &format!("/ui/histories/opencode/{id}/items/2"));
    assert_eq!(seqs(&item), [2]);
    for path in [
        format!("/ui/histories/codex/{id}"),
        "/ui/histories/opencode/none".to_owned(),
    ] {
        assert_eq!(get(&client, &path, None).status, 404, "{path}");
    }
    server.stop();
}

#[test]
fn titles_of_started_sessions_are_masked_in_histories() {
    const PARENT: &str = "ses_3e791beeaffeAvam4v0GZWyh8w";
    const CHILD: &str = "history/storage/session/49d8ed0deba3cc64eef3979d6e5ce2afe3c9ed85/ses_3e791be47ffeI7JspQs0H6mjmV.json";
    let (world, source) = with_history();
    let file = world.path(CHILD);
    let header = std::fs::read_to_string(&file).unwrap();
    let title = "Licence check AKIAIOSFODNN7EXAMPLE";
    std::fs::write(&file, header.replace("Licence check", title)).unwrap();
    let server = world.serve_with(&["--source", &source]);
    let shown = page(
        &server.client(),
        &format!("/ui/histories/opencode/{PARENT}"),
    );
    assert!(shown.contains("Licence check"), "{shown}");
    assert!(!shown.contains("AKIAIOSFODNN7EXAMPLE"), "{shown}");
    server.stop();
}

/// Checks that a page has only its own scripts, no code in attributes, and no link that runs code.
fn check_inert(page: &str) {
    assert_eq!(page.matches("<script").count(), 2, "{page}");
    for tag in page.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap();
        let name = tag.split(' ').next().unwrap();
        assert!(
            !["iframe", "object", "embed", "svg", "base"].contains(&name),
            "<{tag}>"
        );
        // Values have no quotes, so every second piece has names of attributes.
        for piece in tag.split('"').step_by(2) {
            let names = piece
                .split_whitespace()
                .map(|name| name.trim_end_matches('='));
            let is_code = |name: &str| name.starts_with("on") || matches!(name, "style" | "srcdoc");
            assert!(!names.into_iter().any(is_code), "<{tag}>");
        }
        if let Some((_, link)) = tag.split_once(" href=\"") {
            let is_safe = ["/", "#", "http://", "https://", "mailto:"];
            let link = link.to_ascii_lowercase();
            assert!(
                is_safe.iter().any(|start| link.starts_with(start)),
                "<{tag}>"
            );
        }
    }
}

#[test]
fn hostile_texts_stay_inert() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record(&client, "http://127.0.0.1:9");
    let mut after = 0;
    loop {
        let shown = page(&client, &format!("/ui/sessions/{HOSTILE}?after={after}"));
        check_inert(&shown);
        match seqs(&shown).into_iter().max() {
            Some(last) if more(&shown, "later").is_some() => after = last,
            _ => break,
        }
    }
    for format in [
        "openai-chat",
        "openai-responses",
        "anthropic",
        "gemini",
        "pairs",
    ] {
        check_inert(&page(
            &client,
            &format!("/ui/sessions/{HOSTILE}/context?format={format}"),
        ));
    }
    server.stop();
}

#[test]
fn both_languages_are_beside_each_other_in_the_readers_language() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let turn =
        json!({ "request_id": "r", "question_neutral": "Why?", "question_translated": "Warum?" });
    let turn = client.post("/s/turns", &turn).wrote(201);
    let turn = turn["turn_id"].as_str().unwrap();
    let answer = json!({ "answer_neutral": "So.", "answer_translated": "Darum." });
    let path = format!("/s/turns/{turn}/finalize");
    client.post(&path, &answer).wrote(200);
    let accept = "accept-language: de\r\n";
    let shown = client
        .send_without_body("GET", "/ui/sessions/s", accept)
        .text;
    assert_eq!(shown.matches("class=\"beside\"").count(), 2, "{shown}");
    assert_eq!(seqs(&shown), [1, 2, 3, 4]);
    assert!(shown.contains(">Runde 1</h2>") && shown.contains("<bdi>Antwort</bdi>"));
    assert!(!shown.contains(">Answer<") && shown.contains("<html lang=\"de\">"));
    server.stop();
}
