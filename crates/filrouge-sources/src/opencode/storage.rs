//! One storage of OpenCode as a source.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::generation::Generation;
use super::{message, neutral, session, turns};
use crate::files::canonical;
use crate::{Conversation, Listing, LoadedSession, ReadError, Skipped, Source, SourceError};

/// One storage of OpenCode as a source.
pub(super) struct OpenCode {
    generation: Box<dyn Generation>,
    /// [`Source::path`].
    at: PathBuf,
}

impl OpenCode {
    pub(super) fn new(generation: Box<dyn Generation>, at: &Path) -> Self {
        Self {
            generation,
            at: canonical(at),
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

    fn path(&self) -> Option<&Path> {
        Some(&self.at)
    }

    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        self.generation.list()
    }

    fn read(&self, id: &str) -> Result<Conversation, ReadError> {
        let session = self.generation.session(id)?;
        neutral::conversation(self.generation.as_ref(), &session)
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
