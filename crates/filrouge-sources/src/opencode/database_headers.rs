//! The headers of the sessions in a database: each is made once while its row says the same.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::database::hashed;
use super::session;
use super::session_rows::SessionRow;
use super::stored::Kind;
use super::tree::lock;
use crate::{Header, Skipped, Stamp};

/// Headers with marks of what they were made of.
type OfKind = HashMap<Box<str>, (Stamp, Arc<Header>)>;

/// The headers of a database, by kind and id.
#[derive(Default)]
pub(super) struct Headers(Mutex<HashMap<Kind, OfKind>>);

impl Headers {
    /// The header of a session.
    pub(super) fn of(&self, kind: Kind, row: &SessionRow) -> Result<Arc<Header>, Skipped> {
        let mut headers = lock(&self.0);
        let of_kind = headers.entry(kind).or_default();
        let (id, mark) = (&row.session.id, hashed(&row.session));
        if let Some((old, header)) = of_kind.get(id)
            && *old == mark
        {
            return Ok(header.clone());
        }
        let header = session::header(kind.name(), &row.session).map(Arc::new)?;
        of_kind.insert(id.clone(), (mark, header.clone()));
        Ok(header)
    }

    /// Forgets the sessions of a kind that are not `there`.
    pub(super) fn retain(&self, kind: Kind, there: impl Fn(&str) -> bool) {
        if let Some(of_kind) = lock(&self.0).get_mut(&kind) {
            of_kind.retain(|id, _| there(id));
        }
    }
}
