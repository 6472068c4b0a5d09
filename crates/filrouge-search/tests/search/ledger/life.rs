//! Whatever a ledger's sessions live through: what the index holds in steps is what it holds when built from nothing, and
//! both are what the ledger's own source gives.

use std::sync::Arc;

use filrouge_engine::{
    AppendItems, Engine, FinalizeTurn, ImportedTurn, PatchSession, RedactTurn, StartTurn,
};
use filrouge_search::ledger::LedgerFeed;
use filrouge_store::command::Target;
use filrouge_store::record::Seqs;
use filrouge_store::text_index::TextIndex;
use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_types::{Failure, IdentityId, ItemBody, JsonText, Turn, TurnStatus};
use proptest::prelude::*;
use serde_json::json;

use super::world::*;

/// Something that happens to a session, and which process does it.
#[derive(Debug, Clone)]
struct Event {
    session: u8,
    /// Whether by a process that does not know of the index.
    stranger: bool,
    what: What,
}

#[derive(Debug, Clone)]
enum What {
    Start { closed: bool, who: bool },
    Append { turn: u8, item: u8, word: u8 },
    Finalize { turn: u8 },
    Replace { turn: u8 },
    RedactTurn { turn: u8 },
    RedactItem { seq: u8 },
    Import { name: u8, message: u8 },
    Patch { title: bool },
    Link,
    Erase,
    Feed,
}

