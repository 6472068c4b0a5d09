//! The port every foreign history is read through (DESIGN §10).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::{Changes, Conversation, LoadedSession, Message, MessageError, Part, Role, Skipped};

/// The header of a session, as its source tells it. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Its id; unique in its source.
    pub id: Box<str>,
    /// The program it is of: [`Source::name`].
    pub source: &'static str,
    /// The form it is stored in: [`Source::generation`].
    pub generation: &'static str,
    /// The session that has started it.
    pub parent_id: Option<Box<str>>,
    /// The session it was forked from, where the program records that.
    pub fork_of: Option<Box<str>>,
    /// Its project's id.
    pub project_id: Option<Box<str>>,
    /// Its project's name.
    pub project_name: Option<Box<str>>,
    /// Its project's main folder.
    pub worktree: Option<Box<str>>,
    /// The folder it ran in.
    pub directory: Option<Box<str>>,
    /// Its title.
    pub title: Option<Box<str>>,
    /// The agent of its first message.
    pub agent: Option<Box<str>>,
    /// The version of the program that wrote it.
    pub version: Option<Box<str>>,
    /// When it was made.
    pub created: i64,
    /// When it last changed.
    pub updated: i64,
    /// When it was archived.
    pub archived: Option<i64>,
    /// What it changed, as the program sums up.
    pub changes: Option<Changes>,
}

impl Header {
    /// What sessions are ordered by: (created, id).
    #[must_use]
    pub fn place(&self) -> (i64, &str) {
        (self.created, &self.id)
    }
}

/// The sessions of a source.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Their headers, ordered by (created, id).
    pub headers: Vec<Arc<Header>>,
    /// What was left out, in a fixed order.
    pub skipped: Vec<Skipped>,
    /// Whether there are more sessions than a source lists.
    pub truncated: bool,
}

/// A mark of a session's state: when it is the same, nothing in the session has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp(pub u64, pub u64);

/// What has become of a session since it had a lasting mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// Nothing.
    Same,
    /// Nothing, and this mark is cheaper to compare from now on.
    SameAs(Stamp),
    /// It may be another, or is gone.
    Changed,
}

/// How closely [`Source::since`] looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// As closely as every question can wait for: [`Source::overlooks`] tells what may be missed.
    Quick,
    /// At everything there is.
    Close,
}

/// What a quick look may overlook, and how close looks are best taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Overlooks {
    /// Nothing: both looks are the same.
    Nothing,
    /// What was written over in a session; each is looked at closely by itself.
    BySession,
    /// The same; to look closely at one takes as long as to look at all.
    Together,
}

/// What [`Source::read_since`] has read of a session.
#[derive(Debug, Clone, Default)]
pub struct ReadMessages {
    /// Its lasting mark, of before it was read; `None` when it must not be kept: then nothing was read.
    pub mark: Option<Stamp>,
    /// The messages that are not as they were known, with all their parts; `None` when the session's own record cannot be
    /// used.
    pub messages: Option<Vec<Message>>,
    /// The ids of the messages that are as they were known.
    pub same: Vec<Box<str>>,
    /// The states of those that were read, never 0: by which they are known from now on. Empty where a source knows none.
    pub states: HashMap<Box<str>, u64>,
    /// Whether nothing was left out of what was read.
    pub whole: bool,
}

impl ReadMessages {
    /// Reads all messages of a session.
    ///
    /// # Errors
    /// [`ReadError`], as [`Source::lasting`], but for a record that cannot be used.
    pub(crate) fn all<S: Source + ?Sized>(source: &S, id: &str) -> Result<Self, ReadError> {
        let mut read = Self {
            mark: source.lasting(id)?,
            ..Self::default()
        };
        if read.mark.is_none() {
            return Ok(read);
        }
        match source.conversation(id) {
            Ok(conversation) => {
                read.whole = conversation.skipped.is_empty();
                read.messages = Some(conversation.messages);
            }
            Err(ReadError::Skipped(_)) => {}
            Err(why) => return Err(why),
        }
        Ok(read)
    }
}

