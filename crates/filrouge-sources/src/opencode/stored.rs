//! The three generations that a database can hold, as [`Generation`]s.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use filrouge_sqlite::foreign::{ForeignError, Reader, Value};

use super::database::Database;
use super::generation::{Generation, MessageText, SessionText};
use super::kind::Kind;
use super::layout::add_diff;
use super::row_place::{Place, read_error, source_error, tolerate};
use super::session_rows::SESSION_V2;
use super::{session_message, sqlite};
use crate::files::{Files, Folder};
use crate::object::Writer;
use crate::{Listing, ReadError, SkipReason, Skipped, SourceError};

/// One generation in a database.
pub(super) struct Stored {
    pub(super) kind: Kind,
    pub(super) database: Arc<Database>,
}

impl Generation for Stored {
    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        self.database.list(self.kind).map_err(source_error)
    }

    fn session(&self, id: &str) -> Result<SessionText, ReadError> {
        self.database
            .row(self.kind.table(), id)
            .map(|row| row.session)
    }

    fn messages(
        &self,
        session: &SessionText,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Vec<MessageText>, ReadError> {
        let talk = self.database.talk(self.kind.table(), session);
        let (messages, mut left_out) = talk.map_err(read_error)?.finish();
        skipped.append(&mut left_out);
        Ok(messages)
    }

    fn place(&self, _session: &SessionText, message: &str, part: Option<&str>) -> PathBuf {
        let place = self.database.place();
        match (self.kind, part) {
            // Parts have no row of their own.
            (Kind::SessionV2 | Kind::SessionMessage, _) => place.of("session_message", message),
            (Kind::Sqlite, None) => place.of("message", message),
            (Kind::Sqlite, Some(part)) => place.of("part", part),
        }
    }

    fn beside(&self, session: &SessionText, metadata: &mut Writer, skipped: &mut Vec<Skipped>) {
        let read = self
            .database
            .schema()
            .and_then(|schema| match schema.has("todo") {
                true => self
                    .database
                    .foreign
                    .read(|reader| todo(reader, self.database.place(), &session.id)),
                false => Ok((None, Vec::new())),
            });
        match read {
            Ok((todo, mut left_out)) => {
                if let Some(todo) = todo {
                    metadata.raw("todo", &todo);
                }
                skipped.append(&mut left_out);
            }
            Err(why) => {
                let at = self.database.place().of("todo", &session.id);
                skipped.push(Skipped::new(&at, SkipReason::Unreadable, why.to_string()));
            }
        }
        if let Err(why) = self.session_diff(&session.id, metadata) {
            skipped.push(why);
        }
    }

    fn strays(&self, skipped: &mut Vec<Skipped>) -> Result<(), SourceError> {
        let schema = self.database.schema().map_err(source_error)?;
        let newer = match schema.has(SESSION_V2) {
            true => Kind::SessionV2,
            false => Kind::SessionMessage,
        };
        let place = self.database.place();
        let read = self.database.foreign.read(|reader| {
            let mut found = Vec::new();
            if self.kind == Kind::Sqlite {
                sqlite::strays(reader, &schema, place, &mut found)?;
            }
            if self.kind == newer && schema.has("session_message") {
                session_message::strays(reader, &schema, place, &mut found)?;
            }
            Ok(found)
        });
        skipped.append(&mut read.map_err(source_error)?);
        Ok(())
    }
}

impl Stored {
    /// OpenCode 1.2 and later still write a session's differences as a file, some versions for some sessions.
    fn session_diff(&self, session: &str, metadata: &mut Writer) -> Result<(), Skipped> {
        let root = self.database.shown.parent().map(Path::to_owned);
        let root = root.filter(|root| !root.as_os_str().is_empty());
        let files = Files {
            root: root.unwrap_or_else(|| PathBuf::from(".")),
        };
        let folder = files.folder(Path::new("storage/session_diff"))?;
        // Only what a listing names is opened.
        let is_listed =
            |folder: &Folder| folder.ids(&mut Vec::new()).iter().any(|id| id == session);
        match folder.filter(is_listed) {
            Some(folder) => add_diff(&folder, session, metadata),
            None => Ok(()),
        }
    }
}

/// A session's list of things to do, as the tree keeps it.
fn todo(
    reader: &Reader<'_>,
    place: Place<'_>,
    session: &str,
) -> Result<(Option<String>, Vec<Skipped>), ForeignError> {
    let mut entries = Vec::new();
    let mut skipped = Vec::new();
    let sql = "SELECT content, status, priority FROM todo WHERE session_id = ?1 ORDER BY position";
    let asked = reader.query(sql, &[Value::Text(session)], |row| {
        let mut entry = Writer::default();
        for (column, key) in ["content", "status", "priority"].into_iter().enumerate() {
            if let Some(text) = row.text(column) {
                entry.text(key, text);
            }
        }
        entries.push(entry.finish());
        ControlFlow::Continue(())
    });
    tolerate(asked, &place.of("todo", session), &mut skipped)?;
    let list = (!entries.is_empty()).then(|| format!("[{}]", entries.join(",")));
    Ok((list, skipped))
}
