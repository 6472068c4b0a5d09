//! A conversation for tests: a team of shell scripts, its record, and its events.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use filrouge_team::context::Restored;
use filrouge_team::coordinator::{Coordinator, Settings, TeamEvent};
use filrouge_team::message::Message;
use filrouge_team::queue::Route;
use filrouge_team::record::State;
use filrouge_team::team::Team;
use filrouge_team::team_file::Form;
use filrouge_types::{Failure, FixedClock};
use tempfile::TempDir;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::kept::Memory;

/// How long an expected event may take before the test counts as hung.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) struct Talk {
    pub(crate) coordinator: Coordinator,
    pub(crate) events: UnboundedReceiver<TeamEvent>,
    pub(crate) record: Memory,
    pub(crate) folder: TempDir,
    /// The queue, as last reported.
    pub(crate) queue: Vec<Route>,
}

/// A team of Ada, Zoe (humans) and agents, each a script in the team's folder.
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
    Team::of(&text, Form::Toml, folder).unwrap()
}

impl Talk {
    pub(crate) fn of(agents: &[(&str, &str)]) -> Self {
        Self::with("", agents, Settings::default())
    }

    pub(crate) fn with(head: &str, agents: &[(&str, &str)], settings: Settings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let team = team(folder.path(), head, agents);
        Self::begin(folder, team, settings, None).unwrap()
    }

    pub(crate) fn begin(
        folder: TempDir,
        team: Team,
        settings: Settings,
        restored: Option<Restored>,
    ) -> Result<Self, Failure> {
        let clock = Arc::new(FixedClock::at(7));
        let record = Memory::default();
        let kept = Arc::new(record.clone());
        let (coordinator, events) = Coordinator::start(clock, settings, team, kept, restored)?;
        Ok(Self {
            coordinator,
            events,
            record,
            folder,
            queue: Vec::new(),
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) async fn event(&mut self) -> TeamEvent {
        let event = tokio::time::timeout(LONG, self.events.recv()).await;
        let event = event
            .expect("something happens")
            .expect("the conversation continues");
        if let TeamEvent::Queue(routes) = &event {
            self.queue.clone_from(routes);
        }
        event
    }

    /// All events until a human has the floor.
    pub(crate) async fn until_handed_over(&mut self) -> (Vec<TeamEvent>, State) {
        let mut events = Vec::new();
        loop {
            match self.event().await {
                TeamEvent::HandedOver(state) => return (events, state),
                event => events.push(event),
            }
        }
    }

    /// Says something; returns the messages until a human has the floor, as `name: text`, and that human.
    pub(crate) async fn say(&mut self, text: &str) -> (Vec<String>, String) {
        self.coordinator.say(text).await.unwrap();
        self.listen().await
    }

    pub(crate) async fn listen(&mut self) -> (Vec<String>, String) {
        let (events, state) = self.until_handed_over().await;
        let said = events.iter().filter_map(|event| match event {
            TeamEvent::Said(message) | TeamEvent::Ended { message, .. } => Some(line(message)),
            _ => None,
        });
        (said.collect(), state.waiting_for.unwrap().into())
    }

    /// Consumes the events at the beginning, which are the same in every conversation.
    pub(crate) async fn begun(mut self) -> Self {
        let (events, state) = self.until_handed_over().await;
        assert_eq!(
            (events, state.waiting_for.as_deref()),
            (vec![], Some("ada"))
        );
        self
    }

    /// Waits until an agent has written this file.
    pub(crate) async fn written(&self, name: &str) -> String {
        wait_for(name, || {
            let text = std::fs::read_to_string(self.path(name)).ok()?;
            text.ends_with('\n').then_some(text)
        })
        .await
    }
}

pub(crate) fn line(message: &Message) -> String {
    format!("{}: {}", message.speaker.name, message.content)
}

pub(crate) async fn wait_for<T>(what: &str, mut seen: impl FnMut() -> Option<T>) -> T {
    let looked = async {
        loop {
            if let Some(value) = seen() {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let found = tokio::time::timeout(LONG, looked).await;
    found.unwrap_or_else(|_| panic!("waited for {what}"))
}

/// Whether a process runs; a zombie does not count.
pub(crate) fn runs(pid: u32) -> bool {
    let out = std::process::Command::new("ps")
        .args(["-o", "stat=", "-p", &pid.to_string()])
        .output();
    let stat = out.expect("ps runs").stdout;
    !stat.is_empty() && !stat.starts_with(b"Z")
}
