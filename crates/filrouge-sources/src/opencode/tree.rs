//! Implements [`Storage`] for OpenCode's two file storages.

use std::path::PathBuf;
use std::sync::Arc;

use super::storage::{MessageText, SessionText, Storage};
use super::tree_listing::FileTree;
use super::tree_messages::TreeReader;
use crate::files::is_id;
use crate::object::Writer;
use crate::{Fingerprint, Header, Listing, ReadError, Skipped, SourceError};

impl Storage for FileTree {
    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        self.listing()
    }

    fn fingerprint(&self, header: &Header) -> Option<Fingerprint> {
        self.session_fingerprint(header)
    }

    fn session(&self, id: &str) -> Result<SessionText, ReadError> {
        self.check_root()?;
        // Only ids that a listing can contain are searched for.
        let record = match is_id(id) {
            true => self.find_record(id)?,
            false => None,
        };
        record.ok_or(ReadError::Gone)
    }

    fn messages(
        &self,
        session: &SessionText,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Vec<MessageText>, ReadError> {
        let key = (&*session.folder, &*session.id);
        let Some((reader, ids)) = TreeReader::open(&self.layout, key, skipped) else {
            return Ok(Vec::new());
        };
        let read = ids.iter().filter_map(|id| reader.read_message(id, skipped));
        Ok(read.collect())
    }

    fn place(&self, session: &SessionText, message: &str, part: Option<&str>) -> PathBuf {
        let root = &self.layout.files.root;
        let (folder, id) = (&session.folder, &session.id);
        let dir = match part {
            None => self.layout.message_dir(folder, id),
            Some(_) => self.layout.part_root(folder, id).join(message),
        };
        let file = format!("{}.json", part.unwrap_or(message));
        root.join(dir).join(file)
    }

    fn add_extras(&self, session: &SessionText, metadata: &mut Writer, skipped: &mut Vec<Skipped>) {
        self.layout.add_extras(&session.id, metadata, skipped);
    }

    fn add_orphans(&self, skipped: &mut Vec<Skipped>) -> Result<(), SourceError> {
        self.check_root()?;
        self.layout.add_orphans(skipped);
        Ok(())
    }
}
