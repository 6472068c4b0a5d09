//! Words that were erased while a projection was up, away, behind, and rebuilt are in no target, whatever its kind.

use std::ops::Range;
use std::path::Path;

use serde_json::Value;

use crate::not_tested::or_report_untested;
use crate::projected::{
    all_rows, get, projection_in, section, status, tables, turn, wait_until, wait_until_equal,
};
use crate::webhooks::write_config;
use crate::world::World;

/// The folder of the build in which servers are installed.
const ALL: &str = env!("CARGO_TARGET_TMPDIR");

/// The number of words that are recorded. Half of them are erased.
const WORDS: usize = 40;

/// The number of a word's session, which says in which circumstances it is erased.
fn words_of(circumstance: usize) -> Range<usize> {
    let count = WORDS / 8;
    circumstance * count..(circumstance + 1) * count
}

/// A word that occurs nowhere else, also in servers that tests share.
fn word(number: usize) -> String {
    format!("canary{}n{number}n", std::process::id())
}

fn session(number: usize) -> String {
    format!("s{number}")
}

/// Erases words by redactions and with their sessions, in turn. The status in each receipt must be one of these.
#[track_caller]
fn erase(world: &World, numbers: Range<usize>, expected: &[&str]) {
    for number in numbers {
        let session = session(number);
        let receipt = match number % 2 {
            0 => world.json(&["redact", &session, "--seq", "2", "--reason", "asked"]),
            _ => world.json(&["erase", &session, "--yes"]),
        };
        let status = projection_in(&receipt)["status"].as_str().unwrap();
        assert!(expected.contains(&status), "{session}: {receipt}");
    }
}

/// `settings` is the section of the projection, and `away` the same with a URL at which no target answers.
fn erased_words_are_gone(
    world: &World,
    (settings, away): (&str, &str),
    everything: impl Fn() -> String,
) {
    write_config(world, settings);
    let server = world.serve();
    let client = server.client();
    for number in 0..WORDS {
        turn(&client, &session(number), "r1", &word(number));
    }
    wait_until_equal(world);
    let text = everything();
    assert!(
        (0..WORDS).all(|number| text.contains(&word(number))),
        "{text}"
    );

    erase(world, words_of(0), &["erased"]);
    server.stop();

    write_config(world, away);
    let server = world.serve();
    erase(world, words_of(1), &["pending"]);
    server.stop();

    // The projection lacks these turns when words are erased.
    write_config(world, "");
    let server = world.serve();
    for number in words_of(2) {
        turn(&server.client(), &session(number), "r2", "more");
    }
    server.stop();
    write_config(world, settings);
    erase(world, words_of(2), &["erased"]);

    let server = world.serve();
    let before = status(world)["generation"].clone();
    world.ok(&["project", "rebuild", "copy"]);
    // At the moment of publication, the old generation may be missing already.
    erase(world, words_of(3), &["erased", "pending"]);
    wait_until("the rebuild is complete", || {
        let generation = status(world)["generation"].clone();
        generation.is_u64() && generation != before
    });
    wait_until_equal(world);
    server.stop();
    let text = everything();
    for number in 0..WORDS {
        let is_erased = number < words_of(4).start;
        let is_found = text.contains(&word(number));
        assert_eq!(is_found, !is_erased, "{}: {text}", word(number));
    }
    world.verify();
}

#[test]
fn erased_words_are_in_no_table() {
    let world = World::new();
    std::fs::create_dir_all(world.path("config/filrouge")).unwrap();
    std::fs::write(world.path("config/filrouge/blocked"), "no folder").unwrap();
    let settings = tables("clean_timeout_ms = 30000");
    let away = section("tables", "sqlite:blocked/copy.db", "clean_timeout_ms = 300");
    erased_words_are_gone(&world, (&settings, &away), || all_rows(&world));
}

/// A prefix of this process in a server that tests share, and settings with it.
fn with_prefix(kind: &str, url: &str, more: &str) -> (String, (String, String)) {
    let prefix = format!("e2e_{}", std::process::id());
    let more = format!("prefix = \"{prefix}\"\n{more}\n");
    let settings = section(kind, url, &format!("{more}clean_timeout_ms = 60000"));
    let away = section(
        kind,
        "http://127.0.0.1:9",
        &format!("{more}clean_timeout_ms = 300"),
    );
    (prefix, (settings, away))
}

#[test]
fn erased_words_are_in_no_document_of_opensearch() {
    let server = filrouge_testbed::OpenSearch::shared(Path::new(ALL));
    let what = "a server's projection into OpenSearch";
    let Some(server) = or_report_untested("projections_opensearch", what, server) else {
        return;
    };
    let url = server.url();
    let (prefix, (settings, away)) = with_prefix("opensearch", &url, "");
    let everything = || {
        get(&format!("{url}/{prefix}-*/_refresh"), None);
        get(&format!("{url}/{prefix}-*/_search?size=10000"), None)
    };
    let world = World::new();
    erased_words_are_gone(&world, (&settings, &away), everything);
    // Also a search over all fields of all indices of the server.
    for number in 0..WORDS {
        let found = get(&format!("{url}/_all/_search?q={}", word(number)), None);
        let found: Value = serde_json::from_str(&found).unwrap();
        let hits = found["hits"]["total"]["value"].as_u64().unwrap();
        assert_eq!(hits == 0, number < words_of(4).start, "{found}");
    }
}

#[test]
fn erased_words_are_in_no_object_of_weaviate() {
    let server = filrouge_testbed::Weaviate::shared(Path::new(ALL));
    let what = "a server's projection into Weaviate";
    let Some(server) = or_report_untested("projections_weaviate", what, server) else {
        return;
    };
    let (url, key) = (server.url(), server.key());
    let (prefix, (settings, away)) = with_prefix("weaviate", &url, &format!("secret = \"{key}\""));
    let collections = prefix.replacen('e', "E", 1);
    let everything = || {
        let schema: Value =
            serde_json::from_str(&get(&format!("{url}/v1/schema"), Some(key))).unwrap();
        let classes = schema["classes"].as_array().unwrap().iter();
        let names = classes.map(|class| class["class"].as_str().unwrap());
        let own = names.filter(|name| name.starts_with(&collections));
        let objects = own.map(|name| {
            let list = format!("{url}/v1/objects?class={name}&tenant=default&limit=10000");
            get(&list, Some(key))
        });
        objects.collect::<String>()
    };
    let world = World::new();
    erased_words_are_gone(&world, (&settings, &away), everything);
}
