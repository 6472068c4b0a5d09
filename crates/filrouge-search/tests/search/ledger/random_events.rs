//! After any sequence of events, an index that was fed in steps equals one that was built at once, and both contain the
//! documents that the ledger's own source returns.

use std::sync::Arc;

use filrouge_engine::{
    AppendItems, Engine, FinalizeTurn, ImportedTurn, PatchSession, RedactTurn, StartTurn,
};
use filrouge_search::ledger::LedgerFeed;
use filrouge_store::Lanes;
use filrouge_store::command::RedactionTarget;
use filrouge_store::record::Seqs;
use filrouge_store::text_index::TextIndex;
use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_types::{Failure, IdentityId, ItemBody, JsonText, Turn, TurnStatus};
use proptest::prelude::*;
use serde_json::json;

use super::world::*;

/// One action, and the process that performs it.
#[derive(Debug, Clone)]
struct Event {
    session: u8,
    /// Whether a process without the index performs it.
    without_index: bool,
    action: Action,
}

#[derive(Debug, Clone)]
enum Action {
    Start { closed: bool, anonymous: bool },
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

fn action() -> impl Strategy<Value = Action> {
    let n = || 0..4_u8;
    prop_oneof![
        4 => (any::<bool>(), any::<bool>()).prop_map(|(closed, anonymous)| Action::Start { closed, anonymous }),
        6 => (n(), 0..8_u8, any::<u8>()).prop_map(|(turn, item, word)| Action::Append { turn, item, word }),
        3 => n().prop_map(|turn| Action::Finalize { turn }),
        3 => n().prop_map(|turn| Action::Replace { turn }),
        1 => n().prop_map(|turn| Action::RedactTurn { turn }),
        1 => (1..12_u8).prop_map(|seq| Action::RedactItem { seq }),
        2 => (n(), 0..3_u8).prop_map(|(name, message)| Action::Import { name, message }),
        1 => any::<bool>().prop_map(|title| Action::Patch { title }),
        1 => Just(Action::Link),
        1 => (0..4_u8).prop_map(|n| if n == 0 { Action::Erase } else { Action::Feed }),
        6 => Just(Action::Feed),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    (0..3_u8, proptest::bool::weighted(0.2), action()).prop_map(
        |(session, without_index, action)| Event {
            session,
            without_index,
            action,
        },
    )
}

/// An item to append. A result may belong to a call of another turn, and an id may equal that of another item.
fn appended_item(item: u8, word: u8) -> ItemBody {
    let call = format!("c{}", word % 3);
    let text = json!([{ "type": "text", "text": format!("word{word} été") }]);
    let json = match item {
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
    super::world::item(json)
}

/// Applies events to a ledger.
struct Runner {
    world: LedgerWorld,
    engine_without_index: Engine,
    turns: [Vec<Turn>; 3],
    count: usize,
}

impl Runner {
    /// The id of a turn of the session, counted from the newest one; `None` if the session has none.
    fn turn(&self, session: u8, turn: u8) -> Option<filrouge_types::TurnId> {
        let turns = &self.turns[usize::from(session)];
        let at = usize::from(turn).checked_rem(turns.len())?;
        Some(turns[turns.len() - 1 - at].turn_id)
    }

    /// Performs the action of an event, or returns the failure with which it is refused.
    fn apply(&mut self, event: &Event) -> Result<(), Failure> {
        let (caller, name) = (operator(), format!("s{}", event.session));
        let session = id(&name);
        self.count += 1;
        let request = format!("r{}", self.count);
        let engine = match event.without_index {
            true => &self.engine_without_index,
            false => &*self.world.engine,
        };
        let runtime = &self.world.runtime;
        let start = |words: &str| StartTurn {
            question_neutral: Some(JsonText::from_plain(words)),
            ..StartTurn::new(request.parse().unwrap())
        };
        let answer = || Some(JsonText::from_plain(&format!("answer {}", self.count)));
        let turn = |turn: u8| self.turn(event.session, turn);
        let started = match event.action.clone() {
            Action::Start { closed, anonymous } => {
                let mut start = start(&format!("question {}", self.count));
                start.answer_neutral = answer().filter(|_| closed);
                let caller = if anonymous { user("") } else { caller };
                Some(
                    runtime
                        .block_on(engine.turns.start(&caller, session, start))?
                        .value,
                )
            }
            Action::Append {
                turn: number,
                item,
                word,
            } => {
                let Some(turn) = turn(number) else {
                    return Ok(());
                };
                let items = AppendItems::new(vec![appended_item(item, word)]);
                runtime.block_on(engine.turns.append(&caller, session, turn, items))?;
                None
            }
            Action::Finalize { turn: number } => {
                let Some(turn) = turn(number) else {
                    return Ok(());
                };
                let end = FinalizeTurn {
                    answer_neutral: answer(),
                    ..FinalizeTurn::default()
                };
                runtime.block_on(engine.turns.finalize(&caller, session, turn, end))?;
                None
            }
            Action::Replace { turn: number } => {
                let Some(turn) = turn(number) else {
                    return Ok(());
                };
                let mut start = start(&format!("again {}", self.count));
                start.answer_neutral = answer();
                Some(
                    runtime
                        .block_on(engine.turns.replace(&caller, session, turn, start))?
                        .value,
                )
            }
            Action::RedactTurn { turn: number } => {
                let Some(turn) = turn(number) else {
                    return Ok(());
                };
                let reason = RedactTurn {
                    reason: "why not".into(),
                };
                runtime.block_on(engine.erasure.redact_turn(&caller, session, turn, reason))?;
                None
            }
            Action::RedactItem { seq } => {
                let seqs = Seqs::from_ranges(vec![(u64::from(seq), u64::from(seq))]).unwrap();
                runtime.block_on(engine.erasure.redact(
                    &caller,
                    session,
                    RedactionTarget::Items(seqs),
                    "why not",
                ))?;
                None
            }
            Action::Import { name, message } => {
                runtime.block_on(engine.turns.record(
                    &caller,
                    &session,
                    imported(name, message, self.count),
                ))?;
                None
            }
            Action::Patch { title } => {
                let patch = PatchSession {
                    title: Some(title.then(|| format!("title {}", self.count).into())),
                    ..PatchSession::default()
                };
                runtime.block_on(engine.sessions.patch(&caller, session, patch, None))?;
                None
            }
            Action::Link => {
                let ada = IdentityId::new("ada").unwrap();
                runtime.block_on(engine.sessions.link(&caller, session, ada))?;
                None
            }
            Action::Erase => {
                runtime.block_on(engine.erasure.erase(&caller, session))?;
                None
            }
            Action::Feed => {
                self.world.catch_up();
                None
            }
        };
        self.turns[usize::from(event.session)].extend(started);
        Ok(())
    }
}

/// An imported turn. Its message has an id that another program gave it.
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

/// Asserts that the index of a store with these lanes is right after the events.
fn check_index_after(index: Arc<dyn TextIndex>, lanes: Lanes, events: &[Event]) {
    let world = LedgerWorld::from_parts(ledger_with_lanes(lanes), index);
    let engine_without_index = world.engine_without_index();
    let mut runner = Runner {
        world,
        engine_without_index,
        turns: Default::default(),
        count: 0,
    };
    let applied = events
        .iter()
        .filter(|event| runner.apply(event).is_ok())
        .count();
    assert!(applied > 0, "no event could be applied");
    let world = &runner.world;
    world.catch_up();
    let fed = contents(world.index.as_ref());
    let digests = fed
        .iter()
        .map(|(key, (_, digests))| (key.clone(), digests.clone()));
    assert_eq!(
        digests.collect::<std::collections::BTreeMap<_, _>>(),
        source_digests(&world.source())
    );
    let rebuilt_index = Arc::new(MemoryIndex::default());
    let feed = LedgerFeed::new(world.engine.clone(), rebuilt_index.clone(), clock());
    let limit = std::time::Duration::from_secs(60);
    world
        .runtime
        .block_on(feed.catch_up(limit, &|| false))
        .unwrap();
    assert_eq!(
        fed,
        contents(rebuilt_index.as_ref()),
        "the index that was fed in steps, and the one that was built at once"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn an_index_fed_in_steps_equals_one_built_at_once(lanes in 1..5_u16, events in proptest::collection::vec(event(), 8..40)) {
        // The first event creates a session, so that later ones can apply.
        let first = Event { session: 0, without_index: false, action: Action::Start { closed: false, anonymous: false } };
        let events: Vec<Event> = std::iter::once(first).chain(events).collect();
        check_index_after(Arc::new(MemoryIndex::default()), Lanes::new(lanes).unwrap(), &events);
    }
}
