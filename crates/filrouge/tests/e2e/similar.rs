//! Have we answered this before? `similar` over HTTP and `find_similar_turns`, by the index of the ledger and by a
//! projection in Weaviate.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use serde_json::{Value, json};

use crate::http::Client;
use crate::limits::until;
use crate::mcp_http::Agent;
use crate::not_tested::or_report_untested;
use crate::search_http::{found, ids, send_search, turn};
use crate::webhooks::write_config;
use crate::world::World;

const DIMENSIONS: usize = 64;

/// Starts an embedding service whose vectors only show which words a text has; returns its URL.
fn start_embedder() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            // A client may disconnect at any time.
            std::thread::spawn(move || answer_one(stream).ok());
        }
    });
    url
}

fn answer_one(mut stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line)? > 0 && line != "\r\n" {
        let header = line.to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let request: Value = serde_json::from_slice(&body)?;
    let texts = request["input"].as_array().unwrap().iter().enumerate();
    let data = texts.map(|(index, text)| {
        let vector = vector(text.as_str().unwrap());
        json!({ "index": index, "embedding": vector })
    });
    let body = json!({ "data": data.collect::<Vec<_>>() }).to_string();
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

fn vector(text: &str) -> Vec<f32> {
    let mut vector = vec![0.0; DIMENSIONS];
    let words = text.split(|c: char| !c.is_alphanumeric());
    for word in words.filter(|word| !word.is_empty()) {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(word.to_lowercase());
        vector[usize::try_from(hash % DIMENSIONS as u64).unwrap()] += 1.0;
    }
    vector
}

/// The settings of an embedder, and more settings.
fn configure(world: &World, more: &str) {
    let url = start_embedder();
    let embedder = format!(
        "[search.embedder]\nkind = \"http\"\nurl = \"{url}\"\nmodel = \"words\"\ndimensions = {DIMENSIONS}\n"
    );
    write_config(world, &format!("{embedder}{more}"));
}

/// An identity and a question with the metacharacters of queries.
const HOSTILE: (&str, &str) = (
    "bob\"}) {session_id}} #",
    "\"}, limit: 9) {session_id}} # \\\" \u{2028} \"\"\" 東京 👋 where is the gate",
);

/// Records turns of ada, of another identity, and without an owner.
fn record(server_client: &Client) -> (Client, Client, Value) {
    let [ada, bob] = ["ada", HOSTILE.0].map(|identity| server_client.for_identity(identity));
    turn(&ada, "adas", "1", ("Where is the gate?", "By the well."));
    let second = turn(&ada, "adas", "2", ("Which moss is green?", "All of it."));
    turn(&bob, "bobs", "1", (HOSTILE.1, "Behind the well."));
    turn(
        server_client,
        "nobodys",
        "1",
        ("Where is a gate?", "There."),
    );
    (ada, bob, second)
}

/// Waits until each recorded question has a score.
fn wait_for_vectors(client: &Client, question: &str) {
    let mut page = Value::Null;
    until("the question has a vector", || {
        page = send_search(client, &[("similar", question)]).is(200);
        page["data"][0]["excerpts"][0]["score"].is_number()
    });
}

/// What two owners find, over HTTP, and after a redaction.
fn check_owners(ada: &Client, bob: &Client, second: &Value) {
    let page = send_search(ada, &[("similar", "Where is the gate?")]).is(200);
    assert_eq!(ids(&page), ["adas"], "{page}");
    let excerpts = page["data"][0]["excerpts"].as_array().unwrap();
    let shown: Vec<_> = excerpts[..2].iter().map(|one| &one["text"]).collect();
    assert_eq!(shown, ["Where is the gate?", "By the well."], "{page}");
    assert_eq!(excerpts[0]["turn_ordinal"], 1, "{page}");
    assert_eq!(excerpts[1]["turn_ordinal"], Value::Null, "{page}");
    let score = excerpts[0]["score"].as_f64().unwrap();
    assert!((0.5..=1.0).contains(&score), "{page}");
    assert_eq!(page["notices"], json!([]), "{page}");
    for question in ["where is the gate", HOSTILE.1] {
        for (client, own, words) in [
            (ada, "adas", ["Behind the well", "東京"]),
            (bob, "bobs", ["By the well", "moss"]),
        ] {
            let page = send_search(client, &[("similar", question)]).is(200);
            assert_eq!(ids(&page), [own], "{page}");
            assert_eq!(page["total_sessions"], 1, "{page}");
            // The excerpts, and whatever else the page shows.
            let hits = page["data"].to_string();
            assert!(
                !words.iter().any(|of_others| hits.contains(of_others)),
                "{page}"
            );
        }
    }
    let redact = format!("/adas/turns/{}/redact", second["turn_id"].as_str().unwrap());
    ada.post(&redact, &json!({ "reason": "asked to" }))
        .wrote(200);
    let page = send_search(ada, &[("similar", "Which moss is green?")]).is(200);
    let texts = page["data"].as_array().unwrap().iter();
    let texts = texts.flat_map(|hit| hit["excerpts"].as_array().unwrap());
    for excerpt in texts {
        assert!(
            !excerpt["text"].as_str().unwrap().contains("moss"),
            "{page}"
        );
    }
}

#[test]
fn similar_questions_are_found_by_the_index() {
    let world = World::new();
    configure(&world, "");
    let server = world.serve();
    let (ada, bob, second) = record(&server.client());
    for client in [&ada, &bob, &server.client()] {
        wait_for_vectors(client, "where is the gate");
    }
    let found = Agent::new(&server, None).tool(
        "find_similar_turns",
        json!({ "question": "where is the gate?" }),
    );
    let turns = found["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 1, "{found}");
    assert_eq!(turns[0]["sessionID"], "nobodys");
    assert_eq!(turns[0]["turnOrdinal"], 1);
    assert_eq!(turns[0]["question"], "Where is a gate?");
    assert_eq!(turns[0]["answer"], "There.");
    assert!(turns[0]["score"].is_number() && turns[0]["created"].is_number());
    check_owners(&ada, &bob, &second);
    server.stop();
}

#[test]
fn without_a_projection_that_answers_the_index_is_used() {
    let world = World::new();
    let away = "[[projections]]\nname = \"away\"\nkind = \"weaviate\"\nurl = \"http://127.0.0.1:9\"\nvectors = true\nclean_timeout_ms = 100\n";
    configure(&world, away);
    let server = world.serve();
    let (ada, ..) = record(&server.client());
    wait_for_vectors(&ada, "where is the gate");
    let page = send_search(&ada, &[("similar", "where is the gate")]).is(200);
    assert_eq!(ids(&page), ["adas"], "{page}");
    let notice = page["notices"][0].as_str().unwrap();
    assert!(notice.starts_with("a projection does not answer"), "{page}");
    server.stop();
}

/// The identities of all objects in the projection.
fn identities(weaviate: &filrouge_testbed::Weaviate, alias: &str) -> Vec<String> {
    let query = format!("{{Get {{{alias}(tenant: \"default\", limit: 1000) {{identity_id}}}}}}");
    let config = ureq::Agent::config_builder().proxy(None).build();
    let agent: ureq::Agent = config.into();
    let request = agent
        .post(format!("{}/v1/graphql", weaviate.url()))
        .header("authorization", format!("Bearer {}", weaviate.key()))
        .header("content-type", "application/json");
    let body = json!({ "query": query }).to_string();
    let mut response = request.send(body.as_bytes()).unwrap();
    let text = response.body_mut().read_to_string().unwrap();
    let answer: Value = serde_json::from_str(&text).unwrap();
    let objects = answer["data"]["Get"][alias].as_array();
    let objects = objects.unwrap_or_else(|| panic!("{answer}")).iter();
    let identity = |object: &Value| object["identity_id"].as_str().map(str::to_owned);
    objects.filter_map(identity).collect()
}

#[test]
fn similar_questions_are_found_by_weaviate_and_an_erased_identity_has_no_object() {
    let server = filrouge_testbed::Weaviate::shared(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let Some(weaviate) = or_report_untested("weaviate", "Weaviate", server) else {
        return;
    };
    let world = World::new();
    let name = format!("similar_{}", std::process::id());
    let (url, secret) = (weaviate.url(), weaviate.key());
    let projection = format!(
        "[[projections]]\nname = \"{name}\"\nkind = \"weaviate\"\nurl = \"{url}\"\nsecret = \"{secret}\"\nvectors = true\nclean_timeout_ms = 60000\n"
    );
    configure(&world, &projection);
    let server = world.serve();
    let (ada, bob, second) = record(&server.client());
    let status = || {
        let status = world.run(&["project", "status", "--json"]);
        let status: Value = serde_json::from_str(&status.stdout).unwrap();
        status["projections"][0].clone()
    };
    until("the projection is filled", || status()["lag_commits"] == 0);
    for client in [&ada, &bob] {
        wait_for_vectors(client, "where is the gate");
    }
    check_owners(&ada, &bob, &second);
    let alias = format!("Filrouge_{name}");
    let owners = identities(weaviate, &alias);
    assert!(owners.contains(&"ada".to_owned()) && owners.contains(&HOSTILE.0.to_owned()));
    world.ok(&["erase", "--identity", "ada", "--yes"]);
    let owners = identities(weaviate, &alias);
    assert!(!owners.contains(&"ada".to_owned()), "{owners:?}");
    assert!(owners.contains(&HOSTILE.0.to_owned()), "{owners:?}");
    assert!(found(&ada, &[("similar", "Where is the gate?")]).is_empty());
    server.stop();
}
