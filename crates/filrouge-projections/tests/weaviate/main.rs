//! Tests of the target Weaviate, on a real server.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod similar;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use filrouge_projections::{
    Credentials, Endpoint, Target, TargetError, Update, Vectors, Weaviate, WeaviateSettings,
};
use filrouge_testbed::third_party::or_report_untested;
use support::{ALL, key, rows_of, sorted, stored, update, write};
use tokio::sync::oneshot;

/// A target with collections of its own; `None` where Weaviate is unavailable.
fn target(name: &str, vectors: Option<Arc<dyn Vectors>>) -> Option<Weaviate> {
    let server = filrouge_testbed::Weaviate::shared(Path::new(ALL));
    let server = or_report_untested(Path::new(ALL), "weaviate", "Weaviate", server)?;
    let key = Credentials::Bearer(server.key().to_owned());
    Some(Weaviate::new(settings(server.url(), key, name, vectors)).unwrap())
}

fn settings(
    url: String,
    credentials: Credentials,
    name: &str,
    vectors: Option<Arc<dyn Vectors>>,
) -> WeaviateSettings {
    WeaviateSettings {
        endpoint: Endpoint {
            url,
            credentials,
            timeout: Duration::from_secs(120),
        },
        // The server may run longer than this test.
        prefix: format!("{name}_{}", std::process::id()),
        vectors,
    }
}

#[cfg(feature = "contract")]
#[tokio::test]
async fn the_contract_is_fulfilled() {
    if target("Contract", None).is_none() {
        return;
    }
    let mut count = 0;
    let empty = || {
        count += 1;
        let name = format!("Contract{count}");
        async move { target(&name, None).unwrap() }
    };
    filrouge_projections::contract::run(empty).await;
}

#[tokio::test]
async fn rows_are_kept_by_version() {
    if let Some(target) = target("Versions", None) {
        support::rows_are_kept_by_version(&target).await;
    }
}

/// The versions of several sessions are read together, and one by one if they have many objects.
#[tokio::test]
async fn sessions_that_are_written_together_are_compared_by_version() {
    let Some(target) = target("Together", None) else {
        return;
    };
    target.create(1).await.unwrap();
    let keys = [key("acme", "a"), key("acme", "b"), key("other", "a")];
    for questions in [&["Why?"; 2][..], &["Why?"; 600]] {
        let version = questions.len() as u64;
        let newest = keys.each_ref().map(|key| update(key, version, questions));
        write(&target, 1, &newest).await;
        let older = update(&keys[0], version - 1, &vec!["Older?"; questions.len()]);
        let newer = update(&keys[1], version + 1, &["Newer?"]);
        write(&target, 1, &[older, newer.clone()]).await;
        for expected in [&newest[0], &newer, &newest[2]] {
            let rows = sorted(target.rows(expected));
            assert_eq!(stored(&target, 1, &expected.key).await, rows);
        }
    }
}

#[tokio::test]
async fn sessions_are_listed_and_removed() {
    if let Some(target) = target("Sessions", None) {
        support::sessions_are_listed_and_removed(&target).await;
    }
}

#[tokio::test]
async fn turns_of_one_rank_are_distinguished() {
    if let Some(target) = target("Ranks", None) {
        support::turns_of_one_rank_are_distinguished(&target).await;
    }
}

#[tokio::test]
async fn one_generation_is_published() {
    if let Some(target) = target("Generations", None) {
        support::one_generation_is_published(&target).await;
    }
}

/// GraphQL has no whole numbers of more than 31 bits.
#[tokio::test]
async fn large_versions_are_compared() {
    let Some(target) = target("Large", None) else {
        return;
    };
    target.create(1).await.unwrap();
    let (key, large) = (key("acme", "s1"), 5_000_000_000);
    let newer = update(&key, large, &["Newer?"]);
    write(&target, 1, std::slice::from_ref(&newer)).await;
    write(&target, 1, &[update(&key, large - 1, &["Older?"])]).await;
    target.clean(&key, large - 1).await.unwrap();
    let rows = support::sorted(target.rows(&newer));
    assert_eq!(stored(&target, 1, &key).await, rows);
    target.clean(&key, large).await.unwrap();
    assert!(stored(&target, 1, &key).await.is_empty());
}

/// A session with more bytes than one response may have is read in smaller pages.
#[tokio::test]
async fn large_objects_are_read_in_smaller_pages() {
    let Some(target) = target("Bytes", None) else {
        return;
    };
    target.create(1).await.unwrap();
    let key = key("acme", "s1");
    let question = "word ".repeat(200_000);
    let large = update(&key, 3, &[question.as_str(); 10]);
    write(&target, 1, std::slice::from_ref(&large)).await;
    let rows = support::sorted(target.rows(&large));
    // Without the rows in the message, which are large.
    assert!(stored(&target, 1, &key).await == rows);
}

/// The number of elements of its vectors, and the number that it states.
#[derive(Debug)]
struct Lengths(usize, usize);

