//! Redis loses what it had: whoever reads can tell.

use filrouge_store::hot::suite::fixture::key;
use filrouge_store::hot::suite::story::Story;
use filrouge_store::hot::{Edition, HotStore};
use filrouge_testbed::Redis;

use crate::{get, patient, put};

#[tokio::test]
async fn killed_and_started_again_it_is_empty_and_used_at_once() {
    let redis = Redis::start();
    let hot = patient(&redis.url());
    let first = put(&hot, "s", None, "v").await.unwrap();
    redis.kill();
    redis.start_again();
    // The connection was lost meanwhile: nobody has to notice.
    assert_eq!(get(&hot, "s").await.unwrap(), None);
    assert_eq!(put(&hot, "s", first, "w").await.unwrap(), None);
    assert!(put(&hot, "s", None, "w").await.unwrap().is_some());
    assert_eq!(hot.counts().unanswered, 0);
}

#[tokio::test]
async fn flushed_it_is_empty() {
    let redis = Redis::start();
    let hot = patient(&redis.socket_url());
    let first = put(&hot, "s", None, "v").await.unwrap();
    let mut story = Story::new();
    let step = story.put(1, "r");
    hot.advance(vec![(key("s"), step)]).await.unwrap();
    redis.cli(&["FLUSHALL"]);
    assert_eq!(hot.edition(&key("s")).await.unwrap(), None);
    assert_eq!(hot.recent(&key("s"), 5).await.unwrap(), None);
    // A write that goes on from what was lost makes nothing of it.
    assert_eq!(put(&hot, "s", first, "w").await.unwrap(), None);
    let step = story.put(2, "r");
    hot.advance(vec![(key("s"), step)]).await.unwrap();
    assert_eq!(hot.recent(&key("s"), 5).await.unwrap(), None);
}

#[tokio::test]
async fn an_older_dump_has_an_older_edition_and_an_older_link() {
    let redis = Redis::start();
    let hot = patient(&redis.url());
    let first = put(&hot, "s", None, "old").await.unwrap();
    let mut story = Story::new();
    let step = story.put(1, "secret");
    hot.advance(vec![(key("s"), step)]).await.unwrap();
    let (dump, then) = (redis.save(), story.clone());
    let second = put(&hot, "s", first, "new").await.unwrap();
    let step = story.remove(&[1]);
    hot.advance(vec![(key("s"), step)]).await.unwrap();
    redis.start_from(&dump);

    let found = get(&hot, "s").await.unwrap().unwrap();
    assert_eq!(found, (first.unwrap(), "old".to_owned()));
    let (found, second) = (found.0, second.unwrap());
    assert!(found.incarnation == second.incarnation && found.version < second.version);
    assert_eq!(put(&hot, "s", Some(second), "newer").await.unwrap(), None);
    assert_eq!(hot.recent(&key("s"), 5).await.unwrap(), then.recent(5));
    assert_ne!(then.as_of, story.as_of);
    // The next write finds it out.
    let step = story.put(2, "r");
    hot.advance(vec![(key("s"), step)]).await.unwrap();
    assert_eq!(hot.recent(&key("s"), 5).await.unwrap(), None);
}

/// From an older dump on, somebody counts to the version that was lost: that is another edition.
#[tokio::test]
async fn a_fork_has_editions_of_its_own() {
    let redis = Redis::start();
    let (hot, other) = (patient(&redis.url()), patient(&redis.url()));
    let first = put(&hot, "s", None, "old").await.unwrap();
    let dump = redis.save();
    let lost = put(&hot, "s", first, "lost").await.unwrap();
    redis.start_from(&dump);
    let forked = put(&other, "s", first, "forked").await.unwrap();
    let numbers = |edition: Option<Edition>| edition.map(|e| (e.incarnation, e.version));
    assert_eq!(numbers(forked), numbers(lost));
    assert_ne!(hot.edition(&key("s")).await.unwrap(), lost);
    assert_eq!(put(&hot, "s", lost, "newer").await.unwrap(), None);
    assert!(!hot.forget(&key("s"), lost).await.unwrap());
    let found = get(&hot, "s").await.unwrap();
    assert_eq!(found, Some((forked.unwrap(), "forked".to_owned())));
}