/// Which raw records a scan looks at.
///
/// `may_hold` is asked with the JSON text as stored, before anything is parsed; it errs only by saying yes.
#[derive(Clone, Copy)]
pub struct Scan<'a> {
    /// Whether a record's text may hold what is looked for.
    pub may_hold: &'a (dyn Fn(&[u8]) -> bool + Sync),
    /// Whether a session, by its id, is looked at. Once it says no the rest of that session is of no interest.
    pub wanted: &'a (dyn Fn(&str) -> bool + Sync),
    /// The only sessions that can be wanted, where the asker has them all from [`Source::list`]: what costs a source
    /// time to list is not listed again. `None`: whichever there are.
    pub ids: Option<&'a [&'a str]>,
    /// Whether [`Found::role`] is needed.
    pub roles: bool,
    /// Whether the search has been given up.
    pub stopped: &'a (dyn Fn() -> bool + Sync),
    /// Takes what may hold it. Called from several threads, in no order.
    pub found: &'a (dyn Fn(Found<'_>) + Sync),
    /// Takes the id of a wanted session of which a record, or all of it, could not be read, so that what it holds may
    /// have been missed. Called from several threads, any number of times for one session.
    pub unread: &'a (dyn Fn(&str) + Sync),
}

/// What of one message may hold what is looked for: parts, or the error it ended in.
///
/// A message may be handed over several times, each part of it once.
pub struct Found<'a> {
    /// The session.
    pub session: &'a str,
    /// The message.
    pub message: &'a str,
    /// Who it is from, if that was asked for.
    pub role: Option<Role>,
    /// The parts, as [`Source::conversation`] gives them.
    pub parts: &'a [Part],
    /// The error of the message, when that is what its record may hold: searches look through errors, too.
    pub error: Option<&'a MessageError>,
}

/// A history that is read in place and never written to (DESIGN §10). One for each format and generation.
///
/// All methods block; they may be called from several threads. What is on disk may change at any moment: each answer
/// is of one moment, and what cannot be read costs only itself.
pub trait Source: Send + Sync {
    /// The program that wrote the history: `opencode`, `claude-code`, `codex`, or `ledger`.
    fn name(&self) -> &'static str;

    /// The form it is stored in, for example `sqlite`. Of two sessions of one program with one id the library takes
    /// the one of the source that it was given first.
    fn generation(&self) -> &'static str;

    /// All sessions. Cheap when nothing has changed: then it is the same `Arc` again, where the source keeps one.
    ///
    /// # Errors
    /// [`SourceError`] when the history as a whole has become unreadable.
    fn list(&self) -> Result<Arc<Listing>, SourceError>;

    /// As [`Source::list`], with when it was made; one that was made less than `max_age` ago may be told again.
    ///
    /// # Errors
    /// As [`Source::list`].
    fn list_within(&self, _max_age: Duration) -> Result<(Instant, Arc<Listing>), SourceError> {
        let began = Instant::now();
        self.list().map(|listing| (began, listing))
    }

    /// What saves another process from reading what this one has read to list it, once that is worth being written: to be
    /// kept as private as the history. It holds for as long as the files it was read from are as they were.
    fn notes(&self) -> Option<Vec<u8>> {
        None
    }

    /// Takes what [`Source::notes`] gave in another process. What is of another history, of another version or damaged, is
    /// worth nothing. Given before the first listing, it saves time.
    fn recall(&self, _notes: &[u8]) {}

    /// The mark of a session's present state; `None` when it must not be kept in a cache.
    ///
    /// # Errors
    /// [`ReadError`], as [`Source::conversation`].
    fn stamp(&self, id: &str) -> Result<Option<Stamp>, ReadError>;

    /// Where it lies, without symbolic links as far as it is there: what an index of it is named after. `None`: it is
    /// never indexed.
    fn place(&self) -> Option<&Path> {
        None
    }

    /// As [`Source::stamp`], but the same in every process and after a restart: to be kept on disk. It does not tell
    /// whether the header is the same.
    ///
    /// # Errors
    /// As [`Source::stamp`].
    fn lasting(&self, id: &str) -> Result<Option<Stamp>, ReadError> {
        self.stamp(id)
    }

