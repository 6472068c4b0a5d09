//! Injection: text that looks like SQL, a path, a pattern or a template is plain text in every field, key and id.
//! Where a number or a keyword is expected, it is refused.

use serde_json::{Value, json};

use crate::http::Client;
use crate::world::World;

/// Texts that a naive implementation would interpret or change.
const TEXTS: &[&str] = &[
    "'; DROP TABLE session; --",
    "\" OR \"\"=\"",
    "' OR 1=1 /*",
    "x') UNION SELECT data FROM note --",
    "$.a[*]",
    "$['a'].b",
    "%",
    "_",
    "a%b_c\\",
    "..",
    "../../etc/passwd",
    "%2e%2e%2f",
    "${jndi:ldap://x}",
    "{{7*7}}",
    "{}[]()<>|&;`$!?*#~^=+,:@",
    "<script>alert(1)</script>",
    "NULL",
    "-1",
    "1e309",
    "\u{feff}x\u{200b}\u{202e}",
    "é\u{301}ß\u{130}",
    "\u{10ffff}🧵\u{1f468}\u{200d}\u{1f469}",
];

pub(crate) fn encoded(text: &str) -> String {
    text.bytes().map(|b| format!("%{b:02x}")).collect()
}

/// The rows of a list; the request must succeed.
fn rows(client: &Client, query: &str) -> Vec<Value> {
    let page = client.get_body(query);
    page["data"].as_array().unwrap().clone()
}

/// Records a session with the text as every id, key and value that a caller can choose.
fn record(client: &Client, text: &str) {
    let session = json!({
        "session_id": text, "title": text, "project_id": text, "metadata": { text: { text: [text] } },
    });
    client.post("", &session).wrote(201);
    let path = format!("/{}", encoded(text));
    let turn = json!({
        "request_id": text, "question_neutral": text, "question_translated": text, "pipeline_name": text,
        "consultant": text, "repository": text, "metadata": { text: text }, "runtime_context": { text: 1 },
        "items": [{
            "item_id": text, "role": "assistant", "channel": text, "agent": text, "model": text,
            "usage": { text: 1 }, "metadata": { text: text },
            "parts": [{ "type": text, text: text }, { "type": "tool_call", "call_id": text, "name": text, "args": { text: text } }],
        }],
        "answer_neutral": text,
    });
    client.post(&format!("{path}/turns"), &turn).wrote(201);
    let event = json!({"key": text, "kind": text, "detail": { text: text }});
    client.post(&format!("{path}/events"), &event).wrote(201);
    client
        .patch(
            &path,
            &json!({"state": text, "metadata": { text: { "n": null } }}),
        )
        .wrote(200);
}

/// Checks that every read of the session returns the text unchanged, and that filters find exactly this session.
fn check(client: &Client, text: &str) {
    let value = encoded(text);
    let path = format!("/{value}");
    let session = client.get_body(&path);
    assert_eq!(session["metadata"], json!({ text: { text: [text] } }));
    for (field, expected) in [
        ("session_id", text),
        ("title", text),
        ("project_id", text),
        ("state", text),
    ] {
        assert_eq!(session[field], expected);
    }
    // A list also names the agents.
    let mut listed = session.clone();
    listed["agents"] = json!([text]);
    for filter in ["project_id", "agent"] {
        assert_eq!(
            rows(client, &format!("?{filter}={value}")),
            std::slice::from_ref(&listed),
            "{filter} {text:?}"
        );
    }
    // A search for a title ignores ASCII case; some texts contain others.
    let titled = rows(client, &format!("?q={value}"));
    let contains = |t: &&&str| t.to_ascii_lowercase().contains(&text.to_ascii_lowercase());
    assert_eq!(
        titled.len(),
        TEXTS.iter().filter(contains).count(),
        "{text:?}"
    );
    let turns = rows(client, &format!("{path}/turns?request_id={value}"));
    assert_eq!((turns.len(), &turns[0]["consultant"]), (1, &json!(text)));
    let items = rows(client, &format!("{path}/items"));
    let item = items.iter().find(|i| i["item_id"] == text).unwrap();
    assert_eq!(
        (&item["channel"], &item["parts"][0][text]),
        (&json!(text), &json!(text))
    );
    assert_eq!(item["usage"], json!({ text: 1 }));
    assert_eq!(
        rows(client, &format!("{path}/events"))[0]["detail"],
        json!({ text: text })
    );
}

#[test]
fn every_text_is_stored_and_found_unchanged() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    TEXTS.iter().for_each(|text| record(&client, text));
    TEXTS.iter().for_each(|text| check(&client, text));
    assert_eq!(client.all("", 7).len(), TEXTS.len());
    world.verify();
}

#[test]
fn identities_are_compared_as_bytes() {
    let world = World::new();
    let server = world.serve();
    let ascii = TEXTS.iter().filter(|t| t.is_ascii());
    for text in ascii.clone() {
        let body = json!({"session_id": format!("of {text}")});
        server
            .client()
            .for_identity(text)
            .post("", &body)
            .wrote(201);
    }
    for text in ascii {
        let own = rows(&server.client().for_identity(text), "");
        assert_eq!((own.len(), &own[0]["identity_id"]), (1, &json!(text)));
    }
}

#[test]
fn text_is_refused_where_a_number_or_a_keyword_is_expected() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let turn = json!({"request_id": "r", "question_neutral": "q", "answer_neutral": "a"});
    client.post("/s/turns", &turn).wrote(201);
    let queries = [
        "?limit=",
        "?cursor=",
        "?status=",
        "?since=",
        "?until=",
        "/s/turns?limit=",
        "/s/turns?cursor=",
        "/s/turns?status=",
        "/s/items?after=",
        "/s/items?limit=",
        "/s/items?cursor=",
        "/s/events?cursor=",
        "/s/context?last_turns=",
        "/s/context?format=",
        "/s/context?max_tokens=",
        "/s/export?format=",
        "/api/v1/changes?after=",
        "/api/v1/changes?limit=",
        "/api/v1/changes?wait=",
        "/api/v1/turns?cursor=",
        "/api/v1/audit?cursor=",
        "/api/v1/audit?limit=",
        "/api/v1/audit?format=",
        "/api/v1/audit?since=",
    ];
    for text in TEXTS {
        for query in queries {
            let response = client.get(&format!("{query}{}", encoded(text)));
            assert!(
                matches!(response.status, 422 | 400),
                "{query}{text:?}: {response:?}"
            );
        }
        let unknown = client.get(&format!("?{}=1", encoded(text)));
        unknown.fails(422, "invalid");
        let turn = client.get(&format!("/s/turns/{}", encoded(text)));
        turn.fails(404, "turn_not_found");
    }
    assert_eq!(client.get_body("/s")["turn_count"], 1);
}
