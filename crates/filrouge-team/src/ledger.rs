//! A team's conversation in the ledger (DESIGN §11): one session of the team, with its messages as items, and its state
//! as a checkpoint at each hand-over. The process that has the session open has its lease.
//!
//! `docs/adr/0029-teams-in-the-ledger.md` explains how one turn contains messages of several speakers.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use filrouge_engine::{CloseSession, Engine, PatchSession, SaveCheckpoint};
use filrouge_types::{
    ErrorCode, Failure, RawJson, Result, SessionId, SessionStatus, Timestamp, lock,
};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

pub(crate) mod item;
pub(crate) mod open;
pub(crate) mod read;
mod session_import;
mod session_lease;
mod speech;
mod turn;
mod writes;

pub use open::{open_existing, open_new, read_session};
pub use read::LeftOut;
pub use session_import::{Imported, import};
pub use session_lease::holder_label;

pub(crate) use session_import::alternative_id;
pub(crate) use session_lease::has_holder_exited;

use crate::context::{Restored, TEAM_TASK_BYTES_MAX};
use crate::message::{Message, MessageId};
use crate::record::{Record, Speech, State, Status};
use crate::snapshot::{SessionSnapshot, SnapshotWarning, Snapshots};
use read::read_conversation;
use session_lease::SessionLease;
use turn::Progress;

/// The maximum number of warnings that are kept until the caller retrieves them.
const WARNINGS_MAX: usize = 16;

/// The options for opening a session.
#[derive(Clone)]
pub struct OpenOptions {
    /// The name of the lease's holder, such as `ann@laptop, process 4711`. Others that try to open the session see it.
    pub holder: Box<str>,
    /// The duration of the lease without a renewal.
    pub ttl: Duration,
    /// The maximum wait for a session that another process has open.
    pub wait: Duration,
    /// The location of the session's snapshot file; `None` for no file.
    pub snapshots: Option<Snapshots>,
}

impl OpenOptions {
    /// A lease of 30 s, a wait of 2 s, no snapshot file.
    pub fn new(holder: impl Into<Box<str>>) -> Self {
        Self {
            holder: holder.into(),
            ttl: Duration::from_secs(30),
            wait: Duration::from_secs(2),
            snapshots: None,
        }
    }
}

/// An opened session: its record, and the state from which the conversation continues.
pub struct OpenSession {
    /// Records the session from now on.
    pub record: LedgerRecord,
    /// The messages and the team task from which the conversation continues.
    pub restored: Restored,
    /// When the session was created; its snapshot file's name contains it.
    pub created_at: Timestamp,
    /// The status in the newest recorded state; [`Status::Active`] if something was written after it, as before a
    /// crash.
    pub status: Status,
    /// The id of the member for whom the team waited in the newest recorded state; `None` if something was written
    /// after it.
    pub waiting_for: Option<Box<str>>,
    /// The ids of messages that were still growing when the previous process ended. `restored` contains them as
    /// interrupted.
    pub interrupted: Vec<MessageId>,
    /// Counts of session content that is missing from the context.
    pub left_out: LeftOut,
    /// The ids of redacted messages.
    redacted: HashSet<MessageId>,
}

/// Records one session in the ledger. Without [`Record::close`], nobody else can open the session until its lease
/// expires or this process ends.
pub struct LedgerRecord {
    writer: Arc<SessionWriter>,
    /// The task that renews the lease.
    _heartbeat: JoinSet<()>,
}

/// A member, as a checkpoint records it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct CheckpointMember {
    id: Box<str>,
    name: Box<str>,
}

/// A checkpoint's state.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CheckpointState {
    team_id: Box<str>,
    #[serde(flatten)]
    state: State,
    members: Vec<CheckpointMember>,
    /// The number of messages of the session up to the checkpoint.
    pub(crate) message_count: u64,
}

/// Writes an open session under its lease.
struct SessionWriter {
    engine: Arc<Engine>,
    session: SessionId,
    lease: Arc<SessionLease>,
    team_id: Box<str>,
    members: Vec<CheckpointMember>,
    created_at: Timestamp,
    snapshots: Option<Snapshots>,
    warnings: Mutex<Vec<SnapshotWarning>>,
    progress: tokio::sync::Mutex<Progress>,
}

impl LedgerRecord {
    /// Returns the newest warnings since the last call, at most 16.
    pub fn take_warnings(&self) -> Vec<SnapshotWarning> {
        std::mem::take(&mut *lock(&self.writer.warnings))
    }

    /// The fence of the session's lease.
    pub fn fence(&self) -> u64 {
        self.writer.lease.fence()
    }
}

