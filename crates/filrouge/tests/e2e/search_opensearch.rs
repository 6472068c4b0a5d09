//! Searches of a ledger whose index is in OpenSearch (ADR 0043).

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::Client;
use crate::limits::until;
use crate::search_http::{found, ids, record_three_sessions, search_by_index, send_search, turn};
use crate::search_redacted::redact;
use crate::world::World;

/// Queries of each shape: words, phrases, parts of words, short and dense words, regular expressions, filters and dates.
const QUESTIONS: &[&str] = &[
    "cafe",
    "CAFÉ naif",
    "\"green gate\"",
    "\"où est le\"",
    "amelcasena",
    "moss_beds.rs",
    "é",
    "17",
    "no",
    "a",
    "天気",
    "都",
    "京都の天",
    "gate -well",
    "gate OR moss",
    "/Gate\\./",
    "/gate\\b/i",
    "/retry-\\w+: \\d{2}$/",
    "/[cg]a[ft]e/i",
    "/./",
    "role:user gate",
    "tool:look 東京",
    "-agent:botanist damp",
    "project:garden gate",
    "project:\"gar*[d]en?\" gate",
    "project:\"a\\\"b/c\" gate",
    "session:s2 gate",
    "session:s* gate",
    "gate after:2020-01-01",
    "gate before:2020-01-01",
    "nothing-has-this",
];

/// A page without what depends on the time and on the index.
fn comparable(page: &Value) -> (Vec<String>, Value, Value) {
    let mut ids = ids(page);
    ids.sort();
    (
        ids,
        page["total_sessions"].clone(),
        page["total_matches"].clone(),
    )
}

/// Records sessions whose projects have the characters of patterns and of JSON, besides the usual ones.
fn record(client: &Client) {
    record_three_sessions(client);
    for (n, project) in ["gar*[d]en?", "a\"b/c", "garden"].iter().enumerate() {
        let session = format!("p{n}");
        let body = json!({ "session_id": session, "project_id": project });
        client.post("", &body).wrote(201);
        turn(client, &session, "r", ("Which gate?", "The green gate."));
    }
}

#[test]
fn the_index_finds_what_a_scan_finds() {
    let Some(world) = World::on_opensearch() else {
        return;
    };
    let server = world.serve();
    let client = server.client();
    record(&client);
    search_by_index(&client, &[("q", "gate")]);
    let scanned = World::new();
    let without_index = [("FILROUGE_SEARCH_INDEX", "false")];
    let scanning = scanned.serve_with_env(&without_index, &[]);
    record(&scanning.client());
    for question in QUESTIONS {
        let by_index = send_search(&client, &[("q", question)]);
        let by_scan = send_search(&scanning.client(), &[("q", question)]);
        assert_eq!(by_index.status, by_scan.status, "{question}");
        if by_index.status == 200 {
            let (by_index, by_scan) = (by_index.body(), by_scan.body());
            assert!(by_index["as_of"].is_string(), "{question}: {by_index}");
            assert_eq!(comparable(&by_index), comparable(&by_scan), "{question}");
        }
    }
    server.stop();
    // A command searches the same index.
    let output = world.ok(&["search", "amelcasena", "--source", "ledger"]);
    assert!(output.contains("s1"), "{output}");
    let status = world.ok(&["index", "status", "--source", "ledger"]);
    assert!(status.contains("-documents"), "{status}");
}

#[test]
fn redacted_text_and_text_of_others_is_not_found() {
    let Some(world) = World::on_opensearch() else {
        return;
    };
    let server = world.serve();
    let (ada, bob) = (
        server.client().for_identity("ada"),
        server.client().for_identity("bob"),
    );
    let secret = turn(&ada, "adas", "r", ("a kingfisher", "by the river"));
    turn(&ada, "adas", "s", ("a nightingale", "in the wood"));
    turn(&bob, "bobs", "r", ("a kingfisher", "by the lake"));
    for (client, session) in [(&ada, "adas"), (&bob, "bobs")] {
        until("the session is indexed", || {
            found(client, &[("q", "kingfisher")]) == [session]
        });
        let page = search_by_index(client, &[("q", "kingfisher")]);
        assert_eq!(page["total_sessions"], 1, "{page}");
    }
    redact(&ada, "adas", &secret);
    let page = search_by_index(&ada, &[("q", "kingfisher")]);
    assert_eq!(page["total_matches"], 0, "{page}");
    assert_eq!(found(&ada, &[("q", "nightingale")]), ["adas"]);
    let receipt = ada.delete("/adas").is(200);
    let stores = receipt["stores"].as_array().unwrap().iter();
    let index = stores.filter(|store| store["store"] == "index").count();
    assert_eq!(index, 1, "{receipt}");
    assert_eq!(found(&ada, &[("q", "nightingale")]), [""; 0]);
    assert_eq!(found(&bob, &[("q", "kingfisher")]), ["bobs"]);
    server.stop();
    world.verify();
}

