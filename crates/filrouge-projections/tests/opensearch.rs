//! Tests of the target OpenSearch, on a real server.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use filrouge_projections::{
    Credentials, Endpoint, OpenSearch, OpenSearchSettings, SessionUpdate, Stamp, Target,
    TargetError, Update, Vectors,
};
use filrouge_testbed::third_party::or_report_untested;
use filrouge_types::RawJson;
use serde_json::Value;
use support::{ALL, key, rows_of, stored, update, write};

/// A target with indices of its own; `None` where OpenSearch is unavailable.
fn target(name: &str, vectors: Option<Arc<dyn Vectors>>) -> Option<OpenSearch> {
    let server = filrouge_testbed::OpenSearch::shared(Path::new(ALL));
    let server = or_report_untested(Path::new(ALL), "opensearch", "OpenSearch", server)?;
    Some(OpenSearch::new(settings(server.url(), name, vectors)).unwrap())
}

fn settings(url: String, name: &str, vectors: Option<Arc<dyn Vectors>>) -> OpenSearchSettings {
    OpenSearchSettings {
        endpoint: Endpoint {
            url,
            credentials: Credentials::Anonymous,
            timeout: Duration::from_secs(120),
        },
        // The server may run longer than this test.
        prefix: format!("{name}-{}", std::process::id()),
        vectors,
    }
}

#[cfg(feature = "contract")]
#[tokio::test]
async fn the_contract_is_fulfilled() {
    if target("contract", None).is_none() {
        return;
    }
    let mut count = 0;
    let empty = || {
        count += 1;
        let name = format!("contract{count}");
        async move { target(&name, None).unwrap() }
    };
    filrouge_projections::contract::run(empty).await;
}

#[tokio::test]
async fn rows_are_kept_by_version() {
    if let Some(target) = target("versions", None) {
        support::rows_are_kept_by_version(&target).await;
    }
}

#[tokio::test]
async fn sessions_are_listed_and_removed() {
    if let Some(target) = target("sessions", None) {
        support::sessions_are_listed_and_removed(&target).await;
    }
}

#[tokio::test]
async fn turns_of_one_rank_are_distinguished() {
    if let Some(target) = target("ranks", None) {
        support::turns_of_one_rank_are_distinguished(&target).await;
    }
}

#[tokio::test]
async fn one_generation_is_published() {
    if let Some(target) = target("generations", None) {
        support::one_generation_is_published(&target).await;
    }
}

#[tokio::test]
async fn a_late_write_does_not_bring_a_removed_session_back() {
    let Some(target) = target("late", None) else {
        return;
    };
    let key = key("acme", "s1");
    target.create(1).await.unwrap();
    write(&target, 1, &[update(&key, 3, &["Why?"])]).await;
    let removed = Update::Removed {
        key: key.clone(),
        version: 9,
    };
    target.write(1, vec![removed]).await.unwrap();
    write(&target, 1, &[update(&key, 8, &["Why?"])]).await;
    assert!(stored(&target, 1, &key).await.is_empty());
}

