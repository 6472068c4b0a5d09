//! How far a generation is filled, as the process that fills it knows, and the next changes.

use std::collections::{BTreeSet, HashMap};

use filrouge_engine::{ChangedSession, Engine, Extent};
use filrouge_store::ledger::Position;
use filrouge_types::Failure;

use crate::position::has_reached;
use crate::projection::Projection;
use crate::reading::read_unmasked;
use crate::selection::Selection;
use crate::state::Filled;
use crate::target::{SessionKey, SessionUpdate};

/// The number of commits that are examined at once.
pub(crate) const COMMITS_PER_PAGE: usize = 256;
/// The maximum number of sessions of which the feed remembers that they were read entirely.
const REMEMBERED_MAX: usize = 100_000;

/// The sessions of the selected tenants that the ledger has now.
///
/// # Errors
/// The ledger's errors.
pub(crate) async fn selected_sessions(
    engine: &Engine,
    selection: &Selection,
) -> Result<BTreeSet<SessionKey>, Failure> {
    let (mut sessions, mut after) = (BTreeSet::new(), Position::default());
    loop {
        let feed = &engine.index_feed;
        let changed = feed.changed_after(after.clone(), COMMITS_PER_PAGE).await?;
        let Some(changed) = changed.filter(|changed| changed.end != after) else {
            return Ok(sessions);
        };
        for session in changed.sessions {
            let key = SessionKey {
                tenant: session.tenant,
                session: session.session,
            };
            if session.erased {
                sessions.remove(&key);
            } else if selection.has_tenant(&key.tenant) {
                sessions.insert(key);
            }
        }
        after = changed.end;
    }
}

/// The reader of the changes for a generation.
pub(crate) struct Feed {
    pub(crate) generation: u64,
    /// The position up to which this process has read; in the note it may be behind.
    pub(crate) position: Position,
    began_at: Position,
    pub(crate) page: Option<Page>,
    /// The version of sessions that this process has written entirely: earlier changes need not be read again.
    pub(crate) written: HashMap<SessionKey, u64>,
}

/// The sessions of the next commits.
pub(crate) struct Page {
    pub(crate) sessions: Vec<ChangedSession>,
    pub(crate) end: Position,
    /// The number of sessions that are done.
    pub(crate) completed: usize,
    /// The number of the store's commits.
    pub(crate) newest: u64,
}

impl Feed {
    pub(crate) fn new(filled: &Filled) -> Self {
        Self {
            generation: filled.generation,
            position: Position::from(&filled.position),
            began_at: Position::from(&filled.began_at),
            page: None,
            written: HashMap::new(),
        }
    }

    /// Whether this feed continues from the state in the note: no other process has filled the generation further.
    pub(crate) fn continues(&self, filled: &Filled) -> bool {
        self.generation == filled.generation
            && has_reached(&self.position, &Position::from(&filled.position))
    }

    /// Reads the next page, unless one is being processed. Returns false if the position is no commit of this store.
    pub(crate) async fn load_page(&mut self, engine: &Engine) -> Result<bool, Failure> {
        if self.page.is_some() {
            return Ok(true);
        }
        let feed = &engine.index_feed;
        let changed = feed.all_changed_after(self.position.clone(), COMMITS_PER_PAGE);
        let Some(changed) = changed.await? else {
            return Ok(false);
        };
        if changed.unreadable > 0 {
            tracing::warn!(
                sessions = changed.unreadable,
                "changed sessions have no readable row in the ledger; they are left out of projections"
            );
        }
        self.page = Some(Page {
            sessions: changed.sessions,
            end: changed.end,
            completed: 0,
            newest: changed.newest,
        });
        Ok(true)
    }

    /// Whether the generation never had the contents that the change erased.
    pub(crate) fn never_had(&self, engine: &Engine, changed: &ChangedSession) -> bool {
        let lanes = engine.ledger().lanes();
        let lane = lanes.of_session(&changed.tenant, &changed.session);
        changed.newest <= self.began_at.lane(lane).commit_no
    }

    /// Whether this process has written the state after the change, or a later one.
    pub(crate) fn has_written(&self, key: &SessionKey, changed: &ChangedSession) -> bool {
        let written = self.written.get(key);
        written.is_some_and(|version| *version >= changed.newest)
    }

    pub(crate) fn remember(&mut self, key: SessionKey, version: u64) {
        if self.written.len() >= REMEMBERED_MAX {
            self.written.clear();
        }
        self.written.insert(key, version);
    }
}

/// A session as the feed reads it.
pub(crate) struct ReadChange {
    pub(crate) update: SessionUpdate,
    /// Whether one of the changes is a redaction.
    pub(crate) is_redacted: bool,
}

/// Reads the turns of a session that changed, or the entire session if its other rows may have changed too. `None` if
/// the session does not exist any more.
pub(crate) async fn read_change(
    engine: &Engine,
    projection: &Projection,
    changed: &ChangedSession,
    is_entire: bool,
) -> Result<Option<ReadChange>, Failure> {
    let key = SessionKey {
        tenant: changed.tenant.clone(),
        session: changed.session.clone(),
    };
    let is_entire = is_entire || changed.must_reread_entirely || changed.is_patched;
    let extent = match is_entire {
        true => Extent::Entire,
        false => Extent::Turns(changed.seq_ranges.clone()),
    };
    let Some(mut update) = read_unmasked(engine, &key, extent).await? else {
        return Ok(None);
    };
    let is_redacted = changed.adds_redaction(&update.recorded);
    // A turn that replaces another one also changes that one.
    let replaces = update
        .recorded
        .turns
        .iter()
        .any(|(turn, _)| turn.record_version > 1);
    if !is_entire && (is_redacted || replaces) {
        match read_unmasked(engine, &key, Extent::Entire).await? {
            Some(entire) => update = entire,
            None => return Ok(None),
        }
    }
    projection.selection.apply(&mut update);
    Ok(Some(ReadChange {
        update,
        is_redacted,
    }))
}
