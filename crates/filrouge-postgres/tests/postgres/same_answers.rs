//! The backends in memory, SQLite and PostgreSQL return the same answers, byte for byte, for unusual data.

use std::sync::Arc;

use filrouge_sqlite::SqliteLedger;
use filrouge_store::command::{NewEvent, NewSession, Scope, SessionFilter, SessionPatch, Write};
use filrouge_store::contract::fixture::{
    Fixture, answer, append, body, close, cmd, operator, rid, sid, start_with,
};
use filrouge_store::contract::session_writes::{close_session, event, json, patch, put_note};
use filrouge_store::contract::{CountingEntropy, differential};
use filrouge_store::read::{ChangeId, SessionChange, TurnOrder, TurnQuery};
use filrouge_store::{Keyring, Lane};
use filrouge_types::{
    Channel, FixedClock, ItemBody, ItemId, JsonText, RawJson, Role, SessionStatus,
};

use super::{START_TIME, fresh, keyring};

mod ids;
mod leases;

fn block_on(work: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(work);
}

/// A ledger in memory and one on SQLite, both of one lane, and one on PostgreSQL of several lanes.
struct Backends([Fixture; 3]);

fn sqlite(keyring: Arc<Keyring>) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FixedClock::at(START_TIME));
    let entropy = Arc::new(CountingEntropy::default());
    let path = folder.path().join("f.db");
    let options = filrouge_sqlite::Options::new(path, keyring.clone(), entropy, clock.clone());
    Fixture {
        ledger: Arc::new(SqliteLedger::open(options).unwrap()),
        clock,
        keyring,
        keep: Box::new(folder),
    }
}

impl Backends {
    fn new() -> Self {
        let keyring = keyring();
        Self([
            differential::memory(keyring.clone()),
            sqlite(keyring.clone()),
            fresh(keyring),
        ])
    }

    /// Executes a write on all backends, and asserts that the outcomes are equal.
    async fn write(&self, who: &Scope, write: Write) {
        let command = cmd(who, write);
        let mut answers = Vec::new();
        for f in &self.0 {
            answers.push(format!("{:?}", f.ledger.put(command.clone()).await));
            f.clock.advance(11);
        }
        assert!(answers[0].starts_with("Ok"), "{}", truncated(&answers[0]));
        assert_same(&answers, "a write");
    }

    /// Runs a query on all backends, and asserts that the answers are equal.
    async fn compare<T: std::fmt::Debug>(&self, what: &str, query: impl AsyncFn(&Fixture) -> T) {
        let mut answers = Vec::new();
        for f in &self.0 {
            answers.push(format!("{:?}", query(f).await));
        }
        assert_same(&answers, what);
    }

    /// Compares all that can be read of the sessions.
    async fn compare_reads(&self, who: &Scope, sessions: &[String]) {
        self.compare("position", commit_count).await;
        for s in sessions {
            let id = sid(s);
            self.compare(s, async |f| f.session(who, s).await).await;
            self.compare(s, async |f| {
                serialized(&f.ledger.items(who, &id, 0, 500).await.unwrap())
            })
            .await;
            self.compare(s, async |f| f.ledger.events(who, &id, 0, 99).await)
                .await;
            for order in [TurnOrder::Oldest, TurnOrder::Newest] {
                self.compare(s, async |f| {
                    let query = TurnQuery {
                        status: None,
                        include_redacted: true,
                        order,
                        cursor: None,
                        limit: 50,
                    };
                    serialized(&f.ledger.turns(who, &id, query).await.unwrap())
                })
                .await;
            }
        }
        self.compare("feed", async |f| without_positions(f.feed(who, 7).await))
            .await;
        self.compare_lists(who, SessionFilter::default()).await;
        self.compare("verify", async |f| f.ledger.verify(None).await)
            .await;
        self.0[2].assert_intact().await;
    }

