//! A group of writes before it is sent: what the rules will read is fetched together, what they put is kept until all
//! of it goes out together. Whatever was not foreseen is asked of the database, which is first told what was put, so
//! that every answer holds.

use std::cell::RefCell;

use filrouge_store::command::{Scope, SessionFilter};
use filrouge_store::record::RecordRow;
use filrouge_store::rows::{
    CheckpointRow, DraftChunk, DraftRow, EventPlace, EventRow, KeyRow, LogRow, NoteRow, SessionPk,
    Stored, TurnRow, View, event_key, item_key, request_key,
};
use filrouge_types::{
    EventKey, Failure, ItemId, RequestId, SessionId, TenantId, Timestamp, TurnId,
};
use tokio_postgres::types::Type;

use crate::rows::Rows;
use crate::session::Sql;

mod known;
mod pending;
mod put;
mod wanted;

use known::Known;
pub(crate) use pending::Pending;
pub(crate) use wanted::{Fetched, LOCK, Wanted};

/// The rows of one transaction of the writer.
pub(crate) struct Stage<'c> {
    rows: Rows<'c>,
    known: Known,
    pending: RefCell<Pending>,
    /// How often something was put.
    puts: u64,
}

impl<'c> Stage<'c> {
    pub(crate) fn new(rows: Rows<'c>, fetched: Fetched) -> Self {
        Self {
            rows,
            known: Known::new(fetched),
            pending: RefCell::default(),
            puts: 0,
        }
    }

    pub(crate) const fn puts(&self) -> u64 {
        self.puts
    }

    /// Whether a statement has failed in this transaction.
    pub(crate) fn failed(&self) -> bool {
        self.rows.session.failed()
    }

    /// What was put and has not been sent.
    pub(crate) fn into_pending(self) -> Pending {
        self.pending.into_inner()
    }

    /// The database as it is with everything that was put.
    fn sent(&self) -> Result<&Rows<'c>, Failure> {
        let mut pending = self.pending.borrow_mut();
        if !pending.is_empty() {
            let session = self.rows.session;
            let send = session.answered(pending.send(session));
            self.rows.driver.wait(send)?;
            *pending = Pending::default();
        }
        Ok(&self.rows)
    }
}

