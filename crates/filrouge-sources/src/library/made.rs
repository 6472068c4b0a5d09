//! A source in memory, for tests: also those of crates that ask a library (feature `made`).
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::{
    Conversation, Found, Header, Listing, LoadedSession, Look, Message, Overlooks, Part, PartKind,
    ReadError, ReadMessages, Role, Scan, Since, SkipReason, Skipped, Source, SourceError, Stamp,
    TokenRule, Tool, ToolStatus,
};

/// What a session is now, and how often it has changed.
pub type Session = (Arc<Header>, Conversation, u64);

/// Sessions that a test has made, and can change.
#[derive(Default)]
pub struct Made {
    /// The sessions by their ids.
    pub sessions: Mutex<BTreeMap<Box<str>, Session>>,
    /// How often a conversation was read.
    pub reads: AtomicUsize,
    /// How often it was listed.
    pub lists: AtomicUsize,
    /// The session that a scan cannot read.
    pub unread: Option<Box<str>>,
    /// No stamps: nothing may be kept.
    pub unstamped: bool,
    /// Sessions of which a quick look overlooks what has changed; `None`: it overlooks nothing.
    pub overlooked: Option<Mutex<BTreeSet<Box<str>>>>,
    /// Whether close looks are taken at all sessions together.
    pub together: bool,
    /// Sessions that were looked at closely.
    pub closely: AtomicUsize,
    /// Messages that were read for an index.
    pub messages: AtomicUsize,
    /// The mark of the whole history, where it has one.
    pub mark: Mutex<Option<Stamp>>,
    /// Sessions that were compared with what is known of them.
    pub compared: AtomicUsize,
    /// Whether it cannot be listed.
    pub broken: bool,
    /// What it notes for other processes.
    pub noted: Mutex<Option<Vec<u8>>>,
    /// The notes that it was given.
    pub recalled: Mutex<Vec<Vec<u8>>>,
    /// The last listing, told again to who asks for no newer one.
    pub recent: Mutex<Option<(Instant, Arc<Listing>)>>,
}

impl Made {
    /// Puts a session, or replaces it.
    ///
    /// # Panics
    /// When a test has failed while it held the sessions.
    pub fn put(&self, header: Header, conversation: Conversation) {
        let mut sessions = self.sessions.lock().unwrap();
        let version = sessions.get(&header.id).map_or(0, |old| old.2 + 1);
        let id = header.id.clone();
        sessions.insert(id, (Arc::new(header), conversation, version));
    }

    /// How often a conversation was read.
    #[must_use]
    pub fn read_count(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }
}

/// A header of the id, made and changed at that time.
#[must_use]
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
        agent: None,
        version: None,
        created: at,
        updated: at,
        archived: None,
        changes: None,
    }
}

/// A conversation without compactions.
#[must_use]
pub fn conversation(messages: Vec<Message>) -> Conversation {
    Conversation {
        messages,
        boundaries: Vec::new(),
        reverted_at: None,
        token_rule: TokenRule::OpencodeApart,
        skipped: Vec::new(),
    }
}

/// A record that could not be read.
#[must_use]
pub fn torn() -> Skipped {
    Skipped::new(Path::new("made"), SkipReason::Torn, "torn")
}

/// A message of the id.
#[must_use]
pub fn message(id: &str, role: Role, parts: Vec<Part>) -> Message {
    Message {
        id: id.into(),
        role,
        created: 0,
        completed: None,
        seq: None,
        parent_id: None,
        agent: None,
        model: None,
        tokens: None,
        cost: None,
        finish: None,
        error: None,
        summary: false,
        copied: false,
        parts,
    }
}

/// A part of the id.
#[must_use]
pub fn part(id: &str, kind: PartKind) -> Part {
    Part {
        id: id.into(),
        start: None,
        end: None,
        kind,
    }
}

/// A text as somebody said it.
#[must_use]
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
#[must_use]
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

/// A state that another message of the id has not.
fn state_of(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{message:?}").hash(&mut hasher);
    hasher.finish().max(1)
}

