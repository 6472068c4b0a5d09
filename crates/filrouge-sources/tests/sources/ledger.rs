//! Tests of the ledger as a source: the sessions that a caller sees, and whether imported histories equal the
//! originals.

mod imported;

use std::sync::Arc;

use filrouge_engine::Caller;
use filrouge_engine::{CreateSession, Engine, ImportedTurn, Settings};
use filrouge_sources::ledger::LedgerSource;
use filrouge_sources::{
    Conversation, LoadedSession, Message, PartKind, ReadError, Role, Source, TokenRule, ToolStatus,
};
use filrouge_sqlite::{Options, SqliteLedger};
use filrouge_store::memory::MemoryLedger;
use filrouge_store::{Keyring, Ledger, OsEntropy};
use filrouge_types::{
    FixedClock, IdentityId, RawJson, RequestId, SessionId, SystemClock, TenantId, Timestamp,
    TurnStatus, merge_objects,
};
use serde_json::json;
use tokio::runtime::Runtime;

use super::*;

/// A ledger with its engine on a separate runtime, because the source blocks and must not run on the runtime's threads.
pub(crate) struct World {
    pub(crate) runtime: Runtime,
    pub(crate) engine: Arc<Engine>,
}

impl World {
    fn with_ledger(ledger: Arc<dyn Ledger>) -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.enable_all().worker_threads(1).build().unwrap();
        let entropy = Arc::new(OsEntropy);
        let engine = Engine::new(ledger, entropy, Arc::new(SystemClock), Settings::default());
        Self {
            runtime,
            engine: Arc::new(engine),
        }
    }

    pub(crate) fn in_memory() -> Self {
        let keyring = Arc::new(Keyring::single([7; 32]));
        let clock = Arc::new(FixedClock::at(1_700_000_000_000_000));
        Self::with_ledger(Arc::new(MemoryLedger::new(
            keyring,
            Arc::new(OsEntropy),
            clock,
        )))
    }

    pub(crate) fn source_for(&self, caller: Caller) -> LedgerSource {
        LedgerSource::new(self.engine.clone(), caller, self.runtime.handle().clone())
    }

    pub(crate) fn create_session(&self, caller: &Caller, id: &str, metadata: Option<RawJson>) {
        let request = CreateSession {
            session_id: Some(id.parse().unwrap()),
            title: Some(format!("about {id}").into()),
            project_id: None,
            team_id: None,
            parent_session_id: None,
            metadata,
        };
        let created = self.engine.sessions.create(caller, request);
        self.runtime.block_on(created).unwrap();
    }

    fn record(&self, caller: &Caller, id: &str, turn: ImportedTurn) {
        let id: SessionId = id.parse().unwrap();
        let recorded = self.engine.turns.record(caller, &id, turn);
        self.runtime.block_on(recorded).unwrap();
    }

    pub(crate) fn record_turn(
        &self,
        caller: &Caller,
        id: &str,
        request: &str,
        items: serde_json::Value,
    ) {
        let items: Vec<ItemBody> = serde_json::from_value(items).unwrap();
        let turn = ImportedTurn {
            request_id: request.parse().unwrap(),
            items,
            status: TurnStatus::Finalized,
            metadata: None,
        };
        self.record(caller, id, turn);
    }
}

pub(crate) fn user(name: &str) -> Caller {
    Caller::local(
        TenantId::default_tenant(),
        Some(IdentityId::new(name).unwrap()),
    )
}

pub(crate) fn operator() -> Caller {
    Caller::operator(TenantId::default_tenant())
}

fn text(role: &str, channel: &str, text: &str) -> serde_json::Value {
    json!({ "role": role, "channel": channel, "parts": [{ "type": "text", "text": text }] })
}

/// The ids of all listed sessions.
fn ids(source: &LedgerSource) -> Vec<String> {
    let listing = source.list().unwrap();
    assert!(!listing.truncated && listing.skipped.is_empty());
    listing.headers.iter().map(|h| h.id.to_string()).collect()
}

/// The texts of all sessions of a source, as (session, text).
fn session_texts(source: &LedgerSource) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for id in ids(source) {
        for part in source
            .read(&id)
            .unwrap()
            .messages
            .into_iter()
            .flat_map(|m| m.parts)
        {
            if let PartKind::Text { text, .. } = part.kind {
                texts.push((id.clone(), text.into()));
            }
        }
    }
    texts
}