    /// Compares the lists of sessions, read in pages of 3.
    async fn compare_lists(&self, who: &Scope, filter: SessionFilter) {
        self.compare(&format!("{filter:?}"), async |f| {
            let (mut all, mut cursor) = (Vec::new(), None);
            loop {
                let page = f
                    .ledger
                    .sessions(who, filter.clone(), cursor, 3)
                    .await
                    .unwrap();
                all.push(serialized(&page.0));
                cursor = page.1;
                if cursor.is_none() {
                    return all;
                }
            }
        })
        .await;
    }

    async fn close(self) {
        for f in self.0 {
            f.ledger.close().await;
        }
    }
}

async fn commit_count(f: &Fixture) -> u64 {
    f.ledger.position().commit_count()
}

/// The changes without their cursors and lanes, which depend on the number of lanes. Each has another time, which orders
/// them.
fn without_positions(changes: Vec<SessionChange>) -> Vec<SessionChange> {
    let change = |change: SessionChange| SessionChange {
        cursor: String::new(),
        id: ChangeId {
            lane: Lane::FIRST,
            commit_no: 0,
            index: 0,
        },
        ..change
    };
    changes.into_iter().map(change).collect()
}

fn serialized(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

fn truncated(text: &str) -> &str {
    text.get(..2000).unwrap_or(text)
}

fn assert_same(answers: &[String], what: &str) {
    for (other, name) in answers[1..].iter().zip(["SQLite", "PostgreSQL"]) {
        let (memory, other) = (truncated(&answers[0]), truncated(other));
        assert_eq!(memory, other, "{what}: {name}");
    }
    assert!(answers.iter().all(|t| *t == answers[0]), "{what}");
}

/// Texts that databases tend to change.
const TEXTS: [&str; 14] = [
    "",
    "\0",
    "a\0b\0",
    "\\",
    "\\000\\x41",
    "100%_[a-z]*",
    "'; DROP TABLE x; --",
    "É\u{e9}\u{301}ß",
    "\u{feff}\u{202e}\u{fffd}",
    "\u{10ffff}🧵",
    "Zebra",
    "zebra",
    "ÅNGSTRÖM",
    "line\r\n\ttab\u{7f}",
];

/// JSON that databases tend to change, as it appears in requests.
const JSON: [&str; 8] = [
    r#"{"\u0000":"\u0000","a":"\ud800","b":"\udc00\ud800"}"#,
    r#"{"n":1e999999999,"m":-0,"k":123456789012345678901234567890.10,"z":1E-400}"#,
    r#"{"n":9007199254740993,"n":1.0,"n":1}"#,
    "{ \"s\" :\t[ 1 ,\n 2 ] }",
    r#"{"":"","\\":"\/"}"#,
    r#"{"é":"\u00e9","e\u0301":"🧵\ud83e\uddf5"}"#,
    r#"{"a":[[],{},[{}],null,true,""]}"#,
    "{}",
];

#[test]
fn unusual_sessions_are_the_same_in_every_backend() {
    block_on(async {
        let backends = Backends::new();
        let (who, mut ids) = (operator("t"), Vec::new());
        for (n, text) in TEXTS.iter().enumerate() {
            let id = format!("s{n}");
            let session = NewSession {
                title: (n != 3).then(|| (*text).into()),
                metadata: json(JSON[n % JSON.len()]),
                ..NewSession::with_id(sid(&id))
            };
            backends.write(&who, Write::CreateSession(session)).await;
            let change = SessionPatch {
                state: Some(Some((*text).into())),
                metadata: Some(Some(json(r#"{"added":"\u0000"}"#))),
                ..SessionPatch::default()
            };
            backends.write(&who, patch(&id, change)).await;
            if n % 3 == 0 {
                backends.write(&who, close_session(&id, Some(text))).await;
            }
            let new_event = NewEvent {
                kind: "k".into(),
                detail: Some(json(JSON[n % JSON.len()])),
                ..event(&id, &format!("key {n}"), "k")
            };
            backends
                .write(&who, Write::RecordEvent(Box::new(new_event)))
                .await;
            backends
                .write(&who, put_note(&format!("note {n}"), 0, text.as_bytes()))
                .await;
            ids.push(id);
        }
        backends.compare_reads(&who, &ids).await;
        let more_titles = [
            "zEbRa", "b", "É", "é", "å", "_", "%", "\\0", "00", "ß", "\u{301}", "x", "\u{202e}",
            "\n",
        ];
        for title in TEXTS.iter().chain(&more_titles) {
            let filter = SessionFilter {
                title: Some((*title).into()),
                ..SessionFilter::default()
            };
            backends.compare_lists(&who, filter).await;
        }
        let closed = SessionFilter {
            status: Some(SessionStatus::Closed),
            ..SessionFilter::default()
        };
        backends.compare_lists(&who, closed).await;
        for n in 0..TEXTS.len() {
            backends
                .compare("note", async |f| {
                    f.ledger
                        .note(&format!("note {n}"))
                        .await
                        .unwrap()
                        .unwrap()
                        .value
                })
                .await;
        }
        backends.close().await;
    });
}

#[test]
fn unusual_items_are_the_same_in_every_backend() {
    block_on(async {
        let backends = Backends::new();
        let who = operator("t");
        for (n, text) in TEXTS.iter().enumerate() {
            let token = JsonText::from_plain(text);
            let request = format!("r{n}");
            let start = start_with(&who, "s", &request, "q", None, |event, items| {
                event.metadata = Some(json(JSON[n % JSON.len()]));
                event.application.pipeline_name = Some((*text).into());
                items[0].agent = Some((*text).into());
            });
            backends.write(&who, Write::Start(Arc::new(start))).await;
            let id = backends.0[0]
                .keyring
                .turn_id(&who.tenant, &sid("s"), &rid(&request));
            let items = JSON.iter().enumerate().map(|(k, json_text)| ItemBody {
                item_id: ItemId::new(format!("ключ {n} {k} 🧵\u{feff}'\"\\")).ok(),
                parts: RawJson::parse(&format!("[ {json_text} ,{json_text}]")).unwrap(),
                agent: Some(TEXTS[(n + k) % TEXTS.len()].into()),
                model: Some((*text).into()),
                metadata: Some(json(json_text)),
                ..ItemBody::new(Role::Tool, Channel::from_word("my own"), json("[]"))
            });
            backends
                .write(&who, append("s", id, items.collect(), None))
                .await;
            let mut ending = close("s", id, answer(None), body("x"));
            ending.ending = filrouge_store::command::Ending::Finalize {
                neutral: Some(token.clone()),
                translated: Some(token),
                fallback: None,
            };
            backends.write(&who, Write::Close(Arc::new(ending))).await;
        }
        backends.compare_reads(&who, &["s".to_owned()]).await;
        for agent in TEXTS.iter().chain(&["s", "ZEBRA"]) {
            let filter = SessionFilter {
                agent: Some((*agent).into()),
                ..SessionFilter::default()
            };
            backends.compare_lists(&who, filter).await;
        }
        backends.close().await;
    });
}

/// Random text, which cannot be compressed.
fn noise(bytes: usize) -> String {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut text = String::with_capacity(bytes);
    while text.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(&format!("{state:016x}"));
    }
    text
}

#[test]
fn large_and_deep_items_are_the_same_in_every_backend() {
    block_on(async {
        let backends = Backends::new();
        let who = operator("t");
        let large = format!(r#"["{}"]"#, noise(16 << 20));
        let uniform = format!(r#"["{}"]"#, "e".repeat(16 << 20));
        let deep = format!("[{}1{}]", "[".repeat(120), "]".repeat(120));
        let digits = format!("[{}]", "9".repeat(100_000));
        for (n, parts) in [large, uniform, deep, digits].into_iter().enumerate() {
            let start = start_with(&who, "s", &format!("r{n}"), "q", None, |_, items| {
                items[0].parts = RawJson::parse(&parts).unwrap();
            });
            backends.write(&who, Write::Start(Arc::new(start))).await;
        }
        backends.compare("position", commit_count).await;
        for after in 0..4 {
            backends
                .compare("item", async |f| {
                    serialized(&f.ledger.items(&who, &sid("s"), after, 1).await.unwrap())
                })
                .await;
        }
        backends.0[2].assert_intact().await;
        backends.close().await;
    });
}
