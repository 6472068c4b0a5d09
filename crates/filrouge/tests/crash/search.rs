//! SIGKILL at random moments while turns are written, searched and redacted. After the restart, a search finds the same
//! as a scan of all items, and no file contains a redacted word.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

use crate::http::CrashClient;
use crate::server::{CrashServer, Home};
use crate::{Seed, env_number};

const SESSIONS: usize = 6;
/// The number of concurrent clients; each of them writes, redacts and searches.
const CLIENTS: u64 = 4;
/// The number of words that are searched for after each kill, in addition to the redacted ones.
const SAMPLE: usize = 24;

/// An acknowledged turn, and a word that occurs only in it.
#[derive(Debug, Clone)]
struct AckedTurn {
    session: String,
    turn: String,
    word: String,
}

/// What the clients know about the store.
#[derive(Default)]
struct Knowledge {
    acked: Mutex<Vec<AckedTurn>>,
    /// Words of turns whose redaction was acknowledged.
    redacted: Mutex<BTreeSet<String>>,
}

/// The number of letters of a word before its last letter, which is `z`; no other letter is a `z`.
const LETTERS: usize = 14;

/// Follows a word, so that turns have different lengths. Searches use its words, too.
const FILLER: &str = "with what else was said ";

/// Generates a word that no other word contains.
fn word(rng: &mut StdRng) -> String {
    let letters = (0..LETTERS).map(|_| char::from(rng.random_range(b'a'..=b'y')));
    letters.chain(['z']).collect()
}

impl Knowledge {
    /// Writes, redacts and searches until the server does not answer.
    fn run_client(&self, origin: &str, mut rng: StdRng, ending: &AtomicBool) {
        let client = CrashClient::new(origin);
        let mut answered = true;
        while answered && !ending.load(Ordering::SeqCst) {
            answered = match rng.random_range(0..10) {
                0 | 1 => self.redact(&client, &mut rng),
                2 => self.search(&client, &mut rng),
                _ => self.write(&client, &mut rng),
            };
        }
    }

    /// Writes a turn; returns whether the server answered.
    fn write(&self, client: &CrashClient, rng: &mut StdRng) -> bool {
        let (word, session) = (word(rng), format!("s{}", rng.random_range(0..SESSIONS)));
        let long = format!("{word} {}", FILLER.repeat(rng.random_range(0..60)));
        let request = format!("r{:x}", rng.random::<u64>());
        let body = json!({ "request_id": request, "question_neutral": format!("{word}?"), "answer_neutral": long });
        let Ok(response) = client.post(&format!("/api/v1/sessions/{session}/turns"), &body) else {
            return false;
        };
        assert!(response.is_success(), "{response:?}");
        let turn = response.body["turn_id"]
            .as_str()
            .expect("the response names the turn")
            .to_owned();
        let acked = AckedTurn {
            session,
            turn,
            word,
        };
        self.acked.lock().expect("no thread panicked").push(acked);
        true
    }

    /// Redacts a turn; returns whether the server answered.
    fn redact(&self, client: &CrashClient, rng: &mut StdRng) -> bool {
        let Some(acked) = self
            .acked
            .lock()
            .expect("no thread panicked")
            .choose(rng)
            .cloned()
        else {
            return true;
        };
        let path = format!(
            "/api/v1/sessions/{}/turns/{}/redact",
            acked.session, acked.turn
        );
        let Ok(response) = client.post(&path, &json!({ "reason": "requested" })) else {
            return false;
        };
        assert!(response.is_success(), "{response:?}");
        self.redacted
            .lock()
            .expect("no thread panicked")
            .insert(acked.word.clone());
        // After this response, no search finds the word.
        match client.try_get(&format!("/api/v1/search?q={}", acked.word)) {
            Ok(response) => {
                assert_eq!(response.status, 200, "{response:?}");
                assert_eq!(
                    response.body["total_sessions"], 0,
                    "{}: {response:?}",
                    acked.word
                );
                true
            }
            Err(_) => false,
        }
    }

    /// Searches for a word; returns whether the server answered.
    fn search(&self, client: &CrashClient, rng: &mut StdRng) -> bool {
        let word = self
            .acked
            .lock()
            .expect("no thread panicked")
            .choose(rng)
            .cloned();
        let word = word.map_or_else(|| "said".to_owned(), |acked| acked.word);
        match client.try_get(&format!("/api/v1/search?q={word}")) {
            Ok(response) => {
                assert_eq!(response.status, 200, "{response:?}");
                true
            }
            Err(_) => false,
        }
    }

