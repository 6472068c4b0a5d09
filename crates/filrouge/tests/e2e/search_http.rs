//! `GET /api/v1/search`: all recorded text is found, each place leads to its item, and errors name their position.

use serde_json::{Value, json};

use crate::http::{Client, Response};
use crate::limits::until;
use crate::world::World;

/// Percent-encodes a text for a query.
pub(crate) fn encoded(text: &str) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_.~".contains(b);
    let of = |b: u8| match plain(&b) {
        true => char::from(b).to_string(),
        false => format!("%{b:02X}"),
    };
    text.bytes().map(of).collect()
}

/// The target of a search.
pub(crate) fn target(pairs: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = pairs
        .iter()
        .map(|(name, value)| format!("{name}={}", encoded(value)))
        .collect();
    format!("/api/v1/search?{}", pairs.join("&"))
}

pub(crate) fn send_search(client: &Client, pairs: &[(&str, &str)]) -> Response {
    client.get(&target(pairs))
}

/// Returns the page that the ledger's index finds. Until the index has read the ledger once, searches scan all items;
/// this function waits for that.
#[track_caller]
pub(crate) fn search_by_index(client: &Client, pairs: &[(&str, &str)]) -> Value {
    let mut page = Value::Null;
    until("the index answers", || {
        page = send_search(client, pairs).is(200);
        page["as_of"].is_string()
    });
    page
}

/// The ids of the found sessions, in order.
#[track_caller]
pub(crate) fn found(client: &Client, pairs: &[(&str, &str)]) -> Vec<String> {
    ids(&send_search(client, pairs).is(200))
}

pub(crate) fn ids(page: &Value) -> Vec<String> {
    let rows = page["data"].as_array().unwrap().iter();
    rows.map(|row| row["session_id"].as_str().unwrap().to_owned())
        .collect()
}

/// Records a complete turn.
pub(crate) fn turn(client: &Client, session: &str, request: &str, texts: (&str, &str)) -> Value {
    let body =
        json!({ "request_id": request, "question_neutral": texts.0, "answer_neutral": texts.1 });
    client.post(&format!("/{session}/turns"), &body).wrote(201)
}

/// Records a session with all kinds of words in all kinds of places, and two more sessions.
pub(crate) fn record_three_sessions(client: &Client) {
    let session_json =
        json!({ "session_id": "s1", "title": "Étude of moss", "project_id": "garden" });
    client.post("", &session_json).wrote(201);
    let call = json!({ "item_id": "c", "role": "assistant", "channel": "tool_call", "agent": "botanist",
        "occurred_at": "2026-03-05T10:00:00Z",
        "parts": [{ "type": "tool_call", "call_id": "1", "name": "look", "args": { "path": "src/lib/moss_beds.rs" } }] });
    let result = json!({ "item_id": "r", "role": "tool", "channel": "tool_result", "agent": "botanist",
        "occurred_at": "2026-03-05T10:00:01Z",
        "parts": [{ "type": "tool_result", "call_id": "1", "ok": true, "content": "grep: 東京都の天気 is damp" }] });
    let body = json!({ "request_id": "a", "question_neutral": "Où est le café naïf?",
        "answer_neutral": "By the well; see camelCaseName and \"the green gate\".",
        "items": [call, result] });
    client.post("/s1/turns", &body).wrote(201);
    turn(
        client,
        "s2",
        "b",
        ("the gate is not green", "retry-after: 17"),
    );
    turn(client, "s3", "c", ("nothing of note", "GREEN. Gate."));
}

