//! Redacted or erased text is not found once the request is answered, and no file contains it.

use serde_json::{Value, json};

use crate::http::Client;
use crate::search_http::{ask, found, turn};
use crate::world::{Server, World};

/// The first bytes of a zstd frame.
const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

fn holds(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|w| w == word.as_bytes())
}

/// The decompressed frames among these bytes; of a torn frame the readable part.
fn unpacked(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let frames = bytes.windows(4).enumerate().filter(|(_, w)| *w == MAGIC);
    frames.filter_map(|(at, _)| {
        let reader = zstd::stream::read::Decoder::new(&bytes[at..]);
        let mut text = Vec::new();
        let _ = std::io::Read::read_to_end(&mut reader.ok()?.single_frame(), &mut text);
        Some(text)
    })
}

/// PostgreSQL prints the bytes of a row as `\ooo`.
fn unescaped(bytes: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest) = (Vec::new(), bytes);
    while let Some((first, behind)) = rest.split_first() {
        let octal = behind.get(..3).filter(|_| *first == b'\\');
        let octal = octal.and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                rest = &behind[3..];
            }
            None => {
                plain.push(*first);
                rest = behind;
            }
        }
    }
    plain
}

/// The pieces of the store that contain a word: plain, in another case, or compressed.
fn reporting(world: &World, word: &str) -> Vec<String> {
    let reports = |bytes: &[u8]| {
        let plain = unescaped(bytes);
        [bytes, &plain[..]]
            .iter()
            .any(|b| holds(b, word) || unpacked(b).any(|text| holds(&text, word)))
    };
    let stored = world.stored().into_iter();
    let reported = stored.filter(|(_, bytes)| reports(bytes));
    reported.map(|(name, _)| name).collect()
}

/// Whether the search index contains a word.
fn indexed(world: &World, word: &str) -> bool {
    let reported = reporting(world, word);
    reported
        .iter()
        .any(|name| name.contains(".index") || name.starts_with("search_"))
}

#[track_caller]
fn gone(world: &World, word: &str) {
    assert_eq!(reporting(world, word), Vec::<String>::new(), "{word}");
}

#[track_caller]
fn finds(client: &Client, word: &str, sessions: &[&str]) {
    let page = ask(client, &[("q", word)]).is(200);
    assert_eq!(page["total_sessions"], sessions.len(), "{word}: {page}");
    let mut ids = found(client, &[("q", word)]);
    ids.sort();
    assert_eq!(ids, sessions, "{word}");
}

/// Records a session with a turn for each word, and waits until they are indexed.
fn record_session(world: &World, client: &Client, session: &str, words: &[&str]) -> Vec<Value> {
    let turns = words.iter().enumerate().map(|(n, word)| {
        let long = format!("{word} {}", "and what else was said ".repeat(40));
        turn(
            client,
            session,
            &format!("r{n}"),
            (&format!("{word}?"), &long),
        )
    });
    let turns = turns.collect();
    for word in words {
        finds(client, word, &[session]);
        assert!(indexed(world, word), "{word} is in the index");
    }
    turns
}

fn redact(client: &Client, session: &str, turn: &Value) {
    let path = format!(
        "/{session}/turns/{}/redact",
        turn["turn_id"].as_str().unwrap()
    );
    client
        .post(&path, &json!({ "reason": "asked to" }))
        .wrote(200);
}

#[test]
fn text_redacted_over_http_is_not_found() {
    let world = World::new();
    let server = world.serve();
    let ada = server.client().of("ada");
    let turns = record_session(&world, &ada, "s", &["kingfisher", "xylophone", "marmalade"]);
    record_session(&world, &ada, "t", &["nightingale"]);
    redact(&ada, "s", &turns[1]);
    gone(&world, "xylophone");
    finds(&ada, "xylophone", &[]);
    for kept in ["kingfisher", "marmalade"] {
        finds(&ada, kept, &["s"]);
    }
    gone(&world, "xylophone");
    ada.delete("/s").is(200);
    for word in ["kingfisher", "marmalade"] {
        gone(&world, word);
        finds(&ada, word, &[]);
    }
    finds(&ada, "nightingale", &["t"]);
    // The same for a title.
    let title = json!({ "title": "periwinkle" });
    ada.patch("/t", &title).wrote(200);
    finds(&ada, "periwinkle", &["t"]);
    ada.delete("/t").is(200);
    gone(&world, "periwinkle");
    gone(&world, "nightingale");
    server.stop();
    gone(&world, "nightingale");
    world.verify();
}

#[test]
fn text_redacted_on_the_command_line_is_not_found() {
    let world = World::new();
    for runs in [true, false] {
        let server = world.serve();
        let client = server.client();
        let (one, two) = (format!("one-{runs}"), format!("two-{runs}"));
        let words = [format!("kingfisher{runs}"), format!("marmalade{runs}")];
        let turns = record_session(&world, &client, &one, &[&words[0], &words[1]]);
        let erased = format!("nightingale{runs}");
        record_session(&world, &client, &two, &[&erased]);
        let running: Option<Server> = match runs {
            true => Some(server),
            false => {
                server.stop();
                None
            }
        };
        let id = turns[0]["turn_id"].as_str().unwrap();
        world.ok(&["redact", &one, "--turn", id, "--reason", "x"]);
        gone(&world, &words[0]);
        world.ok(&["erase", "--session", &two, "--yes"]);
        gone(&world, &erased);
        for (word, count) in [(&words[0], 0), (&words[1], 1), (&erased, 0)] {
            let found = world.json(&["search", word, "--source", "ledger"]);
            assert_eq!(found["totalSessions"], count, "{word}: {found}");
        }
        let server = running.unwrap_or_else(|| world.serve());
        let client = server.client();
        finds(&client, &words[0], &[]);
        finds(&client, &erased, &[]);
        finds(&client, &words[1], &[&one]);
        gone(&world, &words[0]);
        gone(&world, &erased);
        server.stop();
    }
    world.verify();
}

/// The process gets SIGKILL right after the answer.
#[test]
fn a_process_killed_after_the_answer_leaves_nothing() {
    let world = World::new();
    for round in 0..3 {
        let mut server = world.serve();
        let client = server.client();
        let session = format!("s{round}");
        let words = [format!("kingfisher{round}"), format!("marmalade{round}")];
        let turns = record_session(&world, &client, &session, &[&words[0], &words[1]]);
        match round {
            0 | 1 => redact(&client, &session, &turns[0]),
            _ => drop(client.delete(&format!("/{session}")).is(200)),
        }
        server.kill();
        gone(&world, &words[0]);
        let server = world.serve();
        let client = server.client();
        finds(&client, &words[0], &[]);
        match round {
            0 | 1 => finds(&client, &words[1], &[&session]),
            _ => finds(&client, &words[1], &[]),
        }
        gone(&world, &words[0]);
        server.stop();
    }
    world.verify();
}
