//! The corpus of hostile texts, recorded in every place of a session, does not act in documents, in CSV and in logs, and
//! JSON returns it unchanged.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::audit_rows::{controls_terminal, records};
use crate::chromium::{RequestListener, browse};
use crate::elements::check_elements;
use crate::hostile_corpus::corpus;
use crate::http::Client;
use crate::markdown_blocks::blocks;
use crate::world::World;

/// The session that [`record`] fills with the texts of the corpus.
pub(crate) const HOSTILE: &str = "s";
/// The session that [`record`] fills with lone surrogates.
pub(crate) const LONE: &str = "lone";

/// The text as an id, if it can be one.
fn id(text: &str) -> Option<&str> {
    let can_be_one = (1..=256).contains(&text.len()) && !text.contains(char::is_control);
    can_be_one.then_some(text)
}

/// The text as a label.
fn label(text: &str) -> String {
    text.replace('\0', "")
}

/// A complete turn with the text in every place. The text is no key or channel if it cannot be one.
fn turn(number: usize, text: &str) -> Value {
    let (label, call) = (label(text), format!("c{number}"));
    let key = id(text).map_or_else(|| format!("key {number}"), str::to_owned);
    let channel = Some(key.as_str())
        .filter(|key| key.len() <= 64)
        .unwrap_or("thought");
    let parts = json!([
        { "type": "text", "text": text },
        { "type": "reasoning", "text": text },
        { "type": "code", "language": text, "code": text },
        { "type": "link", "url": text, "title": text },
        { "type": "link", "url": format!("https://ok.example/{text}"), "title": text },
        { "type": "file", "name": text, "media_type": text, "url": text },
        { "type": "image_url", "image_url": { "url": text } },
        { "type": "error", "code": text, "message": text, "source": text },
        { "type": key, text: { text: [text] } },
    ]);
    json!({
        "request_id": key, "question_neutral": text, "question_translated": text,
        "pipeline_name": label, "consultant": label, "repository": label, "metadata": { text: text },
        "items": [
            { "item_id": key, "role": "assistant", "channel": channel, "agent": label, "model": label,
              "usage": { text: 1 }, "metadata": { text: text }, "parts": parts },
            { "role": "assistant", "channel": "tool_call",
              "parts": [{ "type": "tool_call", "call_id": call, "name": text, "args": { text: text } }] },
            { "role": "tool", "channel": "tool_result",
              "parts": [{ "type": "tool_result", "call_id": call, "ok": true, "content": text }] },
            { "role": "system", "channel": "observation", "parts": [{ "type": "text", "text": text }] },
        ],
        "answer_neutral": text,
    })
}

/// Records the corpus: each text in a turn of [`HOSTILE`], and as id, title and project of a session if it can be an
/// id; lone surrogates in [`LONE`]. `base` is the address that the texts request. Returns the texts.
pub(crate) fn record(client: &Client, base: &str) -> Vec<String> {
    let texts = corpus("texts").into_iter();
    let texts: Vec<String> = texts
        .map(|text| text.replace("{BASE}", base))
        .filter(|text| !text.trim().is_empty())
        .collect();
    assert!(texts.len() > 150, "{}", texts.len());
    let session =
        json!({ "session_id": HOSTILE, "title": label(&texts[0]), "metadata": { "texts": texts } });
    client.post("", &session).wrote(201);
    let path = format!("/{HOSTILE}");
    for (number, text) in texts.iter().enumerate() {
        let turns = format!("{path}/turns");
        client.post(&turns, &turn(number, text)).wrote(201);
        let kind = id(text).filter(|text| text.len() <= 64).unwrap_or("booked");
        let event = json!({ "key": format!("e{number}"), "kind": kind, "detail": { text: text } });
        client.post(&format!("{path}/events"), &event).wrote(201);
        if let Some(id) = id(text) {
            let session = json!({ "session_id": id, "title": label(text), "project_id": id,
                "parent_session_id": HOSTILE, "metadata": { text: text } });
            client.post("", &session).wrote(201);
        }
    }
    let checkpoint = json!({ "seq": 1, "label": label(&texts[0]), "state": { "texts": texts } });
    client
        .put(&format!("{path}/checkpoints"), &checkpoint)
        .wrote(201);
    record_failure(client, &texts);
    for (number, text) in corpus("lone_surrogates").iter().enumerate() {
        let turn = format!(
            r#"{{"request_id":"r{number}","question_neutral":"{text}","answer_neutral":"{text}","items":[{{"role":"assistant","channel":"tool_call","parts":[{{"type":"tool_call","call_id":"{text}","name":"{text}","args":{{"{text}":"{text}"}}}}]}}]}}"#
        );
        // The response repeats the surrogates, which a JSON parser may refuse.
        let response = client.post_text(&format!("/{LONE}/turns"), &turn);
        assert_eq!(response.status, 201, "{response:?}");
    }
    texts
}

