//! The deployment of a team: its settings, and how it opens sessions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use filrouge_engine::Caller;
use filrouge_team::coordinator::{Coordinator, Settings, TeamEvent};
use filrouge_team::ledger::{LedgerRecord, OpenOptions, OpenSession, open_existing, open_new};
use filrouge_team::message::MessageId;
use filrouge_team::record::Record;
use filrouge_team::sessions::{TeamSession, session as find_session, sessions};
use filrouge_team::snapshot::{Snapshots, import, importable};
use filrouge_team::team::Team;
use filrouge_types::{Clock, ErrorCode, Failure, SystemClock, Timestamp};
use jiff::tz::TimeZone;
use tokio::sync::mpsc;

use super::age::format_age;
use super::words::{self, Words};
use super::{passphrase, style};
use crate::config::Config;
use crate::exit::Usage;
use crate::open::{OpenStore, operator};

/// The error for a session that belongs to another team.
#[derive(Debug, thiserror::Error)]
#[error("the session is another team's")]
pub(crate) struct OtherTeamsSession;

/// The settings and the open ledger of a deployment.
pub(crate) struct Deployment<'a> {
    pub(crate) opened: &'a OpenStore,
    pub(crate) caller: Caller,
    pub(crate) words: &'static Words,
    /// Whether output to the terminal is colored.
    pub(crate) is_colored: bool,
    /// The folder of snapshot files; `None` when they are disabled.
    pub(crate) snapshots: Option<Snapshots>,
    /// The time zone in which times are shown.
    pub(crate) zone: TimeZone,
    options: OpenOptions,
}

/// The session to start with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Start {
    /// A new session.
    New,
    /// The newest session.
    Newest,
    /// This session.
    Session(Box<str>),
}

/// An open session.
pub(crate) struct Session {
    pub(crate) coordinator: Arc<Coordinator>,
    pub(crate) events: mpsc::UnboundedReceiver<TeamEvent>,
    pub(crate) record: Arc<LedgerRecord>,
    /// The messages that were cut because an earlier run of filrouge ended.
    pub(crate) interrupted: Vec<MessageId>,
    /// Whether the session existed before this deployment opened it.
    pub(crate) is_resumed: bool,
}

/// Reads a team file. An invalid file counts as wrong usage.
///
/// # Errors
/// [`Usage`] when the file is missing or invalid.
pub(crate) fn read_team(path: &Path) -> Result<Team, Usage> {
    Team::read(path).map_err(|failure| Usage {
        detail: failure.detail,
        hint: failure.hint,
    })
}

/// The folder in which snapshot files are written; `None` when they are disabled.
///
/// # Errors
/// [`Usage`] when a passphrase is configured and the files cannot be encrypted with it.
pub(crate) fn snapshots(config: &Config) -> anyhow::Result<Option<Snapshots>> {
    let folder = config.team.snapshots_dir.clone();
    folder
        .map(|folder| snapshots_in(config, folder))
        .transpose()
}

/// The snapshot files in this folder, encrypted as configured.
///
/// # Errors
/// As [`snapshots`].
pub(crate) fn snapshots_in(config: &Config, folder: PathBuf) -> anyhow::Result<Snapshots> {
    let snapshots = Snapshots::new(folder);
    Ok(match passphrase::seal(config)? {
        Some(seal) => snapshots.encrypted_by(seal),
        None => snapshots,
    })
}

/// The name of this process as a lease holder, which other users see.
fn holder() -> String {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy().into_owned();
    let user = env_variable("USER").unwrap_or_else(|| "somebody".to_owned());
    format!("{user}@{host}, process {}", std::process::id())
}

fn env_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

impl<'a> Deployment<'a> {
    /// Creates a deployment from the configuration. The environment determines the language, the colors and the time
    /// zone.
    ///
    /// # Errors
    /// As [`snapshots`].
    pub(crate) fn new(config: &Config, opened: &'a OpenStore) -> anyhow::Result<Self> {
        let calls = config.settings.calls.clone();
        let snapshots = snapshots(config)?;
        let defaults = OpenOptions::new(holder());
        Ok(Self {
            opened,
            caller: operator(config),
            words: words::for_locale(env_variable),
            is_colored: style::wants_color(env_variable),
            zone: TimeZone::system(),
            options: OpenOptions {
                ttl: defaults.ttl.min(calls.lease_ttl_max),
                wait: calls.lease_wait,
                snapshots: snapshots.clone(),
                ..defaults
            },
            snapshots,
        })
    }

    pub(crate) fn options(&self) -> OpenOptions {
        self.options.clone()
    }

    /// Formats a moment for the reader.
    pub(crate) fn format_age(&self, at: Timestamp) -> String {
        format_age(self.words, at, SystemClock.now(), &self.zone)
    }

    /// The team's sessions, newest first. Sessions that cannot be read are left out with a warning.
    ///
    /// # Errors
    /// Errors of the ledger.
    pub(crate) async fn sessions(&self, team: &Team) -> Result<Vec<TeamSession>, Failure> {
        let listed = sessions(&self.opened.engine, &self.caller, &team.id).await?;
        for (id, failure) in &listed.unreadable {
            tracing::warn!(session_id = %id, code = failure.code.as_str(), "a session cannot be read");
        }
        Ok(listed.sessions)
    }

