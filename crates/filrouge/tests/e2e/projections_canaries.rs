//! Words that were erased while a projection was up, away, behind, and rebuilt are in no target, whatever its kind.
//!
//! `FILROUGE_PROJECTION_CANARIES` is the number of words, a multiple of 8. With more than the default, OpenSearch's files
//! are searched, too, which takes minutes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::not_tested::or_report_untested;
use crate::projected::{
    all_rows, get, projection_in, section, status, tables, turn, wait_until, wait_until_equal,
};
use crate::webhooks::write_config;
use crate::world::{World, env_number};

/// The folder of the build in which servers are installed.
const ALL: &str = env!("CARGO_TARGET_TMPDIR");

const DEFAULT_WORDS: u64 = 40;

/// The number of words that are recorded. Half of them are erased.
fn word_count() -> usize {
    let count = env_number("FILROUGE_PROJECTION_CANARIES", DEFAULT_WORDS);
    usize::try_from(count).unwrap()
}

/// The number of a word's session, which says in which circumstances it is erased.
fn words_of(circumstance: usize) -> Range<usize> {
    let count = word_count() / 8;
    circumstance * count..(circumstance + 1) * count
}

/// Whether a word is one of those that are erased.
fn is_erased(number: usize) -> bool {
    number < words_of(4).start
}

/// A word that occurs nowhere else, also in servers that tests share. Words have no beginning in common, so that
/// compression does not hide them in files.
fn word(number: usize) -> String {
    let hash = BuildHasherDefault::<DefaultHasher>::default();
    let hash = hash.hash_one((std::process::id(), number));
    let syllable = |byte: u8| {
        let consonant = b"bcdfghklmnprstvz"[usize::from(byte >> 4)];
        [consonant, b"aeio"[usize::from(byte & 3)]].map(char::from)
    };
    hash.to_be_bytes().into_iter().flat_map(syllable).collect()
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
    for number in 0..word_count() {
        turn(&client, &session(number), "r1", &word(number));
    }
    wait_until_equal(world);
    let text = everything();
    assert!(
        (0..word_count()).all(|number| text.contains(&word(number))),
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
    for number in 0..word_count() {
        let is_found = text.contains(&word(number));
        assert_eq!(is_found, !is_erased(number), "{}: {text}", word(number));
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
    world.ok(&[
        "project", "export", "copy", "--format", "parquet", "--to", "files",
    ]);
    let exported = held_words(&world.path("files"));
    let (erased, kept): (Vec<_>, Vec<_>) = exported.into_iter().partition(|n| is_erased(*n));
    assert_eq!(erased, [0_usize; 0]);
    assert!(!kept.is_empty(), "the files are not those of the export");
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
    for number in 0..word_count() {
        let found = get(&format!("{url}/_all/_search?q={}", word(number)), None);
        let found: Value = serde_json::from_str(&found).unwrap();
        let hits = found["hits"]["total"]["value"].as_u64().unwrap();
        assert_eq!(hits == 0, is_erased(number), "{found}");
    }
    if word_count() > usize::try_from(DEFAULT_WORDS).unwrap() {
        no_file_has_erased_words(server, &prefix);
    }
}

/// Merges the indices until their files have no erased word. OpenSearch keeps deleted documents for a while.
fn no_file_has_erased_words(server: &filrouge_testbed::OpenSearch, prefix: &str) {
    let indices = server.folder().join("opensearch/data/nodes/0/indices");
    // The server may run as another user.
    if std::fs::read_dir(&indices).is_err() {
        return;
    }
    let url = format!("{}/{prefix}-*", server.url());
    let config = ureq::Agent::config_builder().proxy(None).build();
    let agent = ureq::Agent::from(config);
    let uuids = format!("{}/_cat/indices/{prefix}-*?h=uuid", server.url());
    let uuids = get(&uuids, None);
    let held = || {
        let folders = uuids.lines().map(|uuid| indices.join(uuid.trim()));
        let held: BTreeSet<usize> = folders.flat_map(|folder| held_words(&folder)).collect();
        held.into_iter().partition::<Vec<_>, _>(|n| is_erased(*n))
    };
    for attempt in 0.. {
        for request in ["_flush", "_forcemerge?only_expunge_deletes=true"] {
            let merged = agent.post(format!("{url}/{request}")).send("");
            merged.unwrap_or_else(|e| panic!("{request}: {e}"));
        }
        let (erased, kept) = held();
        assert!(!kept.is_empty(), "the files are not those of the indices");
        if erased.is_empty() {
            return;
        }
        assert!(attempt < 60, "the files have the erased words {erased:?}");
        std::thread::sleep(Duration::from_secs(5));
    }
}

/// The words that the files below a folder have in clear.
fn held_words(folder: &Path) -> HashSet<usize> {
    // A list of words leaves out what a word has in common with the word before it.
    const HIDDEN: usize = 4;
    let ends: Vec<String> = (0..word_count())
        .map(|number| word(number)[HIDDEN..].to_owned())
        .collect();
    let length = ends[0].len();
    let numbers: HashMap<&[u8], usize> = ends
        .iter()
        .enumerate()
        .map(|(number, end)| (end.as_bytes(), number))
        .collect();
    let (mut held, mut folders) = (HashSet::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        // The server deletes folders and files meanwhile.
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let bytes = std::fs::read(&path).unwrap_or_default();
            let found = bytes
                .windows(length)
                .filter_map(|part| numbers.get(part).copied());
            held.extend(found);
        }
    }
    held
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
