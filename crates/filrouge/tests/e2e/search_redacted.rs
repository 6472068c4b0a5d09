//! Once a redaction or an erasure is answered, searches do not find the text, and no file contains it.

use serde_json::{Value, json};

use crate::http::Client;
use crate::search_http::{found, send_search, turn};
use crate::world::{Server, World};

/// The first bytes of a zstd frame.
const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

fn contains(bytes: &[u8], word: &str) -> bool {
    bytes.windows(word.len()).any(|w| w == word.as_bytes())
}

/// The contents of all zstd frames in these bytes; of an incomplete frame, its readable part.
fn decompressed(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let frames = bytes.windows(4).enumerate().filter(|(_, w)| *w == MAGIC);
    frames.filter_map(|(at, _)| {
        let reader = zstd::stream::read::Decoder::new(&bytes[at..]);
        let mut text = Vec::new();
        let _ = std::io::Read::read_to_end(&mut reader.ok()?.single_frame(), &mut text);
        Some(text)
    })
}

/// Decodes `\ooo`, the form in which PostgreSQL prints unprintable bytes of a row.
fn unescaped(bytes: &[u8]) -> Vec<u8> {
    let (mut plain, mut rest) = (Vec::new(), bytes);
    while let Some((first, following)) = rest.split_first() {
        let octal = following.get(..3).filter(|_| *first == b'\\');
        let octal = octal.and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                rest = &following[3..];
            }
            None => {
                plain.push(*first);
                rest = following;
            }
        }
    }
    plain
}

/// The names of the files and tables that contain a word: plain, escaped or compressed.
fn places_containing(world: &World, word: &str) -> Vec<String> {
    let has_word = |bytes: &[u8]| {
        let plain = unescaped(bytes);
        [bytes, &plain[..]]
            .iter()
            .any(|b| contains(b, word) || decompressed(b).any(|text| contains(&text, word)))
    };
    let stored = world.stored_data().into_iter();
    let places = stored.filter(|(_, bytes)| has_word(bytes));
    places.map(|(name, _)| name).collect()
}

/// Whether the search index contains a word.
fn is_indexed(world: &World, word: &str) -> bool {
    let places = places_containing(world, word);
    places
        .iter()
        .any(|name| name.contains(".index") || name.starts_with("search_"))
}

#[track_caller]
fn assert_not_stored(world: &World, word: &str) {
    assert_eq!(
        places_containing(world, word),
        Vec::<String>::new(),
        "{word}"
    );
}

/// Checks that a search for a word finds exactly these sessions.
#[track_caller]
fn assert_found(client: &Client, word: &str, sessions: &[&str]) {
    let page = send_search(client, &[("q", word)]).is(200);
    assert_eq!(page["total_sessions"], sessions.len(), "{word}: {page}");
    let mut ids = found(client, &[("q", word)]);
    ids.sort();
    assert_eq!(ids, sessions, "{word}");
}

/// Records a session with a turn for each word, and waits until they are indexed.
fn record_session(world: &World, client: &Client, session: &str, words: &[&str]) -> Vec<Value> {
    let turns = words.iter().enumerate().map(|(n, word)| {
        // Long enough to be compressed.
        let answer = format!("{word} {}", "and what else was said ".repeat(40));
        turn(
            client,
            session,
            &format!("r{n}"),
            (&format!("{word}?"), &answer),
        )
    });
    let turns = turns.collect();
    for word in words {
        assert_found(client, word, &[session]);
        assert!(is_indexed(world, word), "{word} is not in the index");
    }
    turns
}

pub(crate) fn redact(client: &Client, session: &str, turn: &Value) {
    let path = format!(
        "/{session}/turns/{}/redact",
        turn["turn_id"].as_str().unwrap()
    );
    client
        .post(&path, &json!({ "reason": "requested by the user" }))
        .wrote(200);
}

#[test]
fn text_redacted_over_http_is_not_found() {
    let world = World::new();
    let server = world.serve();
    let ada = server.client().for_identity("ada");
    let turns = record_session(&world, &ada, "s", &["kingfisher", "xylophone", "marmalade"]);
    record_session(&world, &ada, "t", &["nightingale"]);
    redact(&ada, "s", &turns[1]);
    assert_not_stored(&world, "xylophone");
    assert_found(&ada, "xylophone", &[]);
    for kept in ["kingfisher", "marmalade"] {
        assert_found(&ada, kept, &["s"]);
    }
    assert_not_stored(&world, "xylophone");
    ada.delete("/s").is(200);
    for word in ["kingfisher", "marmalade"] {
        assert_not_stored(&world, word);
        assert_found(&ada, word, &[]);
    }
    assert_found(&ada, "nightingale", &["t"]);
    // An erased title is not found either.
    let title = json!({ "title": "periwinkle" });
    ada.patch("/t", &title).wrote(200);
    assert_found(&ada, "periwinkle", &["t"]);
    ada.delete("/t").is(200);
    assert_not_stored(&world, "periwinkle");
    assert_not_stored(&world, "nightingale");
    server.stop();
    assert_not_stored(&world, "nightingale");
    world.verify();
}

#[test]
fn text_redacted_on_the_command_line_is_not_found() {
    let world = World::new();
    for server_runs in [true, false] {
        let server = world.serve();
        let client = server.client();
        let (one, two) = (format!("one-{server_runs}"), format!("two-{server_runs}"));
        let words = [
            format!("kingfisher{server_runs}"),
            format!("marmalade{server_runs}"),
        ];
        let turns = record_session(&world, &client, &one, &[&words[0], &words[1]]);
        let erased = format!("nightingale{server_runs}");
        record_session(&world, &client, &two, &[&erased]);
        let running: Option<Server> = match server_runs {
            true => Some(server),
            false => {
                server.stop();
                None
            }
        };
        let id = turns[0]["turn_id"].as_str().unwrap();
        world.ok(&["redact", &one, "--turn", id, "--reason", "x"]);
        assert_not_stored(&world, &words[0]);
        world.ok(&["erase", "--session", &two, "--yes"]);
        assert_not_stored(&world, &erased);
        for (word, count) in [(&words[0], 0), (&words[1], 1), (&erased, 0)] {
            let found = world.json(&["search", word, "--source", "ledger"]);
            assert_eq!(found["total_sessions"], count, "{word}: {found}");
        }
        let server = running.unwrap_or_else(|| world.serve());
        let client = server.client();
        assert_found(&client, &words[0], &[]);
        assert_found(&client, &erased, &[]);
        assert_found(&client, &words[1], &[&one]);
        assert_not_stored(&world, &words[0]);
        assert_not_stored(&world, &erased);
        server.stop();
    }
    world.verify();
}

/// The server gets SIGKILL right after its response to a redaction (rounds 0 and 1) or an erasure.
#[test]
fn a_server_killed_after_the_response_leaves_no_text() {
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
        assert_not_stored(&world, &words[0]);
        let server = world.serve();
        let client = server.client();
        assert_found(&client, &words[0], &[]);
        match round {
            0 | 1 => assert_found(&client, &words[1], &[&session]),
            _ => assert_found(&client, &words[1], &[]),
        }
        assert_not_stored(&world, &words[0]);
        server.stop();
    }
    world.verify();
}