#[test]
fn identities_never_see_sessions_of_others() {
    let world = World::in_memory();
    for name in ["ada", "bob"] {
        let id = format!("of-{name}");
        world.create_session(&user(name), &id, None);
        let words = format!("the secret of {name}");
        world.record_turn(
            &user(name),
            &id,
            "r",
            json!([text("user", "question", &words)]),
        );
    }
    for (owner, other) in [("ada", "bob"), ("bob", "ada")] {
        let source = world.source_for(user(owner));
        let (own_id, other_id) = (format!("of-{owner}"), format!("of-{other}"));
        assert_eq!(ids(&source), std::slice::from_ref(&own_id));
        assert_eq!(
            session_texts(&source),
            [(own_id.clone(), format!("the secret of {owner}"))]
        );
        assert!(source.read(&own_id).is_ok() && source.load(&own_id).is_ok());
        assert_eq!(crate::fingerprint(&source, &own_id), None, "never cached");
        for id in [other_id.as_str(), "absent", "", "../../etc/passwd"] {
            assert!(matches!(source.read(id), Err(ReadError::Gone)), "{id}");
            assert!(matches!(source.load(id), Err(ReadError::Gone)), "{id}");
        }
    }
    assert_eq!(ids(&world.source_for(operator())).len(), 2);
}

/// The items of a turn, of every kind.
pub(crate) fn turn_items() -> serde_json::Value {
    json!([
        text("user", "question", "What is there?"),
        text("assistant", "thought", "Let me see."),
        { "role": "assistant", "channel": "tool_call", "agent": "build", "model": "m-1",
          "parts": [{ "type": "tool_call", "call_id": "c1", "name": "ls", "args": { "path": "." } }] },
        { "role": "tool", "channel": "tool_result",
          "parts": [{ "type": "tool_result", "call_id": "c1", "ok": true, "content": "a\nb" }] },
        { "role": "assistant", "channel": "tool_call", "agent": "build",
          "parts": [{ "type": "tool_call", "call_id": "c2", "name": "rm", "args": {} }] },
        { "role": "tool", "channel": "tool_result",
          "parts": [{ "type": "tool_result", "call_id": "c2", "ok": false, "content": { "code": 1 } }] },
        { "role": "assistant", "channel": "tool_call", "agent": "build",
          "parts": [{ "type": "tool_call", "call_id": "unfinished", "name": "sleep", "args": 1 }] },
        { "role": "tool", "channel": "tool_result",
          "parts": [{ "type": "tool_result", "call_id": "without_call", "ok": true, "content": "late" }] },
        { "role": "assistant", "channel": "final", "agent": "build", "model": "m-1",
          "parts": [{ "type": "text", "text": "Two files." }],
          "usage": { "input_tokens": 10, "output_tokens": 4, "cache_read_input_tokens": 100, "cost": 0.25 } },
        text("assistant", "summary", "We looked."),
        { "role": "assistant", "channel": "observation", "agent": "review",
          "parts": [{ "type": "chart", "values": [1, 2] }] },
        text("system", "system_note", "restarted"),
        { "role": "assistant", "channel": "error", "agent": "review",
          "parts": [{ "type": "error", "code": "rate_limited", "message": "wait", "retryable": true }] },
    ])
}

/// The tool call with this id, or the part of this kind, and its message.
fn find_part<'a>(conversation: &'a Conversation, part: &str) -> (&'a Message, &'a PartKind) {
    let found = conversation.messages.iter().find_map(|message| {
        let part = message.parts.iter().find(|p| match &p.kind {
            PartKind::Tool(tool) => *tool.call_id == *part,
            kind => kind.name() == part,
        });
        Some((message, &part?.kind))
    });
    found.unwrap_or_else(|| panic!("{part}: {conversation:?}"))
}

#[test]
fn a_result_with_an_error_and_no_content_has_that_error() {
    let world = World::in_memory();
    world.create_session(&operator(), "s", None);
    let turn = json!([
        text("user", "question", "What is there?"),
        { "role": "assistant", "channel": "tool_call",
          "parts": [{ "type": "tool_call", "call_id": "c1", "name": "cat", "args": {} }] },
        { "role": "tool", "channel": "tool_result",
          "parts": [{ "type": "tool_result", "call_id": "c1", "ok": false, "error": "no such file" }] },
    ]);
    world.record_turn(&operator(), "s", "r", turn);
    let conversation = world.source_for(operator()).read("s").unwrap();
    let (_, PartKind::Tool(tool)) = find_part(&conversation, "c1") else {
        panic!("{conversation:?}");
    };
    assert_eq!(tool.error.as_deref(), Some("no such file"));
}