/// Item contents and metadata of any form are stored.
#[tokio::test]
async fn unusual_content_is_stored() {
    let Some(target) = target("unusual", None) else {
        return;
    };
    target.create(1).await.unwrap();
    let key = key("acme", "s1");
    let mut unusual: SessionUpdate = update(&key, 3, &["Why?"]);
    let long = "x".repeat(100_000);
    let deep = format!("{}1{}", r#"{"a":["#.repeat(30), "]}".repeat(30));
    let metadata =
        format!(r#"{{"a.b":1,"a":{{"b":"{long}"}},"":"empty","deep":{deep},"n":1e300}}"#);
    let body = &mut unusual.recorded.turns[0].1[0].body;
    body.metadata = Some(RawJson::from_checked(metadata));
    body.parts = RawJson::from_checked(format!(
        r#"[{{"type":"text","text":"{long}"}},7,{{"type":7,"text":"\ud800"}},{deep}]"#
    ));
    body.usage = Some(RawJson::from_checked(
        r#"{"input":0.30000000000000004,"":[]}"#,
    ));
    body.agent = Some(long.into());
    write(&target, 1, std::slice::from_ref(&unusual)).await;
    let rows = support::sorted(target.rows(&unusual));
    assert_eq!(stored(&target, 1, &key).await, rows);
}

/// Names of metadata, which callers choose, have no meaning as patterns, paths or queries.
#[tokio::test]
async fn names_with_metacharacters_are_only_names() {
    let Some(target) = target("names", None) else {
        return;
    };
    target.create(1).await.unwrap();
    let key = key("acme", "s1");
    let mut hostile: SessionUpdate = update(&key, 3, &["Why?"]);
    hostile.recorded.session.metadata = RawJson::from_checked(
        r#"{"*":1,"a*":2,"a?b":3,"\"}":4,"a\\b":5,"$ne":{"$gt":""},"') OR 1=1 --":6,"_id":"x","_routing":"y","version":9,"tenant_id":"other"," ":7,"é[0]":8}"#,
    );
    write(&target, 1, std::slice::from_ref(&hostile)).await;
    let rows = support::sorted(target.rows(&hostile));
    assert_eq!(stored(&target, 1, &key).await, rows);
    target.clean(&key, 3).await.unwrap();
    assert!(stored(&target, 1, &key).await.is_empty());
}

/// Names that OpenSearch's parser of objects cuts wrongly: at worst the session is refused, and all others are written.
#[tokio::test]
async fn a_name_like_its_path_harms_no_other_session() {
    let Some(target) = target("paths", None) else {
        return;
    };
    target.create(1).await.unwrap();
    let (good, bad) = (key("acme", "good"), key("acme", "bad"));
    let mut hostile: SessionUpdate = update(&bad, 3, &["Why?"]);
    hostile.recorded.session.metadata =
        RawJson::from_checked(r#"{"x":{"metadata.x":[1,2]},"metadata":{"metadata":[[1],[2]]}}"#);
    let updates = vec![
        rows_of(&target, &hostile),
        rows_of(&target, &update(&good, 3, &["Why?"])),
    ];
    let refused = target.write(1, updates).await.unwrap();
    assert!(refused.iter().all(|refused| refused.key == bad));
    assert_eq!(stored(&target, 1, &good).await.len(), 4);
}

/// A session with more bytes than one response may have is read in smaller pages.
#[tokio::test]
async fn large_documents_are_read_in_smaller_pages() {
    let Some(target) = target("large", None) else {
        return;
    };
    target.create(1).await.unwrap();
    let key = key("acme", "s1");
    let question = "word ".repeat(200_000);
    let large = update(&key, 3, &[question.as_str(); 5]);
    write(&target, 1, std::slice::from_ref(&large)).await;
    let rows = support::sorted(target.rows(&large));
    let bytes: usize = rows
        .iter()
        .map(|row| Value::from(row.content.clone()).to_string().len())
        .sum();
    assert!(bytes > 16 << 20, "{bytes}");
    // Without the rows in the message, which are large.
    assert!(stored(&target, 1, &key).await == rows);
}

#[derive(Debug)]
struct Lengths;

impl Vectors for Lengths {
    fn dimensions(&self) -> usize {
        2
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, TargetError> {
        let vector = |text: &&str| vec![1.0, text.len() as f32];
        Ok(texts.iter().map(vector).collect())
    }
}

#[tokio::test]
async fn vectors_are_stored_beside_the_rows() {
    let Some(target) = target("vectors", Some(Arc::new(Lengths))) else {
        return;
    };
    target.create(1).await.unwrap();
    let key = key("acme", "s1");
    let one = update(&key, 3, &["Why?"]);
    write(&target, 1, std::slice::from_ref(&one)).await;
    assert_eq!(
        stored(&target, 1, &key).await,
        support::sorted(target.rows(&one))
    );
}

/// An index of another structure is reported, and so is a server that does not answer.
#[tokio::test]
async fn an_altered_index_and_an_absent_server_are_distinguished() {
    let Some(target) = target("altered", None) else {
        return;
    };
    target.create(1).await.unwrap();
    let server = filrouge_testbed::OpenSearch::shared(Path::new(ALL)).unwrap();
    let with_vectors = settings(server.url(), "altered", Some(Arc::new(Lengths)));
    let with_vectors = OpenSearch::new(with_vectors).unwrap();
    let altered = with_vectors.create(1).await;
    assert!(
        matches!(altered, Err(TargetError::Altered(_))),
        "{altered:?}"
    );
    // Nothing listens on port 1.
    let away = settings("http://127.0.0.1:1".to_owned(), "altered", None);
    let away = OpenSearch::new(away).unwrap().published().await;
    assert!(matches!(away, Err(TargetError::Unavailable(_))), "{away:?}");
}

/// After somebody gave the alias for queries to another index, a published generation has it alone.
#[tokio::test]
async fn an_alias_of_a_foreign_index_is_taken_back() {
    let Some(target) = target("alias", None) else {
        return;
    };
    target.create(1).await.unwrap();
    let server = filrouge_testbed::OpenSearch::shared(Path::new(ALL)).unwrap();
    let prefix = settings(String::new(), "alias", None).prefix;
    let foreign = format!("{}/foreign-{prefix}", server.url());
    let body = format!(r#"{{"aliases":{{"{prefix}":{{}}}}}}"#);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client.put(foreign).body(body);
    let request = request.header("content-type", "application/json");
    assert!(request.send().await.unwrap().status().is_success());
    let altered = target.published().await;
    assert!(
        matches!(altered, Err(TargetError::Altered(_))),
        "{altered:?}"
    );
    target.publish(1).await.unwrap();
    assert_eq!(target.published().await.unwrap(), Some(1));
}

/// The alias for queries leaves out the stamp, which is a document of the index.
#[tokio::test]
async fn queries_do_not_see_the_stamp() {
    let Some(target) = target("stamp", None) else {
        return;
    };
    target.create(1).await.unwrap();
    let stamp = Stamp {
        commits: 3,
        position: "[]".to_owned(),
    };
    target.set_stamp(1, &stamp).await.unwrap();
    write(&target, 1, &[update(&key("acme", "s1"), 3, &[])]).await;
    target.publish(1).await.unwrap();
    let server = filrouge_testbed::OpenSearch::shared(Path::new(ALL)).unwrap();
    let prefix = settings(String::new(), "stamp", None).prefix;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let get = async |path: &str| {
        let answer = client.get(format!("{}/{path}", server.url())).send();
        answer.await.unwrap().text().await.unwrap()
    };
    get(&format!("{prefix}-*/_refresh")).await;
    for (searched, count) in [(prefix.clone(), 1), (format!("{prefix}-*"), 2)] {
        let found = get(&format!("{searched}/_count")).await;
        let expected = format!("\"count\":{count},");
        assert!(found.contains(&expected), "{searched}: {found}");
    }
}

#[test]
fn a_prefix_is_a_valid_name() {
    for prefix in ["", "Upper", "1st", "a b", "a*", &"a".repeat(101)] {
        let settings = OpenSearchSettings {
            prefix: prefix.to_owned(),
            ..settings("http://localhost:9200".to_owned(), "", None)
        };
        let refused = OpenSearch::new(settings);
        assert!(
            matches!(refused, Err(TargetError::Refused(_))),
            "{prefix:?}"
        );
    }
}
