//! Memory, SQLite and PostgreSQL give the same answers, byte for byte, whatever is written.

use std::sync::Arc;

use filrouge_sqlite::SqliteLedger;
use filrouge_store::Keyring;
use filrouge_store::command::{NewEvent, NewSession, Scope, SessionFilter, SessionPatch, Write};
use filrouge_store::contract::asks::{close_session, event, json, patch, put_note};
use filrouge_store::contract::fixture::{
    Fixture, answer, append, body, close, cmd, operator, rid, sid, start_with,
};
use filrouge_store::contract::{CountingEntropy, differential};
use filrouge_store::read::{TurnOrder, TurnQuery};
use filrouge_types::{
    Channel, FixedClock, ItemBody, ItemId, JsonText, RawJson, Role, SessionStatus,
};

use super::{NOON, fresh, keyring};

mod held;
mod ids;

fn block_on(work: impl Future<Output = ()>) {
    tokio::runtime::Runtime::new().unwrap().block_on(work);
}

/// A ledger in memory, one in a file, and one on a server.
struct Three([Fixture; 3]);

fn sqlite(keyring: Arc<Keyring>) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FixedClock::at(NOON));
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

impl Three {
    fn new() -> Self {
        let keyring = keyring();
        Self([
            differential::memory(keyring.clone()),
            sqlite(keyring.clone()),
            fresh(keyring),
        ])
    }

    /// Writes the same to all backends, and expects the same outcome.
    async fn write(&self, who: &Scope, write: Write) {
        let command = cmd(who, write);
        let mut reported = Vec::new();
        for f in &self.0 {
            reported.push(format!("{:?}", f.ledger.put(command.clone()).await));
            f.clock.advance(11);
        }
        assert!(reported[0].starts_with("Ok"), "{}", short(&reported[0]));
        same(&reported, "a write");
    }

    /// Runs the same query on all.
    async fn ask<T: std::fmt::Debug>(&self, what: &str, ask: impl AsyncFn(&Fixture) -> T) {
        let mut reported = Vec::new();
        for f in &self.0 {
            reported.push(format!("{:?}", ask(f).await));
        }
        same(&reported, what);
    }