#[test]
fn sessions_are_found_by_words_phrases_regexes_and_filters() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record_three_sessions(&client);
    let q = |text: &str| {
        let mut ids = found(&client, &[("q", text)]);
        ids.sort();
        ids
    };
    for (query, expected) in [
        ("cafe", &["s1"][..]),
        ("CAFÉ naif", &["s1"]),
        ("etude", &["s1"]),
        ("moss_beds", &["s1"]),
        ("lib/moss", &["s1"]),
        ("casename", &["s1"]),
        ("天気", &["s1"]),
        ("都", &["s1"]),
        ("green gate", &["s1", "s2", "s3"]),
        ("\"green gate\"", &["s1"]),
        ("gate -well", &["s2", "s3"]),
        ("retry-after:", &["s2"]),
        ("/Gate\\./", &["s3"]),
        ("/gate\\b/i", &["s1", "s2", "s3"]),
        ("/retry-\\w+: \\d{2}$/", &["s2"]),
        ("tool:look 東京", &["s1"]),
        ("tool:other 東京", &[]),
        ("agent:botanist damp", &["s1"]),
        ("-agent:botanist damp", &[]),
        ("role:user gate", &["s2"]),
        ("role:assistant gate", &["s1", "s3"]),
        ("project:garden gate", &["s1"]),
        ("-project:garden gate", &["s2", "s3"]),
        ("session:s3 gate", &["s3"]),
        ("-session:s3 gate", &["s1", "s2"]),
        ("on:2026-03-05 damp", &["s1"]),
        ("before:2026-03-05 damp", &[]),
        ("after:2026-03-04 damp", &["s1"]),
        ("source:ledger gate", &["s1", "s2", "s3"]),
        ("-source:ledger gate", &[]),
        ("unheard", &[]),
    ] {
        assert_eq!(q(query), expected, "{query}");
    }
    for (beside, expected) in [
        (("tool", "look"), &["s1"][..]),
        (("agent", "botanist"), &["s1"]),
        (("role", "user"), &["s1", "s2", "s3"]),
        (("project_id", "garden"), &["s1"]),
        (("session_id", "s2"), &["s2"]),
        (("since", "2200-01-01T00:00:00Z"), &[]),
        (("until", "2026-03-05T10:00:00.5Z"), &["s1"]),
    ] {
        // A filter without words returns everything that passes it.
        let mut ids = found(&client, &[beside]);
        ids.sort();
        assert_eq!(ids, expected, "{beside:?}");
        let within = found(&client, &[("q", "a"), beside]);
        assert!(within.iter().all(|id| expected.contains(&id.as_str())));
    }
    let regex = found(&client, &[("regex", "moss_\\w+\\.rs")]);
    assert_eq!(regex, ["s1"]);
    assert_eq!(found(&client, &[("regex", "(?i)CASENAME")]), ["s1"]);
    server.stop();
}

/// Each place leads to the item that contains it, by the index and by a full scan.
#[test]
fn places_lead_to_items() {
    let world = World::new();
    for settings in [&[][..], &[("FILROUGE_SEARCH_INDEX", "false")]] {
        let listen = [("FILROUGE_LISTEN", "127.0.0.1:0")];
        let server = world.serve_with_env(&[&listen, settings].concat(), &[]);
        let client = server.client();
        if settings.is_empty() {
            record_three_sessions(&client);
        }
        for query in ["cafe", "天気", "moss_beds", "well", "etude", "retry-after"] {
            let page = match settings.is_empty() {
                true => search_by_index(&client, &[("q", query)]),
                false => send_search(&client, &[("q", query)]).is(200),
            };
            assert_eq!(page["as_of"].is_null(), !settings.is_empty(), "{page}");
            assert_eq!(page["total_sessions"], 1, "{query}: {page}");
            let row = &page["data"][0];
            let session = row["session_id"].as_str().unwrap();
            let place = &row["excerpts"][0];
            if query == "etude" {
                let reported = (&place["place"], &place["seq"], &place["field"]);
                assert_eq!(reported, (&json!("s1"), &Value::Null, &json!("title")));
                assert_eq!(place["text"], "«Étude» of moss");
                continue;
            }
            let seq = place["seq"].as_u64().unwrap();
            assert_eq!(place["place"], format!("{session}:{seq}"));
            let items = client.all(&format!("/{session}/items"), 100);
            let item = items.iter().find(|item| item["seq"] == seq).unwrap();
            let marked = place["text"].as_str().unwrap();
            let hit = marked.split(['«', '»']).nth(1).unwrap();
            assert!(item["parts"].to_string().contains(hit), "{hit}: {item}");
        }
        server.stop();
    }
}