impl View for Stage<'_> {
    fn session(
        &self,
        tenant: &TenantId,
        id: &SessionId,
        scope: Option<&Scope>,
    ) -> Result<Option<Stored>, Failure> {
        match self.known.session(tenant, id) {
            Some(found) => Ok(found
                .filter(|stored| scope.is_none_or(|scope| scope.sees(&stored.row)))
                .cloned()),
            None => self.sent()?.session(tenant, id, scope),
        }
    }

    fn session_by_pk(&self, pk: SessionPk) -> Result<Option<Stored>, Failure> {
        self.sent()?.session_by_pk(pk)
    }

    fn sessions(
        &self,
        scope: &Scope,
        filter: &SessionFilter,
        before: Option<SessionPk>,
        limit: usize,
    ) -> Result<Vec<Stored>, Failure> {
        self.sent()?.sessions(scope, filter, before, limit)
    }

    fn turn(&self, pk: SessionPk, id: &TurnId) -> Result<Option<TurnRow>, Failure> {
        match self.known.turn(pk, id) {
            Some(found) => Ok(found.cloned()),
            None => self.sent()?.turn(pk, id),
        }
    }

    fn session_of_turn(&self, id: &TurnId) -> Result<Option<SessionPk>, Failure> {
        self.sent()?.session_of_turn(id)
    }

    fn turns(
        &self,
        pk: SessionPk,
        from: u64,
        to: u64,
        descending: bool,
        limit: usize,
    ) -> Result<Vec<TurnRow>, Failure> {
        if let Some(newest) = self.known.newest_turn(pk) {
            // Nothing lies behind the newest turn, as who asks for a newer version of it nearly always finds.
            if newest.is_none_or(|turn| turn.place() < from) {
                return Ok(Vec::new());
            }
            if let Some(turn) = newest.filter(|t| descending && limit == 1 && t.place() <= to) {
                return Ok(vec![turn.clone()]);
            }
        }
        self.sent()?.turns(pk, from, to, descending, limit)
    }

    fn turn_rows(&self, pk: SessionPk) -> Result<u64, Failure> {
        self.sent()?.turn_rows(pk)
    }

    fn silent_turns(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<(SessionPk, TurnRow)>, Failure> {
        self.sent()?.silent_turns(before, limit)
    }

    fn records(&self, pk: SessionPk, seq: u64, limit: usize) -> Result<Vec<RecordRow>, Failure> {
        match self.known.records(pk, seq, limit) {
            Some(found) => Ok(found),
            None => self.sent()?.records(pk, seq, limit),
        }
    }

    fn newest_seq(&self, pk: SessionPk) -> Result<u64, Failure> {
        match self.known.newest_seq(pk) {
            Some(seq) => Ok(seq),
            None => self.sent()?.newest_seq(pk),
        }
    }

    fn item_seq(&self, pk: SessionPk, id: &ItemId) -> Result<Option<u64>, Failure> {
        match self.known.key(pk, item_key(id)) {
            Some(seq) => Ok(seq),
            None => self.sent()?.item_seq(pk, id),
        }
    }

    fn request_seq(&self, pk: SessionPk, id: &RequestId) -> Result<Option<u64>, Failure> {
        match self.known.key(pk, request_key(id)) {
            Some(seq) => Ok(seq),
            None => self.sent()?.request_seq(pk, id),
        }
    }

    fn item_keys(&self, pk: SessionPk) -> Result<u64, Failure> {
        self.sent()?.item_keys(pk)
    }

    fn key_rows(
        &self,
        pk: SessionPk,
        after: Option<[u8; 16]>,
        limit: usize,
    ) -> Result<Vec<KeyRow>, Failure> {
        self.sent()?.key_rows(pk, after, limit)
    }

    fn agents(&self, pk: SessionPk) -> Result<Vec<Box<str>>, Failure> {
        self.sent()?.agents(pk)
    }

    fn log(&self, after: u64, limit: usize) -> Result<Vec<LogRow>, Failure> {
        self.sent()?.log(after, limit)
    }

    fn newest_log(&self) -> Result<Option<LogRow>, Failure> {
        // The one of this transaction is put last.
        Ok(self.known.newest_log().cloned())
    }

    fn each_session(&self, see: &mut dyn FnMut(SessionPk, Option<Stored>)) -> Result<(), Failure> {
        self.sent()?.each_session(see)
    }

    fn structure(&self) -> Result<Vec<String>, Failure> {
        self.sent()?.structure()
    }

    fn event(&self, pk: SessionPk, key: &EventKey) -> Result<Option<EventRow>, Failure> {
        match self.known.beside().event(pk, event_key(key)) {
            Some(found) => Ok(found.cloned()),
            None => self.sent()?.event(pk, key),
        }
    }

    fn events(&self, pk: SessionPk, after: u64, limit: usize) -> Result<Vec<EventRow>, Failure> {
        self.sent()?.events(pk, after, limit)
    }

    fn newest_event(&self, pk: SessionPk) -> Result<u64, Failure> {
        match self.known.beside().newest_event(pk) {
            Some(number) => Ok(number),
            None => self.sent()?.newest_event(pk),
        }
    }

    fn events_at(
        &self,
        from: Timestamp,
        to: Timestamp,
        after: Option<EventPlace>,
        limit: usize,
    ) -> Result<Vec<(SessionPk, EventRow)>, Failure> {
        self.sent()?.events_at(from, to, after, limit)
    }

    fn checkpoint(&self, pk: SessionPk, seq: u64) -> Result<Option<CheckpointRow>, Failure> {
        match self.known.beside().checkpoint(pk, seq) {
            Some(found) => Ok(found.cloned()),
            None => self.sent()?.checkpoint(pk, seq),
        }
    }

    fn checkpoint_seqs(&self, pk: SessionPk) -> Result<Vec<u64>, Failure> {
        match self.known.beside().checkpoint_seqs(pk) {
            Some(seqs) => Ok(seqs),
            None => self.sent()?.checkpoint_seqs(pk),
        }
    }

    fn note(&self, name: &str) -> Result<Option<NoteRow>, Failure> {
        self.sent()?.note(name)
    }

    fn notes(&self) -> Result<Vec<Option<NoteRow>>, Failure> {
        self.sent()?.notes()
    }

    fn draft(&self, pk: SessionPk, place: u64) -> Result<Option<DraftRow>, Failure> {
        match self.known.draft(pk, place) {
            Some(found) => Ok(found.cloned()),
            None => self.sent()?.draft(pk, place),
        }
    }

    fn drafts(&self, pk: SessionPk) -> Result<Vec<DraftRow>, Failure> {
        self.sent()?.drafts(pk)
    }

    fn draft_chunks(
        &self,
        pk: SessionPk,
        place: u64,
        after: u64,
    ) -> Result<Vec<DraftChunk>, Failure> {
        self.sent()?.draft_chunks(pk, place, after)
    }

    fn all_drafts(&self) -> Result<Vec<(SessionPk, DraftRow)>, Failure> {
        self.sent()?.all_drafts()
    }

    fn session_pks(&self) -> Result<Vec<SessionPk>, Failure> {
        self.sent()?.session_pks()
    }
}

/// The commit with a number.
pub(crate) static LOG_AT: Sql = Sql::new(
    "SELECT commit_no, data FROM filrouge.commit_log WHERE commit_no = $1",
    &[Type::INT8],
);

/// The statements of every group, which are planned once.
pub(crate) static STATEMENTS: &[&Sql] = &[
    &LOG_AT,
    &wanted::LOCK,
    &wanted::NEWEST,
    &wanted::SESSIONS,
    &wanted::KEYS,
    &wanted::RECORDS,
    &wanted::EVENTS,
    &wanted::CHECKPOINTS,
    &pending::INSERT_SESSIONS,
    &pending::UPDATE_SESSIONS,
    &pending::PUT_HEADS,
    &pending::INSERT_TURNS,
    &pending::UPDATE_TURNS,
    &pending::INSERT_RECORDS,
    &pending::INSERT_KEYS,
    &pending::NOTE_AGENTS,
    &pending::PUT_DRAFTS,
    &pending::DELETE_DRAFTS,
    &pending::INSERT_CHUNKS,
    &pending::DELETE_CHUNKS,
    &pending::INSERT_EVENTS,
    &pending::PUT_CHECKPOINTS,
    &pending::DELETE_CHECKPOINTS,
    &pending::INSERT_LOG,
];
