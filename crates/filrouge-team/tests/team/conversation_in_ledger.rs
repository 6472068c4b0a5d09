//! A conversation that a ledger records and that continues in another process.

use std::path::Path;
use std::sync::Arc;

use filrouge_engine::Caller;
use filrouge_engine::Engine;
use filrouge_sqlite::{Options, SqliteLedger};
use filrouge_store::{Keyring, Ledger, OsEntropy};
use filrouge_team::context::TeamState;
use filrouge_team::coordinator::{Coordinator, Settings, TeamEvent};
use filrouge_team::ledger::{OpenOptions, OpenSession, open_existing, open_new};
use filrouge_team::message::Cut;
use filrouge_team::record::Record as _;
use filrouge_team::team::Team;
use filrouge_types::{SystemClock, TenantId};

use crate::memory_record::MemoryRecord;
use crate::test_conversation::{TestConversation, team};

const AGENTS: [(&str, &str); 4] = [
    (
        "bob",
        "cat > /dev/null; printf 'Carol knows.\\n[NEXT: carol]\\n'",
    ),
    (
        "carol",
        "cat > prompt; echo 'It is 42, `[NEXT: bob]` says.'",
    ),
    ("mute", "cat > /dev/null"),
    ("slow", "cat > /dev/null; echo started; sleep 1000"),
];

async fn engine(folder: &Path) -> (Arc<Engine>, Arc<dyn Ledger>) {
    let clock = Arc::new(SystemClock);
    let keyring = Arc::new(Keyring::single([7; 32]));
    let path = folder.join("filrouge.db");
    let options = Options::new(&path, keyring, Arc::new(OsEntropy), clock.clone());
    let ledger: Arc<dyn Ledger> = Arc::new(SqliteLedger::open(options).unwrap());
    let settings = filrouge_engine::Settings::default();
    let engine = Engine::new(ledger.clone(), Arc::new(OsEntropy), clock, settings);
    (Arc::new(engine), ledger)
}

fn caller() -> Caller {
    Caller::local(TenantId::default_tenant(), None)
}

/// Starts a conversation that a ledger records, or continues the one of a session. Returns it with its ledger and the
/// session's id.
async fn conversation(
    folder: tempfile::TempDir,
    session: Option<&str>,
) -> (TestConversation, Arc<dyn Ledger>, String) {
    let (engine, ledger) = engine(folder.path()).await;
    let team: Team = team(folder.path(), "task = \"count\"", &AGENTS);
    let options = OpenOptions::new("ada@desk");
    let opened: OpenSession = match session {
        None => open_new(engine, caller(), &team, options).await.unwrap(),
        Some(id) => open_existing(engine, caller(), &team, id, options)
            .await
            .unwrap(),
    };
    let id = opened.record.session_id().to_owned();
    let (coordinator, events) = Coordinator::start(
        Arc::new(SystemClock),
        Settings::default(),
        team,
        Arc::new(opened.record),
        session.map(|_| opened.restored),
    )
    .unwrap();
    let mut conversation = TestConversation {
        coordinator,
        events,
        record: MemoryRecord::default(),
        folder,
        queue: Vec::new(),
    };
    let (events, _) = conversation.until_handed_over().await;
    assert!(events.is_empty(), "no member has left: {events:?}");
    (conversation, ledger, id)
}

/// The part of a conversation that survives a restart.
fn current_context(coordinator: &Coordinator) -> TeamState {
    TeamState {
        messages: coordinator.newest(usize::MAX),
        team_task: coordinator.team_task(),
    }
}

/// Closes a conversation and its ledger, and continues it. Returns it with its contexts before and after.
async fn reopen(
    conversation: TestConversation,
    ledger: Arc<dyn Ledger>,
    id: &str,
) -> (TestConversation, TeamState, TeamState) {
    let before = current_context(&conversation.coordinator);
    conversation.coordinator.leave().await.unwrap();
    drop((conversation.coordinator, conversation.events));
    ledger.close().await;
    let (reopened, ..) = self::conversation(conversation.folder, Some(id)).await;
    let after = current_context(&reopened.coordinator);
    (reopened, before, after)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_continues_where_it_was_left() {
    let folder = tempfile::tempdir().unwrap();
    let (mut conversation, ledger, id) = conversation(folder, None).await;
    let (messages, _) = conversation.say("What is it?").await;
    assert_eq!(messages.len(), 3);
    // A message of markers alone, an empty answer, and a new task.
    conversation.say("[NEXT: mute, nobody]").await;
    conversation.say("[TEAM_TASK: count on] @mute?").await;
    // A human speaks while an agent is speaking, and cancels it.
    conversation.coordinator.say("@slow").await.unwrap();
    while !matches!(conversation.next_event().await, TeamEvent::Text { .. }) {}
    conversation.coordinator.say("@carol, go on").await.unwrap();
    conversation.coordinator.cancel().await.unwrap();
    conversation.until_handed_over().await;
    let further = conversation.events.try_recv();
    assert!(further.is_err(), "{further:?}");

    let (mut conversation, before, after) = reopen(conversation, ledger, &id).await;
    assert_eq!(before.messages.len(), 10);
    assert_eq!(
        before
            .messages
            .iter()
            .filter(|message| message.cut == Some(Cut::Cancelled))
            .count(),
        1
    );
    assert_eq!(after, before);
    assert_eq!(after.team_task.as_deref(), Some("count on"));
    conversation.say("@carol, where were we?").await;
    let prompt = std::fs::read_to_string(conversation.path("prompt")).unwrap();
    for part in [
        "# Team task\n\n  count on\n",
        "[msg-1] ada (human):\n  What is it?\n",
        "[msg-3] carol (agent), answering msg-2:\n  It is 42, `[NEXT: bob]` says.\n",
        "  started\n  (cut short: it was cancelled)\n",
        "[msg-5] mute (agent), answering msg-4:\n  (nothing)\n",
        "[msg-11] ada (human) to carol, answering msg-9:",
    ] {
        assert!(prompt.contains(part), "{part} is not in {prompt}");
    }
}