    /// Compares the results of searches with a scan of all items.
    fn check(&self, origin: &str, rng: &mut StdRng) {
        let client = CrashClient::new(origin);
        let items = all_texts(&client);
        let acked = self.acked.lock().expect("no thread panicked").clone();
        let redacted = self.redacted.lock().expect("no thread panicked").clone();
        let sample: Vec<&AckedTurn> = acked.choose_multiple(rng, SAMPLE).collect();
        let words = sample.iter().map(|acked| acked.word.as_str());
        for word in words.chain(redacted.iter().map(String::as_str)) {
            let holding = items
                .iter()
                .filter(|(_, texts)| texts.iter().any(|t| t.contains(word)));
            let holding: BTreeSet<&str> = holding.map(|(session, _)| session.as_str()).collect();
            assert!(
                !redacted.contains(word) || holding.is_empty(),
                "{word} was redacted, but is shown in {holding:?}"
            );
            assert_eq!(
                found_sessions(&client, word),
                holding.iter().map(|s| (*s).to_owned()).collect(),
                "{word}"
            );
        }
        let has_filler = |texts: &Vec<String>| texts.iter().any(|text| text.contains("what else"));
        let holding = items.iter().filter(|(_, texts)| has_filler(texts)).count();
        assert_eq!(found_sessions(&client, "%22what%20else%22").len(), holding);
    }
}

/// Reads the parts of all items, by session.
fn all_texts(client: &CrashClient) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    for n in 0..SESSIONS {
        let session = format!("s{n}");
        let (mut texts, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/api/v1/sessions/{session}/items?limit=500{cursor}");
            let Ok(response) = client.try_get(&path) else {
                panic!("{path}: no response");
            };
            // No write has created this session yet.
            if response.status == 404 {
                break;
            }
            assert_eq!(response.status, 200, "{response:?}");
            let items = response.body["data"].as_array().expect("items").clone();
            texts.extend(items.iter().map(|item| item["parts"].to_string()));
            match &response.body["next_cursor"] {
                Value::Null => break,
                next => cursor = format!("&cursor={}", next.as_str().expect("a cursor")),
            }
        }
        all.insert(session, texts);
    }
    all
}

/// Returns the ids of the sessions that a search finds.
fn found_sessions(client: &CrashClient, query: &str) -> BTreeSet<String> {
    let page = client.get(&format!("/api/v1/search?q={query}&limit=500"));
    let rows = page["data"].as_array().expect("sessions").iter();
    let ids = rows.map(|row| row["session_id"].as_str().expect("an id").to_owned());
    ids.collect()
}

/// Checks that no file contains these words, plain or compressed.
fn assert_absent(home: &Home, words: &BTreeSet<String>) {
    let folder = home.root().join("data/filrouge");
    for entry in fs::read_dir(folder).expect("the store's folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            continue;
        }
        let bytes = fs::read(&path).expect("a file");
        let mut texts = vec![bytes.clone()];
        let zstd_magic = [0x28, 0xB5, 0x2F, 0xFD];
        for (at, _) in bytes
            .windows(4)
            .enumerate()
            .filter(|(_, w)| *w == zstd_magic)
        {
            let mut text = Vec::new();
            if let Ok(frames) = zstd::stream::read::Decoder::new(&bytes[at..]) {
                let _ = std::io::Read::read_to_end(&mut frames.single_frame(), &mut text);
            }
            texts.push(text);
        }
        // All words have the same length and end with `z`.
        for text in &texts {
            for (at, _) in text.iter().enumerate().filter(|(_, b)| **b == b'z') {
                let word = at
                    .checked_sub(LETTERS)
                    .and_then(|start| text.get(start..=at));
                let word = word.and_then(|word| std::str::from_utf8(word).ok());
                let redacted = word.filter(|word| words.contains(*word));
                assert_eq!(redacted, None, "in {}", path.display());
            }
        }
    }
}

#[test]
fn searches_survive_kills_and_redacted_words_do_not() {
    let seed = Seed::new("searches_survive_kills_and_redacted_words_do_not");
    let mut rng = seed.rng(0);
    let rounds = env_number("FILROUGE_CRASH_SEARCH_ROUNDS", 4);
    let (home, known) = (Home::new(), Knowledge::default());
    for round in 1..=rounds {
        let mut server = CrashServer::start(&home);
        known.check(server.origin(), &mut rng);
        let (ending, origin) = (AtomicBool::new(false), server.origin().to_owned());
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let rng = seed.rng(round * CLIENTS + client + 1);
                scope.spawn(|| known.run_client(&origin, rng, &ending));
            }
            std::thread::sleep(Duration::from_millis(rng.random_range(100..700)));
            server.kill();
            ending.store(true, Ordering::SeqCst);
        });
        // The files are as the kill left them.
        assert_absent(&home, &known.redacted.lock().expect("no thread panicked"));
    }
    let server = CrashServer::start(&home);
    known.check(server.origin(), &mut rng);
    server.stop();
    assert_absent(&home, &known.redacted.lock().expect("no thread panicked"));
    home.verify();
    let acked = known.acked.lock().expect("no thread panicked").len();
    let redacted = known.redacted.lock().expect("no thread panicked").len();
    eprintln!("{rounds} kills, {acked} turns, {redacted} redactions");
    assert!(
        redacted > 0 && acked > redacted,
        "too few redactions or turns"
    );
}
