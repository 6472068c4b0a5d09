//! A team's conversation in the ledger (DESIGN §11): one session of the team's, its messages as items, its state as a
//! checkpoint at each hand-over, held by a lease as long as it is open.
//!
//! How several speakers stand in one turn: `docs/adr/0029-teams-in-the-ledger.md`.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use filrouge_engine::{CloseSession, Engine, PatchSession, SaveCheckpoint};
use filrouge_types::{ErrorCode, Failure, RawJson, SessionId, SessionStatus, Timestamp};
use serde::{Deserialize, Serialize};

mod bring;
mod hold;
pub(crate) mod item;
pub(crate) mod open;
pub(crate) mod read;
mod speech;
mod turn;
mod writes;

pub use bring::{Imported, import};
pub use hold::holder_label;
pub use open::{open_existing, open_new, read_session};
pub use read::LeftOut;

pub(crate) use bring::other_id;
pub(crate) use hold::is_gone;

use crate::context::{Restored, TEAM_TASK_BYTES_MAX};
use crate::message::{Message, MessageId};
use crate::record::{Record, Speech, State, Status};
use crate::snapshot::{SessionSnapshot, SnapshotWarning, Snapshots};
use crate::team::Team;
use hold::{Heartbeat, Hold};
use read::read;
use turn::Keeping;

/// Warnings that are held until somebody takes them.
const WARNINGS: usize = 16;

/// How a session is opened.
#[derive(Clone)]
pub struct OpenOptions {
    /// Who opens it, for whoever finds it held: such as `ann@laptop, process 4711`.
    pub holder: Box<str>,
    /// How long the lease lasts once nobody renews it.
    pub ttl: Duration,
    /// How long is waited for a session that somebody else holds.
    pub wait: Duration,
    /// Where its snapshot file is written, if it is.
    pub snapshots: Option<Snapshots>,
}

impl OpenOptions {
    /// For 30 s at a time, waiting 2 s, without a snapshot file.
    #[must_use]
    pub fn new(holder: impl Into<Box<str>>) -> Self {
        Self {
            holder: holder.into(),
            ttl: Duration::from_secs(30),
            wait: Duration::from_secs(2),
            snapshots: None,
        }
    }
}

/// A session that was opened: its record, and what the conversation goes on from.
pub struct Opened {
    /// Keeps it from now on.
    pub record: LedgerRecord,
    /// What is carried over.
    pub restored: Restored,
    /// When it was made; its snapshot file is named by it.
    pub created_at: Timestamp,
    /// How it stood when it was last kept; a crash leaves it [`Status::Active`].
    pub status: Status,
    /// Who was waited for then: a member's id.
    pub waiting_for: Option<Box<str>>,
    /// Messages that were being said when the process before this one ended; they are in the context, cut.
    pub interrupted: Vec<MessageId>,
    /// What stands in the session and is not in the context.
    pub left_out: LeftOut,
    /// The ids of redacted messages.
    redacted: HashSet<MessageId>,
}

/// Keeps one session in the ledger. Without [`Record::close`] the session stays held until its lease ends by itself, or
/// this process does.
pub struct LedgerRecord {
    shared: Arc<Shared>,
    _heartbeat: Heartbeat,
}

/// A member, as a checkpoint tells it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct ToldMember {
    id: Box<str>,
    name: Box<str>,
}

/// A checkpoint's state.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ToldState {
    team_id: Box<str>,
    #[serde(flatten)]
    state: State,
    members: Vec<ToldMember>,
    pub(crate) message_count: u64,
}

struct Shared {
    engine: Arc<Engine>,
    session: SessionId,
    hold: Arc<Hold>,
    team_id: Box<str>,
    members: Vec<ToldMember>,
    created_at: Timestamp,
    snapshots: Option<Snapshots>,
    warnings: Mutex<Vec<SnapshotWarning>>,
    keeping: tokio::sync::Mutex<Keeping>,
}

fn members_of(team: &Team) -> Vec<ToldMember> {
    let members = team.members.iter();
    members
        .map(|member| ToldMember {
            id: member.id.clone(),
            name: member.name.clone(),
        })
        .collect()
}

impl LedgerRecord {
    /// What there is to warn of since this was last called: the newest few.
    #[must_use]
    pub fn take_warnings(&self) -> Vec<SnapshotWarning> {
        let warnings = self.shared.warnings.lock();
        std::mem::take(&mut *warnings.unwrap_or_else(PoisonError::into_inner))
    }

    /// The fence that the session is held by.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.shared.hold.fence()
    }
}

