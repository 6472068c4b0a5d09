//! What every storage of OpenCode gives: texts in the JSON of OpenCode 1.x (DESIGN §10).
//!
//! A storage knows where records are stored and when they have changed; `neutral.rs` knows for all of them what the texts
//! mean, and `written.rs` what import keeps beside that. Ids come from the path or
//! the column; a text need not repeat them, and where it does, another id in it costs that record.

use std::path::PathBuf;
use std::sync::Arc;

use crate::object::Writer;
use crate::{Fingerprint, Header, Listing, ReadError, Skipped, SourceError};

/// [`crate::Source::name`].
pub(super) const NAME: &str = "opencode";

/// What a storage knows of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Project {
    pub(super) name: Option<Box<str>>,
    pub(super) worktree: Option<Box<str>>,
}

/// A session's own record.
#[derive(Debug, Clone)]
pub(super) struct SessionText {
    pub(super) id: Box<str>,
    /// [`crate::Header::generation`].
    pub(super) generation: &'static str,
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

/// One storage of OpenCode: a database, or a tree of files.
///
/// All methods take `&self` from several threads. A record that cannot be used is pushed to `skipped` with its place
/// and reason, and costs only itself.
pub(super) trait Storage: Send + Sync {
    /// All sessions, each id once: [`crate::Source::list`].
    ///
    /// # Errors
    /// [`SourceError`] when the storage as a whole has gone or cannot be read.
    fn list(&self) -> Result<Arc<Listing>, SourceError>;

    /// The state of a session that was listed without.
    fn fingerprint(&self, _: &Header) -> Option<Fingerprint> {
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

    /// Names messages and parts that no session leads to.
    ///
    /// # Errors
    /// As [`Storage::list`].
    fn strays(&self, skipped: &mut Vec<Skipped>) -> Result<(), SourceError>;
}