#[test]
fn pages_continue_to_the_last_hit() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    for n in 0..7 {
        for request in 0..=n {
            let question = format!("lantern {request}");
            turn(
                &client,
                &format!("s{n}"),
                &format!("r{request}"),
                (&question, "lit"),
            );
        }
    }
    let all = search_by_index(&client, &[("q", "lantern")]);
    let totals = (&all["total_sessions"], &all["total_matches"], &all["exact"]);
    assert_eq!(totals, (&json!(7), &json!(28), &json!(true)));
    assert!(all["next_cursor"].is_null());
    for order in ["best", "newest"] {
        let asked = [("q", "lantern"), ("order", order)];
        let all_hits = found(&client, &asked);
        let (mut pages, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let mut asked = asked.to_vec();
            asked.push(("limit", "1"));
            asked.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let page = send_search(&client, &asked).is(200);
            assert_eq!(page["total_sessions"], 7);
            pages.extend(ids(&page));
            cursor = page["next_cursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(pages, all_hits, "{order}");
        assert_eq!(pages.len(), 7);
    }
    let newest = found(&client, &[("q", "lantern"), ("order", "newest")]);
    assert_eq!(newest, ["s6", "s5", "s4", "s3", "s2", "s1", "s0"]);
    // Within one session, pages continue through its matches.
    let (mut places, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let mut asked = vec![("q", "lantern"), ("session_id", "s6")];
        asked.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let page = send_search(&client, &asked).is(200);
        for row in page["data"].as_array().unwrap() {
            let excerpts = row["excerpts"].as_array().unwrap().iter();
            places.extend(excerpts.map(|one| one["seq"].as_u64().unwrap()));
        }
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(places, [1, 3, 5, 7, 9, 11, 13]);
    server.stop();
}

#[test]
fn errors_name_their_position() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    record_three_sessions(&client);
    let cursor = send_search(&client, &[("q", "gate"), ("limit", "1")]).is(200);
    let cursor = cursor["next_cursor"].as_str().unwrap();
    let long = "x".repeat(4097);
    let bomb = format!("{}b", "(a{1000}){1000}");
    for (asked, reports) in [
        (&[("q", "")][..], "the query is empty"),
        (&[], "the query is empty"),
        (&[("q", "say \"open")], "character 5"),
        (&[("q", "/a(b/")], "character 3"),
        (&[("regex", "a(b")], "character 2"),
        (&[("regex", "")], "empty"),
        (&[("q", "on:someday gate")], "character 4"),
        (&[("q", "role:nobody gate")], "character 6"),
        (&[("q", "gate"), ("regex", "gate")], "exclude each other"),
        (&[("q", "gate"), ("similar", "gate")], "exclude each other"),
        (&[("q", "-gate")], "absent"),
        (&[("q", "other"), ("cursor", cursor)], "another search"),
        (
            &[("q", "gate"), ("cursor", "search.x")],
            "not a cursor of a search",
        ),
        (&[("q", &long)], "character 4097"),
        (&[("regex", &long)], "character 4097"),
        (&[("regex", &bomb)], "character"),
        (&[("q", "/(a{1000}){1000}/")], "character"),
        (&[("q", "gate"), ("since", "yesterday")], "since"),
        (&[("q", "gate"), ("limit", "501")], "limit"),
        (&[("q", "gate"), ("agent", "")], "agent is empty"),
        (&[("q", "gate"), ("tool", "")], "tool is empty"),
        (&[("q", "gate \"  \"")], "character 6"),
        (&[("q", "gate"), ("mode", "none")], "mode"),
        (&[("q", "gate"), ("verbose", "1")], "verbose"),
        (&[("similar", " ")], "empty"),
    ] {
        let reported = send_search(&client, asked).fails(422, "invalid");
        let detail = reported["detail"].as_str().unwrap();
        assert!(detail.contains(reports), "{asked:?}: {detail}");
    }
    // Latin-1, which some programs still use.
    let reported = client
        .get("/api/v1/search?limit=1&q=caf%E9")
        .fails(422, "invalid");
    let detail = reported["detail"].as_str().unwrap();
    assert!(detail.contains("`q` is not UTF-8"), "{detail}");
    // A forged cursor is answered or refused, but never causes a server error.
    let words: Vec<&str> = cursor.splitn(7, '.').collect();
    for place in 2..6 {
        for number in [i64::MIN, -1, 0, i64::MAX] {
            let (mut forged, number) = (words.clone(), number.to_string());
            forged[place] = &number;
            let forged = forged.join(".");
            let response = send_search(
                &client,
                &[("q", "gate"), ("limit", "1"), ("cursor", &forged)],
            );
            assert!(
                matches!(response.status, 200 | 422),
                "{forged}: {response:?}"
            );
        }
    }
    for asked in [
        &[("q", "gate"), ("session_id", "nowhere")][..],
        &[("q", "gate session:nowhere")],
    ] {
        send_search(&client, asked).fails(404, "session_not_found");
    }
    // The longest query, and one that fills most of a request's head.
    let longest = "gate ".repeat(31) + &"x".repeat(4096 - 155);
    assert_eq!(longest.len(), 4096);
    assert_eq!(found(&client, &[("q", &longest)]), Vec::<String>::new());
    let wide = "天".repeat(3_000);
    assert_eq!(found(&client, &[("q", &wide)]), Vec::<String>::new());
    // There is no embedder: a notice reports that, and the words are still found.
    for asked in [
        &[("q", "gate"), ("mode", "both")][..],
        &[("similar", "where is the gate")],
    ] {
        let page = send_search(&client, asked).is(200);
        assert!(!page["notices"].as_array().unwrap().is_empty(), "{page}");
    }
    server.stop();
}