    /// Opens the session that `start` names.
    ///
    /// # Errors
    /// As [`Self::create`] and [`Self::resume`]; `session_not_found` when the team has no newest session.
    pub(crate) async fn open(&self, team: &Team, start: Start) -> anyhow::Result<Session> {
        match start {
            Start::New => self.create(team).await,
            Start::Newest => {
                let newest = self.sessions(team).await?.into_iter().next();
                let newest = newest.ok_or_else(|| {
                    let detail = format!("team {:?} has no earlier session", team.name);
                    Failure::new(ErrorCode::SessionNotFound, detail)
                        .with_hint("leave --resume out to begin one")
                })?;
                self.resume(team, &newest.session_id).await
            }
            Start::Session(id) => self.resume(team, &id).await,
        }
    }

    /// Creates a session.
    ///
    /// # Errors
    /// Errors of the ledger.
    pub(crate) async fn create(&self, team: &Team) -> anyhow::Result<Session> {
        let engine = self.opened.engine.clone();
        let opened = open_new(engine, self.caller.clone(), team, self.options()).await?;
        start_coordinator(team, opened, false)
    }

    /// Resumes this session. If only a snapshot file has it, imports the file first.
    ///
    /// # Errors
    /// `session_not_found`, `session_erased`; [`OtherTeamsSession`]; `lease_timeout`; errors of the ledger and of the
    /// file.
    pub(crate) async fn resume(&self, team: &Team, id: &str) -> anyhow::Result<Session> {
        let engine = self.opened.engine.clone();
        let mut id: Box<str> = id.into();
        match find_session(&engine, &self.caller, &team.id, &id).await {
            Ok(_) => {}
            Err(failure) if failure.code == ErrorCode::SessionNotFound => {
                let file = self.file_of(team, &id).await?;
                id = self.import_file(team, file.ok_or(failure)?).await?;
            }
            Err(failure) if failure.code == ErrorCode::Invalid => {
                return Err(anyhow::Error::new(failure).context(OtherTeamsSession));
            }
            Err(failure) => return Err(failure.into()),
        }
        let opened = open_existing(engine, self.caller.clone(), team, &id, self.options()).await?;
        start_coordinator(team, opened, true)
    }

    /// The snapshot file of a session that the ledger does not have.
    async fn file_of(&self, team: &Team, id: &str) -> Result<Option<PathBuf>, Failure> {
        let Some(snapshots) = &self.snapshots else {
            return Ok(None);
        };
        let importable = importable(&self.opened.engine, &self.caller, &team.id, snapshots).await?;
        let mut files = importable.offers.into_iter().map(|offer| offer.file);
        Ok(files
            .find(|file| &*file.session_id == id)
            .map(|file| file.path))
    }

    /// Imports a snapshot file into the ledger. Returns the id of its session.
    ///
    /// # Errors
    /// [`Usage`] if the file cannot be read; errors of the ledger.
    pub(crate) async fn import_file(&self, team: &Team, path: PathBuf) -> anyhow::Result<Box<str>> {
        let Some(snapshots) = self.snapshots.clone() else {
            return Err(Usage::new("no folder of snapshot files is configured").into());
        };
        let read = tokio::task::spawn_blocking(move || {
            let read = snapshots.read(&path);
            read.map_err(|problem| Usage::new(format!("{}: {problem}", path.display())))
        });
        let snapshot = read.await??;
        let (engine, caller) = (self.opened.engine.clone(), self.caller.clone());
        let imported = import(engine, caller, team, &snapshot, self.options()).await?;
        Ok(imported.session_id)
    }
}

fn start_coordinator(
    team: &Team,
    opened: OpenSession,
    is_resumed: bool,
) -> anyhow::Result<Session> {
    let record = Arc::new(opened.record);
    if opened.left_out.foreign > 0 {
        tracing::warn!(
            session_id = record.session_id(),
            items = opened.left_out.foreign,
            "the session contains items that the team did not write; they are not part of the conversation"
        );
    }
    let (coordinator, events) = Coordinator::start(
        Arc::new(SystemClock),
        Settings::default(),
        team.clone(),
        record.clone(),
        is_resumed.then_some(opened.restored),
    )?;
    Ok(Session {
        coordinator: Arc::new(coordinator),
        events,
        record,
        interrupted: opened.interrupted,
        is_resumed,
    })
}

/// The special exit code of a failure; `None` if it has none.
pub(crate) fn exit_code(error: &anyhow::Error) -> Option<u8> {
    if error.is::<OtherTeamsSession>() {
        return Some(4);
    }
    match error.downcast_ref::<Failure>()?.code {
        ErrorCode::SessionNotFound | ErrorCode::SessionErased => Some(3),
        ErrorCode::LeaseTimeout
        | ErrorCode::LeaseHeld
        | ErrorCode::LeaseExpired
        | ErrorCode::StaleFence => Some(5),
        _ => None,
    }
}
