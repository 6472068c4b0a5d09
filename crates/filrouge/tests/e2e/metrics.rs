//! `/metrics`: Prometheus can parse the samples, and they count requests.

use std::collections::BTreeSet;

use serde_json::json;

use crate::limits::metric;
use crate::world::World;

/// Parses the line of a sample; returns its metric's name and its value.
fn sample(line: &str) -> (&str, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    assert!(
        name.bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
        "{line}"
    );
    assert!(labels.ends_with('}'), "{line}");
    (name, value.parse().unwrap())
}

#[test]
fn a_scrape_is_valid_and_counts_requests() {
    let world = World::new();
    let server = world.serve();
    let client = server.client();
    let body =
        json!({ "request_id": "r", "question_neutral": "?", "runtime_context": { "secret": 1 } });
    client.post("/a-session-of-mine/turns", &body).wrote(201);
    client.post("/a-session-of-mine/turns", &body).wrote(200);
    client.get("/a-session-of-mine").is(200);
    client.get("/another").fails(404, "session_not_found");
    client
        .send_without_body("GET", "/not/there", "")
        .fails(404, "route_not_found");
    client
        .send_without_body("BREW", "/healthz", "")
        .fails(405, "method_not_allowed");

    let scrape = client.send_without_body("GET", "/metrics", "");
    assert_eq!(scrape.status, 200);
    let content_type = scrape.header("content-type").unwrap();
    assert!(
        content_type.starts_with("application/openmetrics-text"),
        "{content_type}"
    );
    let mut families = BTreeSet::new();
    for line in scrape.text.lines() {
        match line.strip_prefix("# ") {
            Some("EOF") => {}
            Some(comment) => {
                let mut words = comment.split(' ');
                let kind = words.next().unwrap();
                assert!(["HELP", "TYPE", "UNIT"].contains(&kind), "{line}");
                families.insert(words.next().unwrap().to_owned());
            }
            None => {
                let (name, value) = sample(line);
                assert!(value >= 0.0, "{line}");
                let suffixes = ["_total", "_bucket", "_sum", "_count"];
                let family = suffixes
                    .iter()
                    .find_map(|suffix| name.strip_suffix(suffix))
                    .unwrap_or(name);
                assert!(families.contains(family), "{line} has no family");
                assert!(name.starts_with("filrouge_"), "{line}");
            }
        }
    }
    assert!(scrape.text.ends_with("# EOF\n"));
    assert!(
        !scrape.text.contains("a-session-of-mine"),
        "a session id is a label: {}",
        scrape.text
    );
    let count = |name: &str| metric(&client, name);
    let requests = |labels: &str| count(&format!("filrouge_http_requests_total{{{labels}}}"));
    let turns = r#"method="POST",route="/api/v1/sessions/{session_id}/turns",status="2xx""#;
    assert_eq!(requests(turns), 2.0, "{}", scrape.text);
    assert_eq!(
        requests(r#"method="GET",route="unmatched",status="4xx""#),
        1.0
    );
    assert_eq!(
        requests(r#"method="other",route="/healthz",status="4xx""#),
        1.0,
        "{}",
        scrape.text
    );
    assert_eq!(
        count("filrouge_runtime_context_dropped_total"),
        2.0,
        "{}",
        scrape.text
    );
    assert_eq!(count("filrouge_degraded"), 0.0);
    assert!(count("filrouge_store_commit") >= 1.0);
    assert_eq!(
        count("filrouge_http_requests_in_flight"),
        1.0,
        "the scrape itself"
    );
    server.stop();
}