/// A server is killed while it indexes. The next one takes over, and finds everything.
#[test]
fn a_killed_server_loses_nothing() {
    let Some(world) = World::on_opensearch() else {
        return;
    };
    for round in 0..4 {
        let mut server = world.serve();
        let client = server.client();
        for n in 0..20 {
            let session = format!("s-{round}-{n}");
            turn(
                &client,
                &session,
                "r",
                ("Is there a lantern?", "A lantern."),
            );
        }
        server.kill();
    }
    let server = world.serve();
    let client = server.client();
    // The lock of a killed server is taken over half a minute later.
    let began = Instant::now();
    loop {
        let page = send_search(&client, &[("q", "lantern")]).is(200);
        if page["as_of"].is_string() && page["total_sessions"] == 80 {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(180), "{page}");
        std::thread::sleep(Duration::from_millis(200));
    }
    server.stop();
    world.verify();
}

/// Without OpenSearch, searches read everything, and redactions are refused.
#[test]
fn searches_scan_while_opensearch_is_away() {
    let world = World::new();
    let away = [
        ("FILROUGE_SEARCH_ENGINE", "opensearch"),
        ("FILROUGE_SEARCH_OPENSEARCH_URL", "http://127.0.0.1:1"),
    ];
    let server = world.serve_with_env(&away, &[]);
    let client = server.client();
    let written = turn(&client, "s", "r", ("a kingfisher", "by the river"));
    let page = send_search(&client, &[("q", "kingfisher")]).is(200);
    assert_eq!(ids(&page), ["s"]);
    assert_eq!(page["as_of"], Value::Null);
    let notices = page["notices"].to_string();
    assert!(notices.contains("does not answer"), "{page}");
    until("the server is degraded", || {
        let ready = client.get_body("/readyz");
        ready["search"]
            .as_str()
            .is_some_and(|why| why.contains("OpenSearch"))
    });
    let path = format!("/s/turns/{}/redact", written["turn_id"].as_str().unwrap());
    let refused = client.post(&path, &json!({ "reason": "requested by the user" }));
    refused.fails(503, "store_unavailable");
    assert_eq!(found(&client, &[("q", "kingfisher")]), ["s"]);
    server.stop();
    world.verify();
}

#[test]
fn settings_of_opensearch_are_checked() {
    let world = World::on_sqlite();
    let server = world.serve();
    turn(&server.client(), "s", "r", ("a kingfisher", "by the river"));
    server.stop();
    for (variables, expected) in [
        (&[("ENGINE", "elastic")][..], "search engine"),
        (&[("ENGINE", "opensearch")], "needs url"),
        (&[("OPENSEARCH_PREFIX", "A*")], "1 to 100 characters"),
        (
            &[
                ("ENGINE", "opensearch"),
                ("OPENSEARCH_URL", "http://127.0.0.1:1"),
                ("OPENSEARCH_USER", "filrouge"),
            ],
            "password_file",
        ),
        (
            &[("OPENSEARCH_URL", "http://user:word@127.0.0.1:1")],
            "without a name",
        ),
    ] {
        let mut command = world.command(&["index", "update", "--source", "ledger"]);
        let named = variables
            .iter()
            .map(|(name, value)| (format!("FILROUGE_SEARCH_{name}"), value));
        command.envs(named);
        let output = crate::world::finish(command, "index update");
        assert_ne!(output.code, Some(0), "{}", output.stdout);
        assert!(output.stderr.contains(expected), "{}", output.stderr);
    }
}
