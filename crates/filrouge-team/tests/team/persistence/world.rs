//! A SQLite ledger with an engine, a team, and helpers that record messages.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use filrouge_engine::{Caller, ListTurns};
use filrouge_engine::{Engine, Settings};
use filrouge_sqlite::{Options, SqliteLedger};
use filrouge_store::{Keyring, Ledger, OsEntropy};
use filrouge_team::context::TeamState;
use filrouge_team::ledger::{OpenOptions, OpenSession, open_existing, open_new};
use filrouge_team::message::{Cut, Message, Routing, Speaker, SpeakerKind};
use filrouge_team::record::{AgentError, Record, State, Status};
use filrouge_team::snapshot::{SessionSnapshot, Snapshots};
use filrouge_team::team::{Command, Member, MemberKind, Team};
use filrouge_types::{Clock, Failure, Item, SessionId, SystemClock, TenantId, Timestamp, Turn};
use tempfile::TempDir;

/// The system's clock, which tests can advance.
#[derive(Default)]
pub(crate) struct TestClock(AtomicI64);

impl TestClock {
    pub(crate) fn advance(&self, time: Duration) {
        let micros = i64::try_from(time.as_micros()).unwrap();
        self.0.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let now = SystemClock.now().as_micros();
        Timestamp::from_micros(now + self.0.load(Ordering::SeqCst))
    }
}

/// A process's engine over the store in `folder`.
pub(crate) struct World {
    pub(crate) folder: Arc<TempDir>,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) ledger: Arc<dyn Ledger>,
}

/// An engine over the store at `path`, and the engine's ledger.
pub(crate) fn engine_at(
    path: &Path,
    clock: Arc<dyn Clock>,
    settings: Settings,
) -> (Arc<Engine>, Arc<dyn Ledger>) {
    let keyring = Arc::new(Keyring::single([7; 32]));
    let options = Options::new(path, keyring, Arc::new(OsEntropy), clock.clone());
    let ledger: Arc<dyn Ledger> = Arc::new(SqliteLedger::open(options).unwrap());
    let engine = Engine::new(ledger.clone(), Arc::new(OsEntropy), clock, settings);
    (Arc::new(engine), ledger)
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_settings(Settings::default())
    }

    pub(crate) fn with_settings(settings: Settings) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let clock = Arc::new(TestClock::default());
        let path = folder.path().join("filrouge.db");
        let (engine, ledger) = engine_at(&path, clock.clone(), settings);
        Self {
            folder,
            clock,
            engine,
            ledger,
        }
    }

    /// Another process with the same store.
    pub(crate) fn other_process(&self) -> Self {
        let path = self.folder.path().join("filrouge.db");
        let (engine, ledger) = engine_at(&path, self.clock.clone(), Settings::default());
        Self {
            folder: self.folder.clone(),
            clock: self.clock.clone(),
            engine,
            ledger,
        }
    }

    /// Closes the store, as an ending process does, and opens it in another process.
    pub(crate) async fn restarted(self) -> Self {
        self.ledger.close().await;
        self.other_process()
    }

    pub(crate) fn snapshots(&self) -> Snapshots {
        Snapshots::new(self.folder.path().join("sessions"))
    }

    /// The path of the snapshot file of a session.
    pub(crate) fn snapshot_path(&self, opened: &OpenSession) -> PathBuf {
        let id = opened.record.session_id();
        self.snapshots().file_path("crew", opened.created_at, id)
    }

    pub(crate) fn options(&self) -> OpenOptions {
        OpenOptions {
            wait: Duration::ZERO,
            snapshots: Some(self.snapshots()),
            ..OpenOptions::new("ann@desk")
        }
    }

    /// Opens a new session.
    pub(crate) async fn open_new(&self) -> OpenSession {
        open_new(self.engine.clone(), caller(), &team(), self.options())
            .await
            .unwrap()
    }

    /// Opens a session of the ledger.
    pub(crate) async fn try_open(&self, id: &str) -> Result<OpenSession, Failure> {
        open_existing(self.engine.clone(), caller(), &team(), id, self.options()).await
    }

    pub(crate) async fn open(&self, id: &str) -> OpenSession {
        self.try_open(id).await.unwrap()
    }

    pub(crate) async fn items(&self, id: &str) -> Vec<Item> {
        let (caller, id) = (caller(), session_id(id));
        let page = self.engine.turns.items(&caller, &id, 0, 10_000);
        page.await.unwrap().0
    }

    pub(crate) async fn turns(&self, id: &str) -> Vec<Turn> {
        let query = ListTurns {
            include_redacted: true,
            limit: 10_000,
            ..Default::default()
        };
        let (caller, id) = (caller(), session_id(id));
        let page = self.engine.turns.list(&caller, &id, query);
        page.await.unwrap().0
    }

    /// Verifies the entire store, and asserts that it has no findings.
    pub(crate) async fn assert_intact(&self) {
        let report = self.ledger.verify(None).await.unwrap();
        assert_eq!(report.findings, Vec::new());
    }
}

