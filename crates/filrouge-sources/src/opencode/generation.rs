//! What every generation of OpenCode's storage gives: texts in the JSON of OpenCode 1.x (DESIGN §10).
//!
//! A generation knows where things lie and when they have changed; what the texts mean is told once for all of them
//! by `neutral.rs` (conversations) and by `items.rs`, `parts.rs` and `turns.rs` (import). Ids come from the path or
//! the column; a text need not repeat them, and where it does, another id in it costs that record.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::object::Writer;
use crate::{Header, Look, Overlooks, ReadError, Role, Scan, Since, Skipped, SourceError, Stamp};

/// What a storage knows of a project.
#[derive(Debug, Clone, Default, Hash)]
pub(super) struct Project {
    pub(super) name: Option<Box<str>>,
    pub(super) worktree: Option<Box<str>>,
}

/// A session's own record.
#[derive(Debug, Clone, Hash)]
pub(super) struct SessionText {
    pub(super) id: Box<str>,
    /// The key of its project: the folder the record lies in, or the column.
    pub(super) folder: Box<str>,
    /// Where it lies, for reports: a file, or `/path/opencode.db#session/ses_x`.
    pub(super) place: PathBuf,
    /// JSON with the keys of the tree's session file: `version`, `parentID`, `directory`, `title`, `time {created,
    /// updated, archived?}`, `summary {additions, deletions, files}`, `revert {messageID, partID?}`, `share {url}`, …;
    /// without secrets. Checked by who reads it.
    pub(super) text: Arc<str>,
    /// Its project.
    pub(super) project: Project,
    /// Its agent: the record's own, else that of the first message that names one.
    pub(super) agent: Option<Box<str>>,
    /// The folder it ran in, where `text` has none and a message tells.
    pub(super) directory: Option<Box<str>>,
    /// The session it was forked from, where that is recorded.
    pub(super) fork_of: Option<Box<str>>,
}

/// The headers of all sessions, with a cheap mark of what they were read from.
pub(super) struct Listed {
    pub(super) mark: Stamp,
    pub(super) headers: Vec<Arc<Header>>,
}

/// A part of a message: a JSON object as in section "part types" of 1.x.
#[derive(Debug)]
pub(super) struct PartText {
    pub(super) id: Box<str>,
    pub(super) text: Box<str>,
}

/// A message: a JSON object with `role` (`user`, `assistant`, or `system` for what the program itself notes) and
/// `time {created, completed?}`.
///
/// A compaction is told as 1.x does: a user message with a `compaction` part, then an assistant message with
/// `"summary":true`, `finish` and a text part. Where one record is all there is, its `compaction` part has `"summary":
/// "…"` once the compaction has finished.
#[derive(Debug)]
pub(super) struct MessageText {
    pub(super) id: Box<str>,
    pub(super) text: Box<str>,
    /// Its place among the messages, where the storage counts.
    pub(super) seq: Option<u64>,
    /// Whether it was copied from the session that was forked, where that is recorded.
    pub(super) copied: bool,
    /// In any order.
    pub(super) parts: Vec<PartText>,
}

/// What of a session is another than it was known to be.
pub(super) struct ReadSince {
    /// Its lasting mark, of before anything was read.
    pub(super) mark: Stamp,
    /// `None` when its record cannot be used.
    pub(super) session: Option<SessionText>,
    /// The messages that are others.
    pub(super) messages: Vec<MessageText>,
    /// The ids of those that are not.
    pub(super) same: Vec<Box<str>>,
    /// The states of the others.
    pub(super) states: HashMap<Box<str>, u64>,
    pub(super) skipped: Vec<Skipped>,
}

/// One part or message, as a scan finds it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) session: &'a str,
    pub(super) message: &'a str,
    /// Known when [`Scan::roles`] asks for it and the message can be read.
    pub(super) role: Option<Role>,
    /// `None` for a message's own text: its error is searched, too.
    pub(super) part: Option<&'a str>,
    /// Of a [`PartText`] or a [`MessageText`].
    pub(super) text: &'a str,
}