    async fn read(&self, who: &Scope, sessions: &[String]) {
        self.ask("position", async |f| f.ledger.position()).await;
        for s in sessions {
            let id = sid(s);
            self.ask(s, async |f| f.session(who, s).await).await;
            self.ask(s, async |f| {
                serialized(&f.ledger.items(who, &id, 0, 500).await.unwrap())
            })
            .await;
            self.ask(s, async |f| f.ledger.events(who, &id, 0, 99).await)
                .await;
            for order in [TurnOrder::Oldest, TurnOrder::Newest] {
                self.ask(s, async |f| {
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
        self.ask("feed", async |f| f.feed(who, 7).await).await;
        self.list(who, SessionFilter::default()).await;
        self.ask("verify", async |f| f.ledger.verify(None).await)
            .await;
        self.0[2].intact().await;
    }

    /// Lists sessions in pages of 3.
    async fn list(&self, who: &Scope, filter: SessionFilter) {
        self.ask(&format!("{filter:?}"), async |f| {
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

fn serialized(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

fn short(text: &str) -> &str {
    text.get(..2000).unwrap_or(text)
}

fn same(reported: &[String], what: &str) {
    for (other, name) in reported[1..].iter().zip(["SQLite", "PostgreSQL"]) {
        let (memory, other) = (short(&reported[0]), short(other));
        assert_eq!(memory, other, "{what}: {name}");
    }
    assert!(reported.iter().all(|t| *t == reported[0]), "{what}");
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

/// The same for JSON, as it appears in requests.
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
fn strange_sessions_are_the_same_everywhere() {
    block_on(async {
        let three = Three::new();
        let (who, mut ids) = (operator("t"), Vec::new());
        for (n, text) in TEXTS.iter().enumerate() {
            let id = format!("s{n}");
            let made = NewSession {
                title: (n != 3).then(|| (*text).into()),
                metadata: json(JSON[n % JSON.len()]),
                ..NewSession::bare(sid(&id))
            };
            three.write(&who, Write::CreateSession(made)).await;
            let change = SessionPatch {
                state: Some(Some((*text).into())),
                metadata: Some(Some(json(r#"{"added":"\u0000"}"#))),
                ..SessionPatch::default()
            };
            three.write(&who, patch(&id, change)).await;
            if n % 3 == 0 {
                three.write(&who, close_session(&id, Some(text))).await;
            }
            let recorded = NewEvent {
                kind: "k".into(),
                detail: Some(json(JSON[n % JSON.len()])),
                ..event(&id, &format!("key {n}"), "k")
            };
            three
                .write(&who, Write::RecordEvent(Box::new(recorded)))
                .await;
            three
                .write(&who, put_note(&format!("note {n}"), 0, text.as_bytes()))
                .await;
            ids.push(id);
        }
        three.read(&who, &ids).await;
        let more = [
            "zEbRa", "b", "É", "é", "å", "_", "%", "\\0", "00", "ß", "\u{301}", "x", "\u{202e}",
            "\n",
        ];
        for title in TEXTS.iter().chain(&more) {
            let filter = SessionFilter {
                title: Some((*title).into()),
                ..SessionFilter::default()
            };
            three.list(&who, filter).await;
        }
        let closed = SessionFilter {
            status: Some(SessionStatus::Closed),
            ..SessionFilter::default()
        };
        three.list(&who, closed).await;
        for n in 0..TEXTS.len() {
            three
                .ask("note", async |f| {
                    f.ledger
                        .note(&format!("note {n}"))
                        .await
                        .unwrap()
                        .unwrap()
                        .value
                })
                .await;
        }
        three.close().await;
    });
}

#[test]
fn strange_items_are_the_same_everywhere() {
    block_on(async {
        let three = Three::new();
        let who = operator("t");
        for (n, text) in TEXTS.iter().enumerate() {
            let token = JsonText::from_plain(text);
            let request = format!("r{n}");
            let made = start_with(&who, "s", &request, "q", None, |event, items| {
                event.metadata = Some(json(JSON[n % JSON.len()]));
                event.application.pipeline_name = Some((*text).into());
                items[0].agent = Some((*text).into());
            });
            three.write(&who, Write::Start(Arc::new(made))).await;
            let id = three.0[0]
                .keyring
                .turn_id(&who.tenant, &sid("s"), &rid(&request));
            let items = JSON.iter().enumerate().map(|(k, strange)| ItemBody {
                item_id: ItemId::new(format!("ключ {n} {k} 🧵\u{feff}'\"\\")).ok(),
                parts: RawJson::parse(&format!("[ {strange} ,{strange}]")).unwrap(),
                agent: Some(TEXTS[(n + k) % TEXTS.len()].into()),
                model: Some((*text).into()),
                metadata: Some(json(strange)),
                ..ItemBody::new(Role::Tool, Channel::from_word("my own"), json("[]"))
            });
            three
                .write(&who, append("s", id, items.collect(), None))
                .await;
            let mut ending = close("s", id, answer(None), body("x"));
            ending.ending = filrouge_store::command::Ending::Finalize {
                neutral: Some(token.clone()),
                translated: Some(token),
                fallback: None,
            };
            three.write(&who, Write::Close(Arc::new(ending))).await;
        }
        three.read(&who, &["s".to_owned()]).await;
        for agent in TEXTS.iter().chain(&["s", "ZEBRA"]) {
            let filter = SessionFilter {
                agent: Some((*agent).into()),
                ..SessionFilter::default()
            };
            three.list(&who, filter).await;
        }
        three.close().await;
    });
}

/// Text that does not compress.
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
fn large_and_deep_items_are_the_same_everywhere() {
    block_on(async {
        let three = Three::new();
        let who = operator("t");
        let large = format!(r#"["{}"]"#, noise(16 << 20));
        let even = format!(r#"["{}"]"#, "e".repeat(16 << 20));
        let deep = format!("[{}1{}]", "[".repeat(120), "]".repeat(120));
        let digits = format!("[{}]", "9".repeat(100_000));
        for (n, parts) in [large, even, deep, digits].into_iter().enumerate() {
            let made = start_with(&who, "s", &format!("r{n}"), "q", None, |_, items| {
                items[0].parts = RawJson::parse(&parts).unwrap();
            });
            three.write(&who, Write::Start(Arc::new(made))).await;
        }
        three.ask("position", async |f| f.ledger.position()).await;
        for after in 0..4 {
            three
                .ask("item", async |f| {
                    serialized(&f.ledger.items(&who, &sid("s"), after, 1).await.unwrap())
                })
                .await;
        }
        three.0[2].intact().await;
        three.close().await;
    });
}