#[test]
fn items_become_messages_and_parts() {
    let world = World::in_memory();
    world.create_session(&operator(), "s", None);
    world.record_turn(&operator(), "s", "r", turn_items());
    let conversation = world.source_for(operator()).read("s").unwrap();
    let messages = conversation
        .messages
        .iter()
        .map(|message| (message.role, message.agent.as_deref(), message.parts.len()));
    let messages: Vec<_> = messages.collect();
    assert_eq!(
        messages,
        [
            (Role::User, None, 1),
            // An item without an agent's name belongs to the next agent.
            (Role::Assistant, Some("build"), 6),
            (Role::Assistant, None, 1),
            (Role::Assistant, Some("review"), 1),
            (Role::System, None, 1),
            (Role::Assistant, Some("review"), 0),
        ]
    );
    let (answer, first) = find_part(&conversation, "c1");
    assert_eq!(answer.parent_id, Some(conversation.messages[0].id.clone()));
    assert_eq!(answer.model.as_deref(), Some("m-1"));
    assert_eq!(
        (
            answer.tokens.unwrap().input,
            answer.tokens.unwrap().cache_read
        ),
        (10, 100)
    );
    assert_eq!(
        (answer.cost, conversation.token_rule),
        (Some(0.25), TokenRule::Ledger)
    );
    let outcome = |kind: &PartKind| match kind {
        PartKind::Tool(tool) => (
            tool.name.to_string(),
            tool.status,
            tool.input.to_string(),
            tool.output
                .as_deref()
                .or(tool.error.as_deref())
                .map(str::to_owned),
        ),
        other => panic!("{other:?}"),
    };
    let outcome_of = |id| outcome(find_part(&conversation, id).1);
    assert_eq!(
        outcome(first),
        (
            "ls".into(),
            ToolStatus::Completed,
            r#"{"path":"."}"#.into(),
            Some("a\nb".into())
        )
    );
    assert_eq!(
        outcome_of("c2"),
        (
            "rm".into(),
            ToolStatus::Error,
            "{}".into(),
            Some(r#"{"code":1}"#.into())
        )
    );
    assert_eq!(
        outcome_of("unfinished"),
        ("sleep".into(), ToolStatus::Running, "1".into(), None)
    );
    assert_eq!(
        outcome_of("without_call"),
        (
            "unknown".into(),
            ToolStatus::Completed,
            "null".into(),
            Some("late".into())
        )
    );
    assert!(
        matches!(find_part(&conversation, "chart").1, PartKind::Other { json, .. } if json.contains("[1,2]"))
    );
    assert!(
        matches!(find_part(&conversation, "compaction").1, PartKind::Compaction { summary: Some(text), .. } if &**text == "We looked.")
    );
    let error = conversation.messages[5].error.as_ref().unwrap();
    assert_eq!(
        (&*error.name, &*error.message, error.retryable),
        ("rate_limited", "wait", true)
    );
    let boundary = &conversation.boundaries[..];
    assert_eq!(boundary.iter().map(|b| b.at).collect::<Vec<_>>(), [2]);
}

/// Records a session as `filrouge import` does.
pub(crate) fn import(world: &World, loaded: &LoadedSession, source: &str) {
    let session = &loaded.session;
    let origin = json!({ "origin": {
        "source": source, "created": Timestamp::from_millis(session.created),
        "updated": Timestamp::from_millis(session.updated),
        "directory": session.directory, "agent": session.agent, "version": session.version,
    }});
    let metadata = merge_objects(&RawJson::write(&origin).unwrap(), &loaded.metadata);
    let request = CreateSession {
        session_id: Some(session.id.parse().unwrap()),
        metadata: Some(metadata),
        ..CreateSession::default()
    };
    let times = [session.created, session.updated].map(|ms| Timestamp::from_millis(ms).unwrap());
    let caller = operator();
    let created = world.engine.sessions.import(&caller, request, times);
    world.runtime.block_on(created).unwrap();
    for turn in &loaded.turns {
        let items = turn.question.iter().chain(&turn.items).cloned();
        let request_id: RequestId = turn.request_id.clone();
        let turn = ImportedTurn {
            request_id,
            items: items.collect(),
            status: TurnStatus::Finalized,
            metadata: Some(turn.metadata.clone()),
        };
        world.record(&operator(), &session.id, turn);
    }
}

/// A world whose ledger is in a file.
pub(crate) fn world_in_file(path: &Path) -> World {
    let keyring = Arc::new(Keyring::single([7; 32]));
    let (entropy, clock) = (Arc::new(OsEntropy), Arc::new(SystemClock));
    let options = Options::new(path.to_owned(), keyring, entropy, clock);
    World::with_ledger(Arc::new(SqliteLedger::open(options).unwrap()))
}