/// One generation of OpenCode's storage.
///
/// All methods take `&self` from several threads. A record that cannot be used is pushed to `skipped` with its place
/// and reason, and costs only itself.
pub(super) trait Generation: Send + Sync {
    /// `session_v2`, `session_message`, `sqlite`, `storage` or `project`.
    fn name(&self) -> &'static str;

    /// All sessions in any order, each id once; `None` when nothing has changed since the mark `known`.
    ///
    /// # Errors
    /// [`SourceError`] when the storage as a whole has gone or cannot be read.
    fn news(
        &self,
        known: Option<Stamp>,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Option<Listed>, SourceError>;

    /// [`crate::Source::recall`].
    fn recall(&self, _notes: &[u8]) {}

    /// [`crate::Source::notes`].
    fn notes(&self) -> Option<Vec<u8>> {
        None
    }

    /// One session, as it is now.
    ///
    /// # Errors
    /// [`ReadError::Gone`] when there is none of this id; [`ReadError::Skipped`] when its record cannot be used.
    fn session(&self, id: &str) -> Result<SessionText, ReadError>;

    /// All messages of a session with their parts, in any order.
    ///
    /// # Errors
    /// [`ReadError::Unavailable`] when the storage does not answer. A session without messages has none.
    fn messages(
        &self,
        session: &SessionText,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Vec<MessageText>, ReadError>;

    /// The place of a message, or of one of its parts, for reports. The last component of a message's place is its id,
    /// a file's with its ending.
    fn place(&self, session: &SessionText, message: &str, part: Option<&str>) -> PathBuf;

    /// Adds to a session's metadata what lies beside its record: `todo`, `session_diff`.
    fn beside(&self, session: &SessionText, metadata: &mut Writer, skipped: &mut Vec<Skipped>);

    /// The mark of the session's record, messages and parts together.
    ///
    /// # Errors
    /// As [`Generation::session`].
    fn stamp(&self, id: &str) -> Result<Option<Stamp>, ReadError>;

    /// [`crate::Source::lasting`].
    ///
    /// # Errors
    /// As [`Generation::session`].
    fn lasting(&self, id: &str) -> Result<Option<Stamp>, ReadError>;

    /// [`crate::Source::since`].
    ///
    /// # Errors
    /// As [`Generation::news`].
    fn since(&self, known: &[(&str, Stamp)], look: Look) -> Result<Vec<Since>, SourceError>;

    /// [`crate::Source::overlooks`].
    fn overlooks(&self) -> Overlooks {
        Overlooks::Nothing
    }

    /// What [`crate::Source::read_since`] is made of; `None` where a session is read as a whole.
    ///
    /// # Errors
    /// As [`Generation::session`].
    fn read_since(
        &self,
        _id: &str,
        _known: &HashMap<&str, u64>,
    ) -> Result<Option<ReadSince>, ReadError> {
        Ok(None)
    }

    /// [`crate::Source::whole`].
    fn whole(&self) -> Option<Stamp> {
        None
    }

    /// Gives `each` every part, and every message with an `error`, whose text [`Scan::may_hold`], of the sessions that are [`Scan::wanted`], until
    /// [`Scan::stopped`]. From two threads, in no order; without [`Scan::found`]. A session of
    /// which something cannot be read is given to [`Scan::unread`].
    ///
    /// # Errors
    /// As [`Generation::news`].
    fn scan(&self, scan: &Scan<'_>, each: &(dyn Fn(&Record<'_>) + Sync))
    -> Result<(), SourceError>;

    /// Names messages and parts that no session leads to.
    ///
    /// # Errors
    /// As [`Generation::news`].
    fn strays(&self, skipped: &mut Vec<Skipped>) -> Result<(), SourceError>;
}
