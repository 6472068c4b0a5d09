//! Redacted and erased contents leave the append-only file of Redis, or the receipt says that they remain.

use std::fs;
use std::path::{Path, PathBuf};

use filrouge_testbed::Redis;
use serde_json::{Value, json};

use crate::hot::{CANARY, turn_path, wait_for_copies, with_redis};
use crate::limits::until;
use crate::redis::{record_three_turns, redact};
use crate::world::World;

const REMAINS: &str =
    "in the append-only file of Redis, until its next rewrite: docs/two-scopes.md";

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| match entry.path() {
            path if path.is_dir() => files_below(&path),
            path => vec![path],
        })
        .collect()
}

/// Whether a file of Redis contains the canary.
fn is_in_files(redis: &Redis) -> bool {
    let folder = redis.cli(&["CONFIG", "GET", "dir"]);
    let folder = Path::new(folder.trim_end().lines().last().unwrap());
    let files = files_below(folder);
    assert!(!files.is_empty(), "{folder:?}");
    // A file may be removed meanwhile.
    let mut contents = files.iter().map(|file| fs::read(file).unwrap_or_default());
    contents.any(|bytes| bytes.windows(CANARY.len()).any(|w| w == CANARY.as_bytes()))
}

/// The hot store's part of a receipt.
fn hot_receipt(receipt: &Value) -> &Value {
    let mut stores = receipt["stores"].as_array().unwrap().iter();
    stores.find(|store| store["store"] == "hot").unwrap()
}

#[test]
fn erased_contents_leave_the_append_only_file() {
    let world = World::new();
    let redis = Redis::with_settings(&[("appendonly", "yes")]);
    let server = with_redis(&world, &redis, &[]);
    let ada = server.client().for_identity("ada");
    let turns = record_three_turns(&ada, "s");
    wait_for_copies(&ada);
    until("the file is written", || is_in_files(&redis));
    redact(&ada, "s", &turns[1]);
    until("the file is rewritten", || !is_in_files(&redis));

    // Less than a minute later.
    let client = server.client();
    record_three_turns(&client, "v");
    until("the file is written", || is_in_files(&redis));
    let receipt = client.delete("/v").is(200);
    let remaining = json!({ "store": "hot", "status": "erased", "remains": REMAINS });
    assert_eq!(*hot_receipt(&receipt), remaining);
    assert!(is_in_files(&redis));
    server.stop();

    let server = with_redis(&world, &redis, &[]);
    let client = server.client();
    record_three_turns(&client, "w");
    let receipt = client.delete("/w").is(200);
    let erased = json!({ "store": "hot", "status": "erased" });
    assert_eq!(*hot_receipt(&receipt), erased);
    until("the file is rewritten", || !is_in_files(&redis));
    server.stop();
    world.verify();
}

#[test]
fn without_permission_the_receipt_says_what_remains() {
    let world = World::new();
    let redis = Redis::with_settings(&[("appendonly", "yes")]);
    redis.cli(&[
        "ACL",
        "SETUSER",
        "app",
        "on",
        ">pw",
        "~*",
        "&*",
        "+@all",
        "-bgrewriteaof",
    ]);
    let url = redis.url().replace("redis://", "redis://app:pw@");
    let server = with_redis(&world, &redis, &[("FILROUGE_HOT", &url)]);
    let ada = server.client().for_identity("ada");
    let turns = record_three_turns(&ada, "s");
    wait_for_copies(&ada);
    until("the file is written", || is_in_files(&redis));
    let turn = turn_path("s", &turns[1]);
    let turn = turn.rsplit('/').next().unwrap();
    let receipt = world.json(&[
        "--hot", &url, "redact", "s", "--turn", turn, "--reason", "x",
    ]);
    assert_eq!(hot_receipt(&receipt)["remains"], REMAINS);
    let text = world.ok(&["--hot", &url, "erase", "--session", "s", "--yes"]);
    let expected = format!("hot store: erased; bytes may remain {REMAINS}");
    assert!(text.contains(&expected), "{text}");
    assert!(is_in_files(&redis));
    redis.cli(&["BGREWRITEAOF"]);
    until("the file is rewritten", || !is_in_files(&redis));
    server.stop();
    world.verify();
}
