//! Tests of the search index in OpenSearch, on a real server: the contract suite, and features that only this index has.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod forgetting;
mod takeover;

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use filrouge_opensearch::client::{Answer, Body, Client, Credentials, Endpoint};
use filrouge_opensearch::text_index::{IndexSettings, OpenSearchIndex};
use filrouge_store::contract::text_index::{IndexFixture, memory};
use filrouge_store::text_index::TextIndex;
use filrouge_testbed::OpenSearch;
use filrouge_testbed::third_party::or_report_untested;
use reqwest::Method;
use tokio::runtime::Runtime;

const ALL: &str = env!("CARGO_TARGET_TMPDIR");

/// The runtime of the indexes' requests.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

/// The server; `None` where OpenSearch is unavailable.
fn server() -> Option<&'static OpenSearch> {
    let server = OpenSearch::shared(Path::new(ALL));
    or_report_untested(Path::new(ALL), "opensearch", "OpenSearch", server)
}

fn endpoint(server: &OpenSearch) -> Endpoint {
    Endpoint {
        url: server.url(),
        credentials: Credentials::Anonymous,
        // The lock of an ended process is taken over ten seconds after this time.
        timeout: Duration::from_secs(20),
    }
}

/// A prefix that no other test uses.
fn new_prefix() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // The server may run longer than this test.
    format!("index-{}-{count}", std::process::id())
}

fn index_at(server: &OpenSearch, prefix: &str) -> OpenSearchIndex {
    let settings = IndexSettings {
        endpoint: endpoint(server),
        authorities: None,
        prefix: prefix.to_owned(),
    };
    OpenSearchIndex::new(&settings, RUNTIME.handle().clone()).unwrap()
}

/// Sends a request without the index.
fn send(server: &OpenSearch, method: Method, path: &str, body: Body) -> Answer {
    let client = Client::new(&endpoint(server)).unwrap();
    RUNTIME.block_on(client.send(method, path, body)).unwrap()
}

/// An index of its own. Where OpenSearch is unavailable, the index in memory, and the test is reported as skipped.
fn index() -> IndexFixture {
    let Some(server) = server() else {
        return memory();
    };
    let prefix = new_prefix();
    IndexFixture {
        index: Arc::new(index_at(server, &prefix)),
        open_again: Box::new(move || Arc::new(index_at(server, &prefix)) as Arc<dyn TextIndex>),
        keep: Box::new(()),
    }
}

mod contract {
    use super::index;

    filrouge_store::index_contract_tests!(index);
}

#[test]
fn settings_are_checked() {
    let settings = |prefix: &str, url: &str, authorities: Option<&str>| IndexSettings {
        endpoint: Endpoint {
            url: url.to_owned(),
            credentials: Credentials::Anonymous,
            timeout: Duration::from_secs(1),
        },
        authorities: authorities.map(|pem| pem.as_bytes().to_vec()),
        prefix: prefix.to_owned(),
    };
    let url = "http://localhost:9200";
    let refused = |settings: IndexSettings| {
        let created = OpenSearchIndex::new(&settings, RUNTIME.handle().clone());
        created.is_err()
    };
    assert!(!refused(settings("filrouge", url, None)));
    let long = "a".repeat(101);
    for prefix in ["", "1a", "Upper", "a*", "a,b", "a/b", long.as_str()] {
        assert!(refused(settings(prefix, url, None)), "{prefix}");
    }
    for url in [
        "localhost:9200",
        "http://user:pw@localhost",
        "http://localhost?a",
    ] {
        assert!(refused(settings("a", url, None)), "{url}");
    }
    assert!(refused(settings("a", url, Some("no certificate"))));
}

/// Nothing answers at the address: calls fail, and a later one can succeed.
#[test]
fn an_index_that_does_not_answer_is_unavailable() {
    let unbound = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = unbound.local_addr().unwrap();
    drop(unbound);
    let settings = IndexSettings {
        endpoint: Endpoint {
            url: format!("http://{address}"),
            credentials: Credentials::Anonymous,
            timeout: Duration::from_secs(30),
        },
        authorities: None,
        prefix: "a".to_owned(),
    };
    let index = OpenSearchIndex::new(&settings, RUNTIME.handle().clone()).unwrap();
    let failure = index.status().unwrap_err();
    assert_eq!(failure.code, filrouge_types::ErrorCode::StoreUnavailable);
}