pub(crate) fn caller() -> Caller {
    Caller::local(TenantId::default_tenant(), None)
}

pub(crate) fn session_id(id: &str) -> SessionId {
    SessionId::new(id).unwrap()
}

/// The team `crew` of Ann, Planner and Coder.
pub(crate) fn team() -> Team {
    team_with_id("crew")
}

/// The same members in a team with this id.
pub(crate) fn team_with_id(id: &str) -> Team {
    let member = |name: &str, kind| Member {
        id: name.to_lowercase().into(),
        name: name.into(),
        role: None,
        kind,
    };
    let command = Command {
        program: "true".into(),
        arguments: Vec::new(),
        environment: Vec::new(),
        folder: None,
        template: None,
        timeout: Duration::from_secs(1),
    };
    Team {
        id: id.into(),
        name: id.into(),
        description: None,
        members: vec![
            member("Ann", MemberKind::Human),
            member("Planner", MemberKind::Agent(command.clone())),
            member("Coder", MemberKind::Agent(command)),
        ],
        task: None,
        max_agent_turns: 50,
    }
}

pub(crate) fn speaker(name: &str, kind: SpeakerKind) -> Speaker {
    Speaker {
        id: name.to_lowercase().into(),
        name: name.into(),
        kind,
    }
}

/// A message of the speaker with this name: Ann is the human, System is the application, all others are agents.
pub(crate) fn message(number: u64, name: &str, content: &str) -> Message {
    let kind = match name {
        "Ann" => SpeakerKind::Human,
        "System" => SpeakerKind::System,
        _ => SpeakerKind::Agent,
    };
    Message {
        id: format!("msg-{number}").into(),
        at: Timestamp::from_micros(1_700_000_000_000_000 + i64::try_from(number).unwrap()),
        speaker: speaker(name, kind),
        content: content.into(),
        routing: Routing {
            parent: (number > 1).then(|| format!("msg-{}", number - 1).into()),
            ..Routing::default()
        },
        cut: None,
    }
}

/// The message, cut short.
pub(crate) fn cut_message(message: Message, cut: Cut) -> Message {
    Message {
        cut: Some(cut),
        ..message
    }
}

/// The state of a conversation that waits for Ann.
pub(crate) fn paused() -> State {
    State {
        status: Status::Paused,
        waiting_for: Some("ann".into()),
        team_task: None,
    }
}

/// Records a message as a coordinator does: an agent's message in pieces.
pub(crate) async fn record_message(record: &dyn Record, message: &Message) {
    record_with_error(record, message, None).await;
}

/// Like [`record_message`], with the error of an agent that failed.
pub(crate) async fn record_with_error(
    record: &dyn Record,
    message: &Message,
    error: Option<&AgentError>,
) {
    if message.speaker.kind != SpeakerKind::Agent {
        return record.write_message(message).await.unwrap();
    }
    let started = Message {
        content: "".into(),
        routing: Routing {
            parent: message.routing.parent.clone(),
            ..Routing::default()
        },
        cut: None,
        ..message.clone()
    };
    let mut speech = record.begin_message(&started).await.unwrap();
    let (first, second) = message
        .content
        .split_at(message.content.floor_char_boundary(3));
    speech.append(first).await.unwrap();
    speech.append(second).await.unwrap();
    speech.end(message, error).await.unwrap();
}

/// Records a question with the number `first`, and its answer, and hands over; returns both messages.
pub(crate) async fn exchange(record: &dyn Record, first: u64) -> Vec<Message> {
    let messages = vec![
        message(first, "Ann", &format!("question {first}")),
        message(first + 1, "Planner", &format!("answer {first}")),
    ];
    for message in &messages {
        record_message(record, message).await;
    }
    record.hand_over(&paused()).await.unwrap();
    messages
}

/// The context of these messages, without a task.
pub(crate) fn context(messages: &[Message]) -> TeamState {
    TeamState {
        messages: messages.to_vec(),
        team_task: None,
    }
}

pub(crate) fn messages_of(snapshot: &SessionSnapshot) -> Vec<Message> {
    snapshot.messages.clone()
}
