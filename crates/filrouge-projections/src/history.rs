//! The history of another program, which a projection can copy instead of the ledger. It is read in place, and has no
//! feed of changes: scans of its headers are compared with what a generation has.

pub(crate) mod feed;
pub(crate) mod sums;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use filrouge_sources::library::export::recorded;
use filrouge_sources::library::{Catalog, Entry};
use filrouge_sources::{
    Fingerprint, Header, Library, LibraryError, ReadError, SkipReason, Skipped, Source,
    on_two_threads,
};
use filrouge_types::{
    Channel, ErrorCode, Failure, ItemBody, ProjectId, RawJson, Recorded, SessionId, TenantId,
    TurnId, lock,
};
use sha2::{Digest, Sha256};

use crate::content::session_digest;
use crate::target::{SessionKey, SessionUpdate};
use sums::{GroupSums, group_of};

/// Two threads compute the stamps of sessions if each has at least this many.
const SESSIONS_PER_THREAD: usize = 16;

/// Opens the sources of a history. Fails with a text if there is none.
type OpenSources = dyn Fn() -> Result<Vec<Arc<dyn Source>>, String> + Send + Sync;

/// The history of another program.
pub struct ForeignHistory {
    /// The tenant that its sessions get.
    pub(crate) tenant: TenantId,
    open: Box<OpenSources>,
    /// The history, once it could be opened.
    library: Mutex<Option<Library>>,
}

impl ForeignHistory {
    /// The version of the turns and items that are made of a history. When it changes, projections are rebuilt.
    pub const FORM: u32 = 1;

    /// A history whose sessions get this tenant. `open` is called in every scan, and fails while there is no history.
    pub fn new(
        tenant: TenantId,
        open: impl Fn() -> Result<Vec<Arc<dyn Source>>, String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            tenant,
            open: Box::new(open),
            library: Mutex::default(),
        }
    }

    /// Opens the history, and reads nothing of it.
    ///
    /// # Errors
    /// `store_unavailable` if there is no history.
    pub(crate) async fn check(self: &Arc<Self>) -> Result<(), Failure> {
        let history = Arc::clone(self);
        blocking(move || (history.open)().map(drop).map_err(unavailable)).await
    }

    /// Lists the sessions.
    ///
    /// # Errors
    /// `store_unavailable` if the history, or one of its files, cannot be read: a session that is not listed was
    /// removed.
    pub(crate) async fn scan(self: &Arc<Self>) -> Result<Arc<Scan>, Failure> {
        let history = Arc::clone(self);
        blocking(move || history.scan_now()).await
    }

    fn scan_now(&self) -> Result<Arc<Scan>, Failure> {
        let library = self.library()?;
        let catalog = library.catalog();
        // A source whose folder is gone lists no sessions, as before the first one.
        (self.open)().map_err(unavailable)?;
        let mut skipped = catalog.skipped.iter();
        let unreadable = skipped.find(|skipped| skipped.reason == SkipReason::Unreadable);
        let unreadable = unreadable.map(Skipped::to_string);
        match catalog.unavailable.first().cloned().or(unreadable) {
            Some(why) => Err(unavailable(why)),
            None => Ok(Arc::new(Scan::new(library, self.tenant.clone(), &catalog))),
        }
    }

    fn library(&self) -> Result<Library, Failure> {
        let mut library = lock(&self.library);
        if let Some(library) = &*library {
            return Ok(library.clone());
        }
        let sources = (self.open)().map_err(unavailable)?;
        // Each session is read once, so nothing is cached.
        Ok(library.insert(Library::new(sources, 0)).clone())
    }
}

/// A session as a scan lists it.
pub(crate) struct Listed {
    entry: Entry,
    /// Changes whenever the session's rows could; `None` if that cannot be determined.
    pub(crate) stamp: Option<u64>,
}

/// The sessions of a history at one moment.
pub(crate) struct Scan {
    library: Library,
    tenant: TenantId,
    pub(crate) sessions: BTreeMap<SessionId, Listed>,
    pub(crate) sums: GroupSums,
}