fn what() -> impl Strategy<Value = What> {
    let n = || 0..4_u8;
    prop_oneof![
        4 => (any::<bool>(), any::<bool>()).prop_map(|(closed, who)| What::Start { closed, who }),
        6 => (n(), 0..8_u8, any::<u8>()).prop_map(|(turn, item, word)| What::Append { turn, item, word }),
        3 => n().prop_map(|turn| What::Finalize { turn }),
        3 => n().prop_map(|turn| What::Replace { turn }),
        1 => n().prop_map(|turn| What::RedactTurn { turn }),
        1 => (1..12_u8).prop_map(|seq| What::RedactItem { seq }),
        2 => (n(), 0..3_u8).prop_map(|(name, message)| What::Import { name, message }),
        1 => any::<bool>().prop_map(|title| What::Patch { title }),
        1 => Just(What::Link),
        1 => (0..4_u8).prop_map(|n| if n == 0 { What::Erase } else { What::Feed }),
        6 => Just(What::Feed),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    (0..3_u8, proptest::bool::weighted(0.2), what()).prop_map(|(session, stranger, what)| Event {
        session,
        stranger,
        what,
    })
}

/// What is appended: among it calls and results that may belong to other turns' ones, and ids that look like others.
fn appended(item: u8, word: u8) -> ItemBody {
    let call = format!("c{}", word % 3);
    let text = json!([{ "type": "text", "text": format!("word{word} été") }]);
    let of = match item {
        0 => json!({ "role": "assistant", "channel": "tool_call", "agent": "build",
            "parts": [{ "type": "tool_call", "call_id": call, "name": "bash", "args": { "n": word } }] }),
        1 => json!({ "role": "tool", "channel": "tool_result",
            "parts": [{ "type": "tool_result", "call_id": call, "name": "bash", "ok": true, "content": format!("gave {word}") }] }),
        2 => json!({ "role": "assistant", "channel": "thought", "parts": text }),
        3 => json!({ "role": "user", "channel": "hitl_response", "parts": text }),
        4 => {
            json!({ "role": "assistant", "channel": "observation", "parts": text, "agent": format!("a{}", word % 2) })
        }
        5 => {
            json!({ "role": "user", "channel": "observation", "parts": text, "item_id": format!("seq-{}", word % 12) })
        }
        6 => {
            json!({ "role": "assistant", "channel": "observation", "parts": text, "item_id": format!("m{}", word % 3) })
        }
        _ => {
            json!({ "role": "system", "channel": "system_note", "parts": text, "metadata": { "opencode": { "message": { "id": format!("m{}", word % 3), "role": "user" } } } })
        }
    };
    super::world::item(of)
}

struct Life {
    world: World,
    stranger: Engine,
    turns: [Vec<Turn>; 3],
    count: usize,
}

impl Life {
    fn turn(&self, session: u8, turn: u8) -> Option<filrouge_types::TurnId> {
        let turns = &self.turns[usize::from(session)];
        let at = usize::from(turn).checked_rem(turns.len())?;
        Some(turns[turns.len() - 1 - at].turn_id)
    }

    /// Lets it happen; what the rules refuse does not.
    fn live(&mut self, event: &Event) -> Result<(), Failure> {
        let (caller, name) = (operator(), format!("s{}", event.session));
        let session = id(&name);
        self.count += 1;
        let fresh = format!("r{}", self.count);
        let engine = match event.stranger {
            true => &self.stranger,
            false => &*self.world.engine,
        };
        let run = &self.world.runtime;
        let start = |words: &str| StartTurn {
            question_neutral: Some(JsonText::from_plain(words)),
            ..StartTurn::new(fresh.parse().unwrap())
        };
        let answer = || Some(JsonText::from_plain(&format!("answer {}", self.count)));
        let turn = |turn: u8| self.turn(event.session, turn);
        let started = match event.what.clone() {
            What::Start { closed, who } => {
                let mut start = start(&format!("question {}", self.count));
                start.answer_neutral = answer().filter(|_| closed);
                let caller = if who { user("") } else { caller };
                Some(
                    run.block_on(engine.turns.start(&caller, session, start))?
                        .value,
                )
            }
            What::Append {
                turn: of,
                item,
                word,
            } => {
                let Some(turn) = turn(of) else { return Ok(()) };
                let items = AppendItems::new(vec![appended(item, word)]);
                run.block_on(engine.turns.append(&caller, session, turn, items))?;
                None
            }
            What::Finalize { turn: of } => {
                let Some(turn) = turn(of) else { return Ok(()) };
                let end = FinalizeTurn {
                    answer_neutral: answer(),
                    ..FinalizeTurn::default()
                };
                run.block_on(engine.turns.finalize(&caller, session, turn, end))?;
                None
            }
            What::Replace { turn: of } => {
                let Some(turn) = turn(of) else { return Ok(()) };
                let mut start = start(&format!("again {}", self.count));
                start.answer_neutral = answer();
                Some(
                    run.block_on(engine.turns.replace(&caller, session, turn, start))?
                        .value,
                )
            }
            What::RedactTurn { turn: of } => {
                let Some(turn) = turn(of) else { return Ok(()) };
                let reason = RedactTurn {
                    reason: "why not".into(),
                };
                run.block_on(engine.erasure.redact_turn(&caller, session, turn, reason))?;
                None
            }
            What::RedactItem { seq } => {
                let seqs = Seqs::of(vec![(u64::from(seq), u64::from(seq))]).unwrap();
                run.block_on(engine.erasure.redact(
                    &caller,
                    session,
                    Target::Items(seqs),
                    "why not",
                ))?;
                None
            }
            What::Import { name, message } => {
                run.block_on(engine.turns.record(
                    &caller,
                    &session,
                    imported(name, message, self.count),
                ))?;
                None
            }
            What::Patch { title } => {
                let patch = PatchSession {
                    title: Some(title.then(|| format!("title {}", self.count).into())),
                    ..PatchSession::default()
                };
                run.block_on(engine.sessions.patch(&caller, session, patch, None))?;
                None
            }
            What::Link => {
                let ada = IdentityId::new("ada").unwrap();
                run.block_on(engine.sessions.link(&caller, session, ada))?;
                None
            }
            What::Erase => {
                run.block_on(engine.erasure.erase(&caller, session))?;
                None
            }
            What::Feed => {
                self.world.catch_up();
                None
            }
        };
        self.turns[usize::from(event.session)].extend(started);
        Ok(())
    }
}

/// A turn of another program, whose message has an id that is not the ledger's.
fn imported(name: u8, message: u8, count: usize) -> ImportedTurn {
    let note =
        json!({ "opencode": { "message": { "id": format!("m{message}"), "role": "user" } } });
    let text = json!([{ "type": "text", "text": format!("imported {count}") }]);
    let item = json!({ "role": "user", "channel": "question", "parts": text, "metadata": note });
    ImportedTurn {
        request_id: format!("import{name}").parse().unwrap(),
        items: vec![super::world::item(item)],
        status: TurnStatus::Finalized,
        metadata: None,
    }
}

fn lives(index: Arc<dyn TextIndex>, events: &[Event]) {
    let world = World::over(ledger(), index);
    let stranger = world.stranger();
    let mut life = Life {
        world,
        stranger,
        turns: Default::default(),
        count: 0,
    };
    let happened = events
        .iter()
        .filter(|event| life.live(event).is_ok())
        .count();
    assert!(happened > 0);
    let world = &life.world;
    world.catch_up();
    let held = contents(world.index.as_ref());
    let bodies = held
        .iter()
        .map(|(key, (_, bodies))| (key.clone(), bodies.clone()));
    assert_eq!(
        bodies.collect::<std::collections::BTreeMap<_, _>>(),
        expected(&world.source())
    );
    let anew = Arc::new(MemoryIndex::default());
    let feed = LedgerFeed::new(world.engine.clone(), anew.clone(), clock());
    let long = std::time::Duration::from_secs(60);
    world
        .runtime
        .block_on(feed.catch_up(long, &|| false))
        .unwrap();
    assert_eq!(held, contents(anew.as_ref()), "in steps and from nothing");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn in_steps_and_from_nothing_an_index_holds_the_same(events in proptest::collection::vec(event(), 8..40)) {
        // The first makes a session, so that something happens.
        let first = Event { session: 0, stranger: false, what: What::Start { closed: false, who: false } };
        let events: Vec<Event> = std::iter::once(first).chain(events).collect();
        lives(Arc::new(MemoryIndex::default()), &events);
    }
}