    /// What has become of sessions since they had these lasting marks, in their order. Cheaper than asking for each.
    /// Who asks first behind a listing, within a second, may be told what was so as it was made.
    ///
    /// # Errors
    /// [`SourceError`] when the history as a whole has become unreadable.
    fn since(&self, known: &[(&str, Stamp)], _look: Look) -> Result<Vec<Since>, SourceError> {
        let one = |(id, mark): &(&str, Stamp)| match self.lasting(id) {
            Ok(Some(now)) if now == *mark => Since::Same,
            _ => Since::Changed,
        };
        Ok(known.iter().map(one).collect())
    }

    /// A lasting mark of the whole history, headers too: while it is the same, nothing at all has changed. `None` where
    /// there is no cheap one, or something was written so lately that the file system's clock may not tell.
    fn whole(&self) -> Option<Stamp> {
        None
    }

    /// Whether a quick look may take a session for the same in which something was changed: whoever goes by it looks closely
    /// now and then, and behind a close look alone [`Source::whole`] stands for everything.
    fn overlooks(&self) -> Overlooks {
        Overlooks::Nothing
    }

    /// Reads of a session what is not as it was `known`: the states of its messages, by their ids, as this has told them.
    /// Nothing known: all is read. What was left out of messages that are the same is not told again: know nothing of a
    /// session that was not read whole.
    ///
    /// # Errors
    /// As [`Source::lasting`].
    fn read_since(&self, id: &str, _known: &HashMap<&str, u64>) -> Result<ReadMessages, ReadError> {
        ReadMessages::all(self, id)
    }

    /// A session with all its messages.
    ///
    /// # Errors
    /// [`ReadError::Gone`] for an id the source does not have; [`ReadError::Skipped`] when its own record cannot be
    /// used any more.
    fn conversation(&self, id: &str) -> Result<Conversation, ReadError>;

    /// Looks through the raw records of the wanted sessions. Every record whose text `may_hold` is handed over parsed.
    ///
    /// # Errors
    /// [`SourceError`] when the history as a whole has become unreadable.
    fn scan(&self, scan: &Scan<'_>) -> Result<(), SourceError>;

    /// A session as turns, for `filrouge import`; memory is bounded by that session.
    ///
    /// # Errors
    /// [`ReadError`], as [`Source::conversation`].
    fn load(&self, id: &str) -> Result<LoadedSession, ReadError>;

    /// Names what no listed session leads to. Looks at everything: ask for it once per import.
    ///
    /// # Errors
    /// [`SourceError`] when the history as a whole has become unreadable.
    fn strays(&self) -> Result<Vec<Skipped>, SourceError> {
        Ok(Vec::new())
    }
}

/// Why a session cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// The source does not have it (any more).
    #[error("there is no such session")]
    Gone,
    /// Its own record cannot be used.
    #[error(transparent)]
    Skipped(#[from] Skipped),
    /// The source as a whole does not answer; the text is for a person.
    #[error("{0}")]
    Unavailable(String),
}

/// Why a history cannot be opened or listed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// There is nothing at the path.
    #[error("{} does not exist", path.display())]
    NotFound {
        /// Whose history was asked for.
        program: &'static str,
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The path holds no history of that program.
    #[error("{} holds no history of {program}", path.display())]
    Unrecognised {
        /// Whose history was asked for.
        program: &'static str,
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The operating system or the database refuses.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// What was to be read.
        path: PathBuf,
        /// What was said.
        reason: String,
    },
}

impl SourceError {
    /// What the caller can do.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotFound { program, .. } | Self::Unrecognised { program, .. } => match *program {
                "claude-code" => {
                    "give Claude Code's folder (by default ~/.claude), or its projects folder"
                }
                "codex" => "give Codex's folder (by default ~/.codex), or its sessions folder",
                _ => {
                    "give OpenCode's data folder (by default ~/.local/share/opencode), \
                     its storage or project folder, or an opencode*.db file"
                }
            },
            Self::Unreadable { .. } => "check that it may be read by whoever runs filrouge",
        }
    }
}

/// A word for reports that names a source: `opencode (sqlite)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// [`Source::name`].
    pub source: &'static str,
    /// [`Source::generation`].
    pub generation: &'static str,
}