impl Scan {
    fn new(library: Library, tenant: TenantId, catalog: &Catalog) -> Self {
        let sources = library.sources();
        let stamps = on_two_threads(&catalog.entries, SESSIONS_PER_THREAD, |entry| {
            stamp(&**sources.get(entry.source)?, &entry.header)
        });
        let (mut sessions, mut sums) = (BTreeMap::new(), GroupSums::of_nothing());
        for (entry, stamp) in catalog.entries.iter().zip(stamps) {
            let Ok(session) = SessionId::new(&*entry.header.id) else {
                tracing::warn!(
                    "a session's id is no id of a session of the ledger; it is left out"
                );
                continue;
            };
            sums.add(group_of(&session), &session, stamp);
            let entry = entry.clone();
            sessions.insert(session, Listed { entry, stamp });
        }
        Self {
            library,
            tenant,
            sessions,
            sums,
        }
    }

    /// The key of a session of this history.
    pub(crate) fn key(&self, session: &SessionId) -> SessionKey {
        SessionKey {
            tenant: self.tenant.clone(),
            session: session.clone(),
        }
    }

    /// The keys of all sessions.
    pub(crate) fn keys(&self) -> impl Iterator<Item = SessionKey> {
        self.sessions.keys().map(|session| self.key(session))
    }

    /// Reads a session as it is now, with everything that the history has. `None` if the scan lacks it, or the history
    /// does not have it any more.
    ///
    /// # Errors
    /// `integrity_error` if this session cannot be read; `store_unavailable` if the history cannot.
    pub(crate) async fn read(
        self: &Arc<Self>,
        session: &SessionId,
        version: u64,
    ) -> Result<Option<SessionUpdate>, Failure> {
        let (scan, session) = (Arc::clone(self), session.clone());
        blocking(move || scan.read_now(&session, version)).await
    }

    fn read_now(
        &self,
        session: &SessionId,
        version: u64,
    ) -> Result<Option<SessionUpdate>, Failure> {
        let Some(listed) = self.sessions.get(session) else {
            return Ok(None);
        };
        let mut recorded = match recorded(&self.library, &listed.entry, false) {
            Ok(recorded) => recorded,
            Err(LibraryError::NoSession(_)) => return Ok(None),
            Err(error) => return Err(to_failure(&error)),
        };
        let key = self.key(session);
        complete(&mut recorded, &listed.entry.header, &key);
        Ok(Some(SessionUpdate {
            key,
            version,
            is_entire: true,
            recorded,
            events: Vec::new(),
            checkpoints: Vec::new(),
        }))
    }
}

/// Adds what the turns and items of a document lack.
fn complete(recorded: &mut Recorded, header: &Header, key: &SessionKey) {
    let session = &mut recorded.session;
    let project = header.project_id.as_deref();
    session.tenant_id = key.tenant.clone();
    session.project_id = project.and_then(|id| ProjectId::new(id).ok());
    session.title_is_derived = header.title_is_derived;
    session.metadata = RawJson::from_checked(header.origin().to_string());
    for (turn, items) in &mut recorded.turns {
        turn.turn_id = turn_id(key, turn.ordinal);
        let answer = items
            .iter()
            .rfind(|item| item.body.channel == Channel::Final);
        turn.answer_neutral = answer.map(|item| &item.body).and_then(ItemBody::text);
        for item in items {
            item.turn_id = Some(turn.turn_id);
        }
    }
}

/// The id of a turn, by its position.
fn turn_id(key: &SessionKey, ordinal: u64) -> TurnId {
    let mut hash = Sha256::new();
    hash.update(session_digest(key));
    hash.update(ordinal.to_be_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&hash.finalize()[..16]);
    TurnId::from_derived(id)
}

/// A hash of everything of which the rows of a session are made.
fn stamp(source: &dyn Source, header: &Header) -> Option<u64> {
    let fingerprint = source.fingerprint(header)?;
    let texts = [
        &header.parent_id,
        &header.project_id,
        &header.project_name,
        &header.worktree,
        &header.directory,
        &header.title,
        &header.agent,
        &header.version,
    ];
    let times = (header.created, header.updated, header.archived);
    Some(Fingerprint::compute(&(fingerprint, texts, times)).0)
}

/// Runs what blocks outside the threads of asynchronous tasks.
async fn blocking<T: Send + 'static>(
    run: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let result = tokio::task::spawn_blocking(run).await;
    result.unwrap_or_else(|error| Err(unavailable(error.to_string())))
}

fn unavailable(why: impl Into<String>) -> Failure {
    ErrorCode::StoreUnavailable.failure(why)
}

fn to_failure(error: &LibraryError) -> Failure {
    let code = match error {
        LibraryError::Unreadable(_, ReadError::Unavailable(_)) => ErrorCode::StoreUnavailable,
        _ => ErrorCode::IntegrityError,
    };
    code.failure(error.to_string())
}