impl Source for Made {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn generation(&self) -> &'static str {
        "made"
    }

    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        if self.broken {
            let path = "made".into();
            return Err(SourceError::NotFound {
                program: "opencode",
                path,
            });
        }
        let began = Instant::now();
        let sessions = self.sessions.lock().unwrap();
        let listing = Arc::new(Listing {
            headers: sessions.values().map(|s| s.0.clone()).collect(),
            skipped: Vec::new(),
            truncated: false,
        });
        *self.recent.lock().unwrap() = Some((began, listing.clone()));
        Ok(listing)
    }

    fn list_within(&self, max_age: Duration) -> Result<(Instant, Arc<Listing>), SourceError> {
        let recent = self.recent.lock().unwrap().clone();
        match recent.filter(|(at, _)| at.elapsed() < max_age) {
            Some(recent) => Ok(recent),
            None => self.list().map(|listing| (Instant::now(), listing)),
        }
    }

    fn notes(&self) -> Option<Vec<u8>> {
        self.noted.lock().unwrap().take()
    }

    fn recall(&self, notes: &[u8]) {
        self.recalled.lock().unwrap().push(notes.to_vec());
    }

    fn stamp(&self, id: &str) -> Result<Option<Stamp>, ReadError> {
        let sessions = self.sessions.lock().unwrap();
        let session = sessions.get(id).ok_or(ReadError::Gone)?;
        Ok((!self.unstamped).then_some(Stamp(session.2, 0)))
    }

    fn place(&self) -> Option<&Path> {
        Some(Path::new("/made"))
    }

    fn whole(&self) -> Option<Stamp> {
        *self.mark.lock().unwrap()
    }

    fn since(&self, known: &[(&str, Stamp)], look: Look) -> Result<Vec<Since>, SourceError> {
        self.compared.fetch_add(known.len(), Ordering::SeqCst);
        if look == Look::Close {
            self.closely.fetch_add(known.len(), Ordering::SeqCst);
        }
        let overlooked = self.overlooked.as_ref().map(|all| all.lock().unwrap());
        let one = |(id, mark): &(&str, Stamp)| {
            let overlooks = overlooked.as_ref().is_some_and(|all| all.contains(*id));
            match self.stamp(id) {
                Ok(Some(_)) if overlooks && look == Look::Quick => Since::Same,
                Ok(Some(now)) if now == *mark => Since::Same,
                _ => Since::Changed,
            }
        };
        Ok(known.iter().map(one).collect())
    }

    fn overlooks(&self) -> Overlooks {
        match self.overlooked {
            None => Overlooks::Nothing,
            Some(_) if self.together => Overlooks::Together,
            Some(_) => Overlooks::BySession,
        }
    }

    fn read_since(&self, id: &str, known: &HashMap<&str, u64>) -> Result<ReadMessages, ReadError> {
        let Some(mark) = self.stamp(id)? else {
            return Ok(ReadMessages::default());
        };
        let conversation = self.conversation(id)?;
        let mut read = ReadMessages {
            mark: Some(mark),
            whole: conversation.skipped.is_empty(),
            ..ReadMessages::default()
        };
        let mut messages = Vec::new();
        for message in conversation.messages {
            let state = state_of(&message);
            if known.get(&*message.id) == Some(&state) {
                read.same.push(message.id);
                continue;
            }
            read.states.insert(message.id.clone(), state);
            messages.push(message);
        }
        self.messages.fetch_add(messages.len(), Ordering::SeqCst);
        read.messages = Some(messages);
        Ok(read)
    }

    fn conversation(&self, id: &str) -> Result<Conversation, ReadError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let sessions = self.sessions.lock().unwrap();
        let session = sessions.get(id).ok_or(ReadError::Gone)?;
        Ok(session.1.clone())
    }

    fn scan(&self, scan: &Scan<'_>) -> Result<(), SourceError> {
        for (id, session) in &*self.sessions.lock().unwrap() {
            if (scan.wanted)(id) && self.unread.as_ref() == Some(id) {
                (scan.unread)(id);
                continue;
            }
            for message in session.1.messages.iter().filter(|_| (scan.wanted)(id)) {
                (scan.found)(Found {
                    session: id,
                    message: &message.id,
                    role: Some(message.role),
                    parts: &message.parts,
                    error: message.error.as_ref(),
                });
            }
        }
        Ok(())
    }

    fn load(&self, id: &str) -> Result<LoadedSession, ReadError> {
        let why = "a made session has no turns";
        Err(Skipped::new(Path::new(id), SkipReason::WrongKind, why).into())
    }
}