impl Shared {
    /// Keeps the state as a checkpoint, unless it is the one that was kept last and nothing was written since.
    async fn checkpoint(&self, keeping: &mut Keeping, state: &State) -> Result<(), Failure> {
        self.task(keeping, state.team_task.as_deref()).await?;
        match &keeping.state {
            Some(kept) if kept == state => return Ok(()),
            // A checkpoint stands at a seq: another one needs another.
            Some(_) => self.note(keeping, item::note_item("state")).await?,
            None => {}
        }
        self.count(keeping).await?;
        let told = ToldState {
            team_id: self.team_id.clone(),
            state: state.clone(),
            members: self.members.clone(),
            message_count: keeping.count,
        };
        let json = RawJson::write(&told);
        let unwritable = |e| Failure::new(ErrorCode::Internal, format!("the state as JSON: {e}"));
        let request = SaveCheckpoint {
            seq: None,
            label: Some(state.status.as_str().into()),
            state: json.map_err(unwritable)?,
            fence: None,
            release: false,
        };
        let caller = self.hold.ensure().await?;
        self.engine
            .calls
            .put_checkpoint(&caller, &self.session, request)
            .await?;
        keeping.state = Some(state.clone());
        Ok(())
    }

    /// Counts what was written since it was last counted; all of it anew once something was redacted.
    async fn count(&self, keeping: &mut Keeping) -> Result<(), Failure> {
        let caller = self.hold.caller()?;
        let news = read(&self.engine, &caller, &self.session, keeping.seen).await?;
        keeping.count += news.messages.len() as u64;
        if news.redactions > 0 {
            let all = read(&self.engine, &caller, &self.session, 0).await?;
            keeping.count = all.messages.len() as u64;
        }
        keeping.seen = keeping.seen.max(news.last_seq);
        Ok(())
    }

    /// Writes the snapshot file, of what the ledger has; that it cannot be written is a warning.
    async fn snapshot(&self, keeping: &Keeping) {
        let Some(snapshots) = self.snapshots.clone().filter(|_| keeping.count > 0) else {
            return;
        };
        let written = match self.whole().await {
            Ok(snapshot) => snapshots.save(snapshot).await,
            Err(failure) => Err(SnapshotWarning::io(
                snapshots.folder(),
                &std::io::Error::other(failure),
            )),
        };
        let Err(failed) = written else { return };
        tracing::warn!(path = %failed.path.display(), code = failed.what.code(), "the snapshot file was not written");
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if warnings.len() == WARNINGS {
            warnings.remove(0);
        }
        warnings.push(failed);
    }

    async fn whole(&self) -> Result<SessionSnapshot, Failure> {
        let all = read(&self.engine, &self.hold.caller()?, &self.session, 0).await?;
        Ok(all.into_snapshot(&self.team_id, &self.session, self.created_at))
    }

    /// How the session stands, for whoever lists sessions.
    async fn status(&self, status: SessionStatus) -> Result<(), Failure> {
        let patch = PatchSession {
            status: Some(status),
            ..PatchSession::default()
        };
        let (caller, session) = (self.hold.ensure().await?, self.session.clone());
        let patched = self.engine.sessions.patch(&caller, session, patch, None);
        patched.await.map(drop)
    }

    async fn hand_over(&self, keeping: &mut Keeping, state: &State) -> Result<(), Failure> {
        self.end_turn(keeping).await?;
        self.checkpoint(keeping, state).await
    }

    async fn close(&self, keeping: &mut Keeping, state: &State) -> Result<(), Failure> {
        self.end_turn(keeping).await?;
        if state.status == Status::Completed {
            self.task(keeping, state.team_task.as_deref()).await?;
            let (caller, session) = (self.hold.ensure().await?, self.session.clone());
            let ended = CloseSession::default();
            self.engine.sessions.close(&caller, session, ended).await?;
            // It has put a note of its own.
            keeping.state = None;
        } else {
            self.status(SessionStatus::Paused).await?;
        }
        self.checkpoint(keeping, state).await
    }
}

#[async_trait]
impl Record for LedgerRecord {
    fn session_id(&self) -> &str {
        self.shared.session.as_str()
    }

    async fn message(&self, message: &Message) -> Result<(), Failure> {
        let mut keeping = self.shared.keeping.lock().await;
        self.shared.message(&mut keeping, message).await
    }

    async fn begin(&self, message: &Message) -> Result<Box<dyn Speech>, Failure> {
        let mut keeping = self.shared.keeping.lock().await;
        let speech = self.shared.begin(&mut keeping, message).await?;
        Ok(Box::new(speech))
    }

    async fn task(&self, task: Option<&str>) -> Result<(), Failure> {
        if let Some(bytes) = task.map(str::len).filter(|b| *b > TEAM_TASK_BYTES_MAX) {
            let what = format!(
                "the team task has {bytes} bytes, at most {TEAM_TASK_BYTES_MAX} are allowed"
            );
            return Err(Failure::new(ErrorCode::LimitExceeded, what));
        }
        let mut keeping = self.shared.keeping.lock().await;
        self.shared.task(&mut keeping, task).await
    }

    async fn hand_over(&self, state: &State) -> Result<(), Failure> {
        let mut keeping = self.shared.keeping.lock().await;
        self.shared.hand_over(&mut keeping, state).await?;
        self.shared.snapshot(&keeping).await;
        Ok(())
    }

    async fn close(&self, state: &State) -> Result<(), Failure> {
        let mut keeping = self.shared.keeping.lock().await;
        self.shared.close(&mut keeping, state).await?;
        self.shared.snapshot(&keeping).await;
        self.shared.hold.release().await
    }
}
