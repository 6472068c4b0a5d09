//! Sample sessions and an in-memory source for tests. With the feature `samples`, tests of other crates can use them
//! too.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::{
    Conversation, Fingerprint, Header, Listing, LoadedSession, Message, Part, PartKind, ReadError,
    Role, SkipReason, Skipped, Source, SourceError, TokenRule, Tool, ToolStatus,
};

/// A session: its header, its conversation, and the number of times that it was replaced.
pub type Session = (Arc<Header>, Conversation, u64);

/// A source whose sessions a test creates and changes.
#[derive(Default)]
pub struct MemorySource {
    /// The sessions by id.
    pub sessions: Mutex<BTreeMap<Box<str>, Session>>,
    /// The number of reads of conversations.
    pub reads: AtomicUsize,
    /// The number of listings.
    pub lists: AtomicUsize,
    /// The id of a session that cannot be read.
    pub unreadable: Option<Box<str>>,
    /// The records that listings leave out.
    pub skipped: Mutex<Vec<Skipped>>,
    /// Whether headers lack fingerprints, so that nothing may be cached.
    pub without_fingerprints: bool,
    /// Whether listing the source fails.
    pub broken: bool,
}

impl MemorySource {
    /// Adds or replaces a session.
    ///
    /// # Panics
    /// When another thread panicked while it held the lock on the sessions.
    pub fn put(&self, header: Header, conversation: Conversation) {
        let mut sessions = self.sessions.lock().unwrap();
        let version = sessions.get(&header.id).map_or(0, |old| old.2 + 1);
        let id = header.id.clone();
        sessions.insert(id, (Arc::new(header), conversation, version));
    }

    /// The number of reads of conversations.
    pub fn read_count(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }
}

/// A header with this id; `at` is the time of its creation and of its last change.
pub fn header(id: &str, at: i64) -> Header {
    Header {
        id: id.into(),
        source: "opencode",
        generation: "made",
        parent_id: None,
        fork_of: None,
        project_id: None,
        project_name: None,
        worktree: None,
        directory: None,
        title: Some(format!("Title of {id}").into()),
        title_is_derived: false,
        agent: None,
        agents: Vec::new(),
        version: None,
        created: at,
        updated: at,
        archived: None,
        changes: None,
        damaged: false,
        fingerprint: None,
    }
}

/// A conversation without compactions.
pub fn conversation(messages: Vec<Message>) -> Conversation {
    Conversation {
        messages,
        boundaries: Vec::new(),
        reverted_at: None,
        token_rule: TokenRule::OpencodeApart,
        skipped: Vec::new(),
    }
}

/// A report of a record that could not be read.
pub fn torn() -> Skipped {
    Skipped::new(Path::new("made"), SkipReason::Torn, "torn")
}

/// A message with this id.
pub fn message(id: &str, role: Role, parts: Vec<Part>) -> Message {
    Message {
        parts,
        ..Message::new(id.into(), role, 0)
    }
}

/// A part with this id.
pub fn part(id: &str, kind: PartKind) -> Part {
    Part {
        id: id.into(),
        seq: None,
        start: None,
        end: None,
        kind,
    }
}

/// A text that is not synthetic.
pub fn text(id: &str, text: &str) -> Part {
    let text = text.into();
    part(
        id,
        PartKind::Text {
            text,
            synthetic: false,
        },
    )
}

/// A completed call of `bash`.
pub fn tool(output: Option<&str>) -> Tool {
    Tool {
        call_id: "call".into(),
        name: "bash".into(),
        status: ToolStatus::Completed,
        input: r#"{"command":"ls"}"#.into(),
        output: output.map(Into::into),
        error: None,
        title: None,
        pruned: None,
        child: None,
        changes: None,
        files: Vec::new(),
        result: None,
    }
}

impl Source for MemorySource {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        if self.broken {
            let path = "made".into();
            return Err(SourceError::NotFound { path });
        }
        let listed = |(header, _, version): &Session| {
            Arc::new(Header {
                fingerprint: (!self.without_fingerprints).then_some(Fingerprint(*version, 0)),
                ..Header::clone(header)
            })
        };
        let sessions = self.sessions.lock().unwrap();
        Ok(Arc::new(Listing {
            headers: sessions.values().map(listed).collect(),
            skipped: self.skipped.lock().unwrap().clone(),
            ..Listing::default()
        }))
    }

    fn path(&self) -> Option<&Path> {
        Some(Path::new("/made"))
    }

    fn read(&self, id: &str) -> Result<Conversation, ReadError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        if self.unreadable.as_deref() == Some(id) {
            return Err(torn().into());
        }
        let sessions = self.sessions.lock().unwrap();
        let session = sessions.get(id).ok_or(ReadError::Gone)?;
        Ok(session.1.clone())
    }

    fn load(&self, id: &str) -> Result<LoadedSession, ReadError> {
        let why = "a sample session has no turns";
        Err(Skipped::new(Path::new(id), SkipReason::WrongKind, why).into())
    }
}
