//! One storage of OpenCode as a source.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::generation::Generation;
use super::written::Written;
use super::{neutral, session};
use crate::files::canonical;
use crate::turns_of;
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
        Ok(neutral::conversation(self.generation.as_ref(), &session)?.0)
    }

    fn load(&self, id: &str) -> Result<LoadedSession, ReadError> {
        let text = self.generation.session(id)?;
        let mut header = session::Foreign::read(self.generation.name(), &text)?;
        let mut skipped = Vec::new();
        self.generation
            .beside(&text, &mut header.metadata, &mut skipped);
        let generation = self.generation.as_ref();
        let (conversation, texts) = neutral::conversation(generation, &text)?;
        let session = &mut header.session;
        let mut agents = conversation.messages.iter();
        let first = agents.find_map(|message| message.agent.clone());
        session.agent = first.or(session.agent.take());
        let written = Written::of((generation, &text), &texts, &conversation.skipped);
        let mut loaded = turns_of::load(header.finish(), "opencode", &conversation, &written);
        loaded.skipped.append(&mut skipped);
        loaded.skipped.sort();
        Ok(loaded)
    }

    fn strays(&self) -> Result<Vec<Skipped>, SourceError> {
        let mut skipped = Vec::new();
        self.generation.strays(&mut skipped)?;
        Ok(skipped)
    }
}
