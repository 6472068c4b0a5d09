//! OpenCode's history in all its storages at once (DESIGN §10).
//!
//! `generation.rs` is what a storage gives; `tree*.rs`, `json_tree.rs` and `legacy_tree.rs` read the file storages,
//! `database.rs` and what it names the databases. What texts mean is told in `neutral*.rs` for conversations, and for
//! import in `items.rs` (messages), `parts.rs` and `turns.rs`.

mod database;
mod database_headers;
mod database_lasting;
mod database_notes;
mod database_scan;
mod database_since;
mod database_sums;
mod generation;
mod items;
mod json_tree;
mod legacy_tree;
mod merged;
mod message;
mod neutral;
mod neutral_fields;
mod neutral_message;
mod neutral_part;
mod newer_form;
mod newer_tool;
mod notes;
mod open;
mod order;
mod parts;
mod session;
mod session_message;
mod session_rows;
mod session_v2;
mod sqlite;
mod stored;
mod talk;
mod tree;
mod tree_first;
mod tree_known;
mod tree_lasting;
mod tree_listing;
mod tree_messages;
mod tree_notes;
mod tree_scan;
mod tree_since;
mod tree_stamp;
mod tree_state;
mod turns;
mod watched;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub use open::{is_usual_database, open, open_and_watch, open_at, watch, watch_at};

use crate::files::canonical;
use crate::recent::Recent;
use crate::{
    Conversation, Found, Header, Listing, LoadedSession, Look, MessageError, Overlooks, Part,
    ReadError, ReadMessages, Scan, Since, Skipped, Source, SourceError, Stamp,
};
use generation::{Generation, Record};
use tree::lock;

/// One storage of OpenCode as a source.
struct OpenCode {
    generation: Box<dyn Generation>,
    /// [`Source::place`].
    at: PathBuf,
    /// The listing with the mark it was read under.
    listed: Mutex<Option<(Stamp, Arc<Listing>)>>,
    recent: Recent,
}

impl OpenCode {
    fn new(generation: Box<dyn Generation>, at: &Path) -> Self {
        Self {
            generation,
            at: canonical(at),
            listed: Mutex::default(),
            recent: Recent::default(),
        }
    }

    /// The listing with its mark, unless nothing has changed since the mark `known`.
    fn read_listing(&self, known: Option<Stamp>) -> Result<Option<(Stamp, Listing)>, SourceError> {
        let mut listing = Listing::default();
        let Some(listed) = self.generation.news(known, &mut listing.skipped)? else {
            return Ok(None);
        };
        listing.headers = listed.headers;
        let by_place = |a: &Arc<Header>, b: &Arc<Header>| a.place().cmp(&b.place());
        listing.headers.sort_unstable_by(by_place);
        listing.skipped.sort();
        Ok(Some((listed.mark, listing)))
    }

    fn list_now(&self) -> Result<Arc<Listing>, SourceError> {
        let old = lock(&self.listed).clone();
        let known = old.as_ref().map(|(mark, _)| *mark);
        match (self.read_listing(known)?, old) {
            (None, Some((_, listing))) => Ok(listing),
            (None, None) => Ok(Arc::default()),
            (Some((mark, listing)), _) => {
                let listing = Arc::new(listing);
                *lock(&self.listed) = Some((mark, listing.clone()));
                Ok(listing)
            }
        }
    }
}

impl Source for OpenCode {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn generation(&self) -> &'static str {
        self.generation.name()
    }

    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        self.recent.list(|| self.list_now())
    }

    fn list_within(&self, max_age: Duration) -> Result<(Instant, Arc<Listing>), SourceError> {
        self.recent.within(max_age, || self.list_now())
    }

    fn recall(&self, notes: &[u8]) {
        self.generation.recall(notes);
    }

    fn notes(&self) -> Option<Vec<u8>> {
        self.generation.notes()
    }

    fn stamp(&self, id: &str) -> Result<Option<Stamp>, ReadError> {
        self.generation.stamp(id)
    }

    fn place(&self) -> Option<&Path> {
        Some(&self.at)
    }

    fn lasting(&self, id: &str) -> Result<Option<Stamp>, ReadError> {
        self.generation.lasting(id)
    }

    fn since(&self, known: &[(&str, Stamp)], look: Look) -> Result<Vec<Since>, SourceError> {
        self.generation.since(known, look)
    }

    fn overlooks(&self) -> Overlooks {
        self.generation.overlooks()
    }

    fn read_since(&self, id: &str, known: &HashMap<&str, u64>) -> Result<ReadMessages, ReadError> {
        match self.generation.read_since(id, known)? {
            Some(read) => Ok(neutral::read_messages(self.generation.as_ref(), read)),
            None => ReadMessages::all(self, id),
        }
    }

    fn whole(&self) -> Option<Stamp> {
        self.generation.whole()
    }

    fn conversation(&self, id: &str) -> Result<Conversation, ReadError> {
        let session = self.generation.session(id)?;
        neutral::conversation(self.generation.as_ref(), &session)
    }

    fn scan(&self, scan: &Scan<'_>) -> Result<(), SourceError> {
        let found = |record: &Record<'_>, parts: &[Part], error: Option<&MessageError>| {
            (scan.found)(Found {
                session: record.session,
                message: record.message,
                role: record.role,
                parts,
                error,
            });
        };
        self.generation.scan(scan, &|record| match record.part {
            Some(part) => {
                let owner = neutral_part::Owner {
                    session: record.session,
                    message: record.message,
                    part,
                };
                match neutral_part::read(&owner, record.text) {
                    Ok(read) => found(record, std::slice::from_ref(&read.part), None),
                    Err(_) => (scan.unread)(record.session),
                }
            }
            None => {
                if let Some(error) = neutral_message::error_of(record.text) {
                    found(record, &[], Some(&error));
                }
            }
        })
    }

    fn load(&self, id: &str) -> Result<LoadedSession, ReadError> {
        let text = self.generation.session(id)?;
        let mut header = session::Foreign::read(self.generation.name(), &text)?;
        let mut skipped = Vec::new();
        self.generation
            .beside(&text, &mut header.metadata, &mut skipped);
        let mut left_out = Vec::new();
        let texts = self.generation.messages(&text, &mut left_out)?;
        let place = message::Place {
            generation: self.generation.as_ref(),
            session: &text,
        };
        let messages = message::read_all(&place, texts, left_out, &mut skipped);
        message::describe(&messages.read, &mut header.session);
        let session = &mut header.session;
        session.agent = session.agent.take().or(text.agent.clone());
        session.directory = session.directory.take().or(text.directory.clone());
        let turns = turns::build(&place, messages, &mut skipped);
        tracing::debug!(
            turns = turns.len(),
            skipped = skipped.len(),
            "loaded an OpenCode session"
        );
        skipped.sort();
        Ok(LoadedSession {
            session: header.finish(),
            turns,
            skipped,
        })
    }

    fn strays(&self) -> Result<Vec<Skipped>, SourceError> {
        let mut skipped = Vec::new();
        self.generation.strays(&mut skipped)?;
        Ok(skipped)
    }
}