impl Vectors for Lengths {
    fn dimensions(&self) -> usize {
        self.1
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, TargetError> {
        let vector = |text: &&str| vec![text.len() as f32; self.0];
        Ok(texts.iter().map(vector).collect())
    }
}

#[tokio::test]
async fn vectors_are_stored_beside_the_rows() {
    let Some(target) = target("Vectors", Some(Arc::new(Lengths(2, 2)))) else {
        return;
    };
    target.create(1).await.unwrap();
    let key = key("acme", "s1");
    let one = update(&key, 3, &["Why?", "How?"]);
    write(&target, 1, std::slice::from_ref(&one)).await;
    let rows = support::sorted(target.rows(&one));
    assert_eq!(stored(&target, 1, &key).await, rows);
}

/// Its first call reports that it began, and waits for the other end.
#[derive(Debug)]
struct Paused(Mutex<Option<(oneshot::Sender<()>, mpsc::Receiver<()>)>>);

impl Vectors for Paused {
    fn dimensions(&self) -> usize {
        2
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, TargetError> {
        let first = self.0.lock().unwrap().take();
        if let Some((called, go)) = first {
            called.send(()).unwrap();
            go.recv().unwrap();
        }
        Lengths(2, 2).embed(texts)
    }
}

#[tokio::test]
async fn what_is_written_while_vectors_are_computed_stays() {
    let (called, is_called) = oneshot::channel();
    let (go, permission) = mpsc::channel();
    let paused = Arc::new(Paused(Mutex::new(Some((called, permission)))));
    let Some(slow) = target("Overtaken", Some(paused)) else {
        return;
    };
    let quick = target("Overtaken", Some(Arc::new(Lengths(2, 2)))).unwrap();
    slow.create(1).await.unwrap();
    let key = key("acme", "s1");
    let older = [update(&key, 5, &["Older?"])];
    let newer = update(&key, 6, &["Newer?"]);
    let overtaking = async {
        is_called.await.unwrap();
        write(&quick, 1, std::slice::from_ref(&newer)).await;
        go.send(()).unwrap();
    };
    tokio::join!(write(&slow, 1, &older), overtaking);
    let rows = support::sorted(quick.rows(&newer));
    assert_eq!(stored(&quick, 1, &key).await, rows);
}

#[tokio::test]
async fn vectors_of_another_length_are_not_sent() {
    let Some(target) = target("Lengths", Some(Arc::new(Lengths(3, 2)))) else {
        return;
    };
    target.create(1).await.unwrap();
    let rows = rows_of(&target, &update(&key("acme", "s1"), 3, &["Why?"]));
    let refused = target.write(1, vec![rows]).await;
    assert!(
        matches!(refused, Err(TargetError::Refused(_))),
        "{refused:?}"
    );
}

/// Weaviate refuses all objects of a request if one has no valid id. Only this one becomes a dead letter.
#[tokio::test]
async fn a_refused_object_harms_no_other() {
    let Some(target) = target("Refused", None) else {
        return;
    };
    target.create(1).await.unwrap();
    let (good, bad) = (key("acme", "good"), key("acme", "bad"));
    let fine = rows_of(&target, &update(&good, 3, &["Why?"]));
    let mut wrong = rows_of(&target, &update(&bad, 3, &["Why?"]));
    if let Update::Rows { rows, .. } = &mut wrong {
        rows[0].id = "no id".to_owned();
    }
    let refused = target.write(1, vec![wrong, fine]).await.unwrap();
    let [refused] = &refused[..] else {
        panic!("{refused:?}");
    };
    assert_eq!(refused.key, bad);
    assert_eq!(stored(&target, 1, &good).await.len(), 2);
}

#[tokio::test]
async fn another_structure_and_wrong_credentials_are_distinguished() {
    let Some(target) = target("Altered", None) else {
        return;
    };
    target.create(1).await.unwrap();
    let server = filrouge_testbed::Weaviate::shared(Path::new(ALL)).unwrap();
    let with_key = |key: &str, vectors| {
        let key = Credentials::Bearer(key.to_owned());
        Weaviate::new(settings(server.url(), key, "Altered", vectors)).unwrap()
    };
    let vectors: Arc<dyn Vectors> = Arc::new(Lengths(2, 2));
    let altered = with_key(server.key(), Some(vectors)).create(1).await;
    assert!(
        matches!(altered, Err(TargetError::Altered(_))),
        "{altered:?}"
    );
    let refused = with_key("wrong", None).published().await;
    assert!(
        matches!(refused, Err(TargetError::Refused(_))),
        "{refused:?}"
    );
}

#[test]
fn a_prefix_is_a_valid_name() {
    for prefix in ["", "lower", "A b", "A-b", &"A".repeat(101)] {
        let settings = WeaviateSettings {
            prefix: prefix.to_owned(),
            ..settings(
                "http://localhost:8080".to_owned(),
                Credentials::Anonymous,
                "A",
                None,
            )
        };
        let refused = Weaviate::new(settings);
        assert!(
            matches!(refused, Err(TargetError::Refused(_))),
            "{prefix:?}"
        );
    }
}
