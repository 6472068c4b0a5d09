//! A conversation for tests: a team whose agents are shell scripts, its record, and its events.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use filrouge_team::context::Restored;
use filrouge_team::coordinator::{Coordinator, Settings, TeamEvent};
use filrouge_team::message::Message;
use filrouge_team::queue::Route;
use filrouge_team::record::State;
use filrouge_team::team::Team;
use filrouge_team::team_file::Format;
use filrouge_types::{Failure, FixedClock};
use tempfile::TempDir;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::memory_record::MemoryRecord;

/// The maximum wait of a test for an expected event.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// A running conversation.
pub(crate) struct TestConversation {
    pub(crate) coordinator: Coordinator,
    pub(crate) events: UnboundedReceiver<TeamEvent>,
    pub(crate) record: MemoryRecord,
    pub(crate) folder: TempDir,
    /// The queue, as last reported.
    pub(crate) queue: Vec<Route>,
}

/// A team of two humans, Ada and Zoe, and of agents. Each agent is a name and a shell script, which is written to the
/// team's folder. `head` is added to the first lines of the team file.
pub(crate) fn team(folder: &Path, head: &str, agents: &[(&str, &str)]) -> Team {
    let mut text = format!(
        "name = \"bridge\"\n{head}\n[[members]]\nname = \"ada\"\nkind = \"human\"\n\
         [[members]]\nname = \"zoe\"\nkind = \"human\"\n"
    );
    for (name, script) in agents {
        std::fs::write(folder.join(name), script).unwrap();
        text.push_str(&format!(
            "[[members]]\nname = \"{name}\"\nkind = \"agent\"\ncommand = \"sh\"\nargs = [\"{name}\"]\ncwd = \".\"\n"
        ));
    }
    Team::parse(&text, Format::Toml, folder).unwrap()
}

impl TestConversation {
    /// A conversation of Ada, Zoe and these agents.
    pub(crate) fn with_agents(agents: &[(&str, &str)]) -> Self {
        Self::with_settings("", agents, Settings::default())
    }

    /// Like [`Self::with_agents`], with further lines of the team file and with settings.
    pub(crate) fn with_settings(head: &str, agents: &[(&str, &str)], settings: Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let team = team(folder.path(), head, agents);
        Self::start(folder, team, settings, None).unwrap()
    }

    /// Starts a conversation of a team.
    pub(crate) fn start(
        folder: TempDir,
        team: Team,
        settings: Settings,
        restored: Option<Restored>,
    ) -> Result<Self, Failure> {
        let clock = Arc::new(FixedClock::at(7));
        let record = MemoryRecord::default();
        let shared = Arc::new(record.clone());
        let (coordinator, events) = Coordinator::start(clock, settings, team, shared, restored)?;
        Ok(Self {
            coordinator,
            events,
            record,
            folder,
            queue: Vec::new(),
        })
    }

    /// A path in the folder of the team.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) async fn next_event(&mut self) -> TeamEvent {
        let event = tokio::time::timeout(TIMEOUT, self.events.recv()).await;
        let event = event
            .expect("an event arrives in time")
            .expect("the conversation has not ended");
        if let TeamEvent::Queue(routes) = &event {
            self.queue.clone_from(routes);
        }
        event
    }

    /// All events until a human has the floor, and the state then.
    pub(crate) async fn until_handed_over(&mut self) -> (Vec<TeamEvent>, State) {
        let mut events = Vec::new();
        loop {
            match self.next_event().await {
                TeamEvent::HandedOver(state) => return (events, state),
                event => events.push(event),
            }
        }
    }

    /// Sends a message of the human who has the floor. Returns the messages until a human has the floor again, as
    /// `name: text`, and that human.
    pub(crate) async fn say(&mut self, text: &str) -> (Vec<String>, String) {
        self.coordinator.say(text).await.unwrap();
        self.messages_until_hand_over().await
    }

    /// The messages until a human has the floor, as `name: text`, and that human.
    pub(crate) async fn messages_until_hand_over(&mut self) -> (Vec<String>, String) {
        let (events, state) = self.until_handed_over().await;
        let messages = events.iter().filter_map(|event| match event {
            TeamEvent::Said(message) | TeamEvent::Ended { message, .. } => Some(line(message)),
            _ => None,
        });
        (messages.collect(), state.waiting_for.unwrap().into())
    }

    /// Consumes the first events, which are the same in every new conversation.
    pub(crate) async fn started(mut self) -> Self {
        let (events, state) = self.until_handed_over().await;
        assert_eq!(
            (events, state.waiting_for.as_deref()),
            (vec![], Some("ada"))
        );
        self
    }

    /// Waits until an agent has written this file, and reads it.
    pub(crate) async fn read_when_written(&self, name: &str) -> String {
        wait_for(&format!("the file {name}"), || {
            let text = std::fs::read_to_string(self.path(name)).ok()?;
            text.ends_with('\n').then_some(text)
        })
        .await
    }
}

/// A message as `name: text`.
pub(crate) fn line(message: &Message) -> String {
    format!("{}: {}", message.speaker.name, message.content)
}

/// Waits until `poll` returns a value.
pub(crate) async fn wait_for<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let polling = async {
        loop {
            if let Some(value) = poll() {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let value = tokio::time::timeout(TIMEOUT, polling).await;
    value.unwrap_or_else(|_| panic!("timed out waiting for {what}"))
}

/// Whether a process is running; a zombie is not.
pub(crate) fn is_running(pid: u32) -> bool {
    let output = std::process::Command::new("ps")
        .args(["-o", "stat=", "-p", &pid.to_string()])
        .output();
    let stat = output.expect("ps runs").stdout;
    !stat.is_empty() && !stat.starts_with(b"Z")
}