impl SessionWriter {
    /// Records the state as a checkpoint, unless it equals the last recorded one and nothing was written since.
    async fn write_checkpoint(&self, progress: &mut Progress, state: &State) -> Result<()> {
        self.write_task(progress, state.team_task.as_deref())
            .await?;
        match &progress.state {
            Some(recorded) if recorded == state => return Ok(()),
            // The newest seq has a checkpoint already, and a seq has only one. The note creates a new seq.
            Some(_) => self.write_note(progress, item::note_item("state")).await?,
            None => {}
        }
        self.count_messages(progress).await?;
        let checkpoint = CheckpointState {
            team_id: self.team_id.clone(),
            state: state.clone(),
            members: self.members.clone(),
            message_count: progress.count,
        };
        let json = RawJson::write(&checkpoint);
        let to_failure = |e| Failure::new(ErrorCode::Internal, format!("the state as JSON: {e}"));
        let request = SaveCheckpoint {
            seq: None,
            label: Some(state.status.as_str().into()),
            state: json.map_err(to_failure)?,
            fence: None,
            release: false,
        };
        let caller = self.lease.caller_after_check().await?;
        self.engine
            .calls
            .put_checkpoint(&caller, &self.session, request)
            .await?;
        progress.state = Some(state.clone());
        Ok(())
    }

    /// Counts the messages written since the last count; after a redaction, counts all messages again.
    async fn count_messages(&self, progress: &mut Progress) -> Result<()> {
        let caller = self.lease.caller()?;
        let new_items =
            read_conversation(&self.engine, &caller, &self.session, progress.counted_to).await?;
        progress.count += new_items.messages.len() as u64;
        if new_items.redactions > 0 {
            let conversation = read_conversation(&self.engine, &caller, &self.session, 0).await?;
            progress.count = conversation.messages.len() as u64;
        }
        progress.counted_to = progress.counted_to.max(new_items.last_seq);
        Ok(())
    }

    /// Writes the snapshot file from the ledger's content, unless the session has no messages. A failure is only a
    /// warning.
    async fn write_snapshot(&self, progress: &Progress) {
        let Some(snapshots) = self.snapshots.clone().filter(|_| progress.count > 0) else {
            return;
        };
        let written = match self.read_snapshot().await {
            Ok(snapshot) => snapshots.save(snapshot).await,
            Err(failure) => Err(SnapshotWarning::io(
                snapshots.folder(),
                &std::io::Error::other(failure),
            )),
        };
        let Err(warning) = written else { return };
        tracing::warn!(path = %warning.path.display(), code = warning.problem.code(), "the snapshot file was not written");
        let mut warnings = lock(&self.warnings);
        if warnings.len() == WARNINGS_MAX {
            warnings.remove(0);
        }
        warnings.push(warning);
    }

    async fn read_snapshot(&self) -> Result<SessionSnapshot> {
        let conversation =
            read_conversation(&self.engine, &self.lease.caller()?, &self.session, 0).await?;
        Ok(conversation.into_snapshot(&self.team_id, &self.session, self.created_at))
    }

    /// Sets the session's status, which lists show.
    async fn set_status(&self, status: SessionStatus) -> Result<()> {
        let patch = PatchSession {
            status: Some(status),
            ..PatchSession::default()
        };
        let (caller, session) = (self.lease.caller_after_check().await?, self.session.clone());
        let patched = self.engine.sessions.patch(&caller, session, patch, None);
        patched.await.map(drop)
    }

    async fn close(&self, progress: &mut Progress, state: &State) -> Result<()> {
        self.end_turn(progress).await?;
        if state.status == Status::Completed {
            self.write_task(progress, state.team_task.as_deref())
                .await?;
            let (caller, session) = (self.lease.caller_after_check().await?, self.session.clone());
            let close = CloseSession::default();
            self.engine.sessions.close(&caller, session, close).await?;
            // Closing has appended an item, so the recorded state is no longer the newest.
            progress.state = None;
        } else {
            self.set_status(SessionStatus::Paused).await?;
        }
        self.write_checkpoint(progress, state).await
    }
}

#[async_trait]
impl Record for LedgerRecord {
    fn session_id(&self) -> &str {
        self.writer.session.as_str()
    }

    async fn write_message(&self, message: &Message) -> Result<()> {
        let mut progress = self.writer.progress.lock().await;
        self.writer.write_message(&mut progress, message).await
    }

    async fn begin_message(&self, message: &Message) -> Result<Box<dyn Speech>> {
        let mut progress = self.writer.progress.lock().await;
        let speech = self.writer.begin_message(&mut progress, message).await?;
        Ok(Box::new(speech))
    }

    async fn write_task(&self, task: Option<&str>) -> Result<()> {
        if let Some(bytes) = task.map(str::len).filter(|b| *b > TEAM_TASK_BYTES_MAX) {
            return Err(ErrorCode::LimitExceeded.failure(format!(
                "the team task has {bytes} bytes, at most {TEAM_TASK_BYTES_MAX} are allowed"
            )));
        }
        let mut progress = self.writer.progress.lock().await;
        self.writer.write_task(&mut progress, task).await
    }

    async fn hand_over(&self, state: &State) -> Result<()> {
        let mut progress = self.writer.progress.lock().await;
        self.writer.end_turn(&mut progress).await?;
        self.writer.write_checkpoint(&mut progress, state).await?;
        self.writer.write_snapshot(&progress).await;
        Ok(())
    }

    async fn close(&self, state: &State) -> Result<()> {
        let mut progress = self.writer.progress.lock().await;
        self.writer.close(&mut progress, state).await?;
        self.writer.write_snapshot(&progress).await;
        self.writer.lease.release().await
    }
}
