//! Tests of the servers with an HTTP interface.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use filrouge_testbed::third_party::or_report_untested;
use filrouge_testbed::{OpenSearch, Weaviate};

const ALL: &str = env!("CARGO_TARGET_TMPDIR");

/// Returns the head and the body of the response to a request without a body.
fn get(url: &str, path: &str, header: &str) -> String {
    let address = url.strip_prefix("http://").expect("an address");
    let mut connection = TcpStream::connect(address).expect("a connection");
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{header}\r\n");
    connection.write_all(request.as_bytes()).expect("a request");
    let mut response = String::new();
    connection
        .read_to_string(&mut response)
        .expect("a response");
    response
}

#[test]
fn opensearch_answers_and_is_shared() {
    let server = OpenSearch::shared(Path::new(ALL));
    let Some(server) = or_report_untested(Path::new(ALL), "opensearch", "OpenSearch", server)
    else {
        return;
    };
    let response = get(&server.url(), "/", "");
    assert!(response.contains(r#""number" : "2.19.1""#), "{response}");
    let plugins = get(&server.url(), "/_cat/plugins", "");
    assert!(plugins.contains("opensearch-knn"), "{plugins}");
    let again = OpenSearch::shared(Path::new(ALL)).expect("a server");
    assert_eq!(again.url(), server.url());
}

#[test]
fn weaviate_answers_only_with_its_key() {
    let server = Weaviate::shared(Path::new(ALL));
    let Some(server) = or_report_untested(Path::new(ALL), "weaviate", "Weaviate", server) else {
        return;
    };
    let refused = get(&server.url(), "/v1/meta", "");
    assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
    let key = format!("Authorization: Bearer {}\r\n", server.key());
    let response = get(&server.url(), "/v1/meta", &key);
    assert!(response.contains("1.35.2"), "{response}");
}
