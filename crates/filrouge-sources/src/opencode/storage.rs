//! [`Storage`]: the interface of OpenCode's storages. They return records as texts in the JSON of OpenCode 1.x (DESIGN
//! §10).
//!
//! A storage finds records and detects their changes. `neutral.rs` interprets the texts of all storages, and
//! `originals.rs` adds the data that only an import keeps. A record's id comes from its path or its column. Its text
//! may lack the id; a record whose text contains another id is left out.

use std::path::PathBuf;
use std::sync::Arc;

use crate::object::Writer;
use crate::{Fingerprint, Header, Listing, ReadError, Skipped, SourceError};

/// [`crate::Source::name`].
pub(super) const NAME: &str = "opencode";

/// A project, as a storage records it.
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
    /// The id of its project: the name of the folder that contains the record, or the column `project_id`. Empty if
    /// unknown.
    pub(super) folder: Box<str>,
    /// Its place in reports: a file, or `/path/opencode.db#session/ses_x`.
    pub(super) place: PathBuf,
    /// JSON with the keys of a session file in the file storage: `version`, `parentID`, `directory`, `title`, `time
    /// {created, updated, archived?}`, `summary {additions, deletions, files}`, `revert {messageID, partID?}`, `share
    /// {url}`, and so on. The text is not checked yet; `session.rs` checks it.
    pub(super) text: Arc<str>,
    /// Its project.
    pub(super) project: Project,
    /// Its agent: from its own record, or else from the first message that names one.
    pub(super) agent: Option<Box<str>>,
    /// The folder in which it ran, if only its messages name the folder.
    pub(super) directory: Option<Box<str>>,
    /// The session it was forked from, where that is recorded.
    pub(super) fork_of: Option<Box<str>>,
    /// Whether its record is damaged; `text` is then a substitute.
    pub(super) damaged: bool,
}

/// A part of a message: a JSON object in the form of OpenCode 1.x.
#[derive(Debug)]
pub(super) struct PartText {
    pub(super) id: Box<str>,
    pub(super) text: Box<str>,
}

/// A message: a JSON object with `role` (`user`, `assistant`, or `system` for the program's own notes) and `time
/// {created, completed?}`.
///
/// A compaction has the form of 1.x: a user message with a `compaction` part, then an assistant message with
/// `"summary":true`, `finish` and a text part. If there is only one record, its `compaction` part has `"summary": "…"`
/// once the compaction has finished.
#[derive(Debug)]
pub(super) struct MessageText {
    pub(super) id: Box<str>,
    pub(super) text: Box<str>,
    /// Its sequence number, if the storage has one.
    pub(super) seq: Option<u64>,
    /// Whether it is known to be copied from the origin of a fork.
    pub(super) copied: bool,
    /// The parts, in any order.
    pub(super) parts: Vec<PartText>,
}

impl MessageText {
    /// A message that is not known to be a copy, without a sequence number.
    pub(super) fn new(id: &str, text: String, parts: Vec<PartText>) -> Self {
        Self {
            id: id.into(),
            text: text.into(),
            seq: None,
            copied: false,
            parts,
        }
    }
}

/// One storage of OpenCode: a database, or a tree of files.
///
/// All methods can be called from several threads. A record that cannot be used is reported in `skipped` with its place
/// and the reason; everything else is still read.
pub(super) trait Storage: Send + Sync {
    /// Lists all sessions, each id once: [`crate::Source::list`].
    ///
    /// # Errors
    /// [`SourceError`] when the entire storage was removed or cannot be read.
    fn list(&self) -> Result<Arc<Listing>, SourceError>;

    /// Computes the fingerprint of a session whose listed header has none. `None` if it has no fingerprint.
    fn fingerprint(&self, _: &Header) -> Option<Fingerprint> {
        None
    }

    /// Reads the current record of one session.
    ///
    /// # Errors
    /// [`ReadError::Gone`] when no session has this id; [`ReadError::Skipped`] when its record cannot be used.
    fn session(&self, id: &str) -> Result<SessionText, ReadError>;

    /// All messages of a session with their parts, in any order.
    ///
    /// # Errors
    /// [`ReadError::Unavailable`] when the storage does not answer. A session without messages is not an error.
    fn messages(
        &self,
        session: &SessionText,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Vec<MessageText>, ReadError>;

    /// The path of a message, or of one of its parts, as reports name it. The last component of a message's path is the
    /// message's id, in a file storage with the extension `.json`.
    fn place(&self, session: &SessionText, message: &str, part: Option<&str>) -> PathBuf;

    /// Adds data stored outside the session's record to its metadata: `todo`, `session_diff`.
    fn add_extras(&self, session: &SessionText, metadata: &mut Writer, skipped: &mut Vec<Skipped>);

    /// Reports messages and parts that belong to no session.
    ///
    /// # Errors
    /// As [`Storage::list`].
    fn add_orphans(&self, skipped: &mut Vec<Skipped>) -> Result<(), SourceError>;
}