/// Records a turn that fails with hostile texts.
fn record_failure(client: &Client, texts: &[String]) {
    let path = format!("/{HOSTILE}/turns");
    let open = json!({ "request_id": "fails", "question_neutral": texts[1] });
    let open = client.post(&path, &open).wrote(201);
    let failure = json!({ "error": { "code": texts[0], "message": texts.concat() }, "partial_text": texts[1] });
    let path = format!("{path}/{}/fail", open["turn_id"].as_str().unwrap());
    client.post(&path, &failure).wrote(200);
}

/// Checks that a Markdown document has no active content, and only the headings of its turns and items. Returns the
/// number of turns.
pub(crate) fn check_markdown(document: &str) -> usize {
    let mut turns = 0;
    for block in blocks(document) {
        match block.heading {
            None | Some(1) => {}
            Some(2) => {
                let is_own = ["## Turn ", "## Outside the turns"]
                    .iter()
                    .any(|start| block.source.starts_with(start));
                assert!(is_own, "{:?}", block.source);
                turns += 1;
            }
            Some(_) => assert!(block.source.starts_with("### "), "{:?}", block.source),
        }
    }
    assert!(!document.contains(acts_in_a_document));
    turns
}

/// Whether a character acts on what shows a document. Directions may change in it, as some languages need.
pub(crate) fn acts_in_a_document(c: char) -> bool {
    controls_terminal(c) && !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[test]
fn hostile_texts_do_not_act_in_documents() {
    let (world, listener) = (World::new(), RequestListener::new());
    let server = world.serve();
    let client = server.client();
    let turns = record(&client, &listener.base()).len() + 1;
    let export = |format: &str| {
        let path = format!("/{HOSTILE}/export?format={format}");
        let response = client.get(&path);
        assert_eq!(response.status, 200, "{response:?}");
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
        let policy = response.header("content-security-policy").unwrap();
        assert!(policy.starts_with("sandbox;"), "{policy}");
        let printed = world.ok(&["export", HOSTILE, "--format", format]);
        assert!(printed == response.text, "the command exports another text");
        printed
    };
    assert_eq!(check_markdown(&export("md")), turns);
    let html = export("html");
    check_elements(&html);
    assert!(!html.contains(acts_in_a_document));
    let page = world.path("page.html");
    assert_eq!(html.matches("<h1").count(), 1);
    assert_eq!(html.matches("<section class=\"turn").count(), turns);
    std::fs::write(&page, html).unwrap();
    let dom = browse(&page, &["--dump-dom", "--virtual-time-budget=3000"]);
    check_elements(&dom);
    assert!(!dom.contains("<title>OWNED"), "a script ran");
    assert_eq!(listener.requests(), Vec::<String>::new());
    for format in ["md", "html"] {
        let document = world.ok(&["export", LONE, "--format", format]);
        assert!(!document.contains(acts_in_a_document), "{document}");
    }
    server.stop();
}

#[test]
fn hostile_texts_are_no_formulas_in_csv() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record(&client, "http://evil.example");
    let accept = [("accept", "text/csv")];
    let csv = client.send("GET", "/api/v1/audit", None, &accept);
    assert_eq!(csv.status, 200);
    let printed = world.ok(&["audit", "--format", "csv"]);
    assert!(printed == csv.text, "the command prints another table");
    let rows = records(&csv.text);
    assert!(rows.len() > 800, "{}", rows.len());
    for row in &rows {
        assert_eq!(row.len(), rows[0].len(), "{row:?}");
        for cell in row {
            let is_formula =
                cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']);
            assert!(!is_formula && !cell.contains(controls_terminal), "{cell:?}");
        }
    }
    server.stop();
}

#[test]
fn hostile_texts_are_returned_unchanged_as_json_and_not_logged() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let texts = record(&client, "http://evil.example");
    let turns = client.all(&format!("/{HOSTILE}/turns"), 50);
    let answers: BTreeSet<&str> = turns
        .iter()
        .filter_map(|turn| turn["answer_neutral"].as_str())
        .collect();
    let expected: BTreeSet<&str> = texts.iter().map(String::as_str).collect();
    assert_eq!(answers, expected);
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let target = format!("/openai/v1/conversations/{HOSTILE}/items?order=asc&limit=100{after}");
        let response = client.send_without_body("GET", &target, "");
        assert_eq!(response.header("content-type"), Some("application/json"));
        let page = response.is(200);
        for item in page["data"].as_array().unwrap() {
            let parts = item["content"].as_array();
            seen.extend(
                parts
                    .into_iter()
                    .flatten()
                    .filter_map(|part| part["text"].as_str().map(str::to_owned)),
            );
        }
        if page["has_more"] == false {
            break;
        }
        after = format!("&after={}", page["last_id"].as_str().unwrap());
    }
    for text in &texts {
        assert!(seen.contains(text), "{text:?} is not in OpenAI's form");
    }
    let log = server.log();
    for text in texts.iter().filter(|text| id(text).is_none()) {
        assert!(!log.contains(text.as_str()), "{text:?}: {log}");
    }
    assert!(
        !log.contains(|c: char| c.is_control() && c != '\n'),
        "{log}"
    );
    server.stop();
    world.verify();
}
