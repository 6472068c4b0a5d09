//! Queries that work on every ledger, built on the port.

use std::collections::BTreeMap;

use filrouge_types::{
    ErrorCode, Failure, Item, ItemId, Result, Session, SessionEvent, SessionId, TenantId, Turn,
    TurnId,
};
use tokio::sync::oneshot;

use super::{Ledger, Note, QuerySubject, SnapshotQuery};
use crate::command::{Command, Outcome, PutNote, Scope, SessionFilter, Viewer, Write};
use crate::draft::StreamId;
use crate::read::{
    ChangeCursor, ChangePage, DraftUpdate, Findings, ItemPage, LedgerSnapshot, SessionPage,
    TurnPage, TurnQuery,
};
use crate::record::Seqs;
use crate::verify::{Finding, VerificationReport};

impl dyn Ledger + '_ {
    /// Executes one write in a transaction, and returns its outcome without the durability.
    ///
    /// # Errors
    /// Those of the rules, and of the store.
    pub async fn put(&self, command: Command) -> Result<Outcome> {
        Ok(self.write(command).await?.outcome)
    }

    async fn query_about<R, F>(&self, subject: QuerySubject<'_>, query: F) -> Result<R>
    where
        R: Send + 'static,
        F: for<'a> FnOnce(&LedgerSnapshot<'a>) -> Result<R> + Send + 'static,
    {
        let (sender, mut result) = oneshot::channel();
        let run_query: SnapshotQuery = Box::new(move |snapshot| {
            // If the caller was cancelled, the receiver is gone.
            let _ = sender.send(query(snapshot));
        });
        self.inspect(subject, run_query).await?;
        let not_run = || Failure::new(ErrorCode::Internal, "the store did not run the query");
        result.try_recv().map_err(|_| not_run())?
    }

    /// Runs a query of the server itself on one verified snapshot of the store.
    ///
    /// # Errors
    /// Those of the query and of the store.
    pub async fn query<R, F>(&self, query: F) -> Result<R>
    where
        R: Send + 'static,
        F: for<'a> FnOnce(&LedgerSnapshot<'a>) -> Result<R> + Send + 'static,
    {
        self.query_about(QuerySubject::Store, query).await
    }

    /// Runs a query for the caller of `scope` on one verified snapshot of the store.
    ///
    /// # Errors
    /// Those of the query and of the store.
    pub async fn query_listed<R, F>(&self, scope: &Scope, query: F) -> Result<R>
    where
        R: Send + 'static,
        F: for<'a> FnOnce(&LedgerSnapshot<'a>) -> Result<R> + Send + 'static,
    {
        self.query_about(QuerySubject::Listed(scope), query).await
    }

    /// Runs a query about one session on one verified snapshot of the store.
    ///
    /// # Errors
    /// Those of the query and of the store.
    pub async fn query_session<R, F>(
        &self,
        scope: &Scope,
        session: &SessionId,
        query: F,
    ) -> Result<R>
    where
        R: Send + 'static,
        F: for<'a> FnOnce(&LedgerSnapshot<'a>, &Scope, &SessionId) -> Result<R> + Send + 'static,
    {
        let (viewer, id) = (scope.clone(), session.clone());
        let query = move |snapshot: &LedgerSnapshot<'_>| query(snapshot, &viewer, &id);
        self.query_about(QuerySubject::Session(scope, session), query)
            .await
    }

    /// Runs a query on a reserved connection, so that it never queues behind user reads.
    ///
    /// # Errors
    /// Those of the query and of the store.
    pub async fn query_reserved<R, F>(&self, query: F) -> Result<R>
    where
        R: Send + 'static,
        F: for<'a> FnOnce(&LedgerSnapshot<'a>) -> Result<R> + Send + 'static,
    {
        self.query_about(QuerySubject::ServerData, query).await
    }

    /// One session.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`.
    pub async fn session(&self, scope: &Scope, id: &SessionId) -> Result<Session> {
        self.query_session(scope, id, move |snapshot, scope, session| {
            snapshot.session(scope, session)
        })
        .await
    }

    /// A page of sessions, newest first.
    ///
    /// # Errors
    /// `invalid` for a bad cursor, `integrity_error`.
    pub async fn sessions(
        &self,
        scope: &Scope,
        filter: SessionFilter,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<SessionPage> {
        let viewer = scope.clone();
        self.query_listed(scope, move |snapshot| {
            snapshot.sessions(&viewer, &filter, cursor.as_deref(), limit)
        })
        .await
    }

    /// As `sessions`, with the sessions' agents; but leaves out damaged sessions and agents, and returns what was
    /// found.
    ///
    /// # Errors
    /// As `sessions`, if more than these sessions could be missing.
    pub async fn list_sessions(
        &self,
        scope: &Scope,
        filter: SessionFilter,
        cursor: Option<String>,
        limit: usize,
    ) -> Result<(SessionPage, Vec<Finding>)> {
        let viewer = scope.clone();
        self.query_listed(scope, move |snapshot| {
            let (from, mut findings) = (cursor.as_deref(), Findings::default());
            let page =
                snapshot.list_sessions_with_agents(&viewer, &filter, from, limit, &mut findings)?;
            Ok((page, findings.into_vec()))
        })
        .await
    }

    /// One turn.
    ///
    /// # Errors
    /// `session_not_found`, `turn_not_found`, `turn_mismatch`, `integrity_error`.
    pub async fn turn(&self, scope: &Scope, session: &SessionId, id: TurnId) -> Result<Turn> {
        self.query_session(scope, session, move |snapshot, scope, session| {
            snapshot.turn(scope, session, &id)
        })
        .await
    }

    /// A page of turns.
    ///
    /// # Errors
    /// `session_not_found`, `invalid` for a bad cursor, `integrity_error`.
    pub async fn turns(
        &self,
        scope: &Scope,
        session: &SessionId,
        query: TurnQuery,
    ) -> Result<TurnPage> {
        self.query_session(scope, session, move |snapshot, scope, session| {
            snapshot.turns(scope, session, &query)
        })
        .await
    }

    /// A page of the items after the seq `after`.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`.
    pub async fn items(
        &self,
        scope: &Scope,
        session: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<ItemPage> {
        self.query_session(scope, session, move |snapshot, scope, session| {
            snapshot.items(scope, session, after, limit)
        })
        .await
    }

    /// A page of the items before the seq `before`, newest first.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`.
    pub async fn items_before(
        &self,
        scope: &Scope,
        session: &SessionId,
        before: u64,
        limit: usize,
    ) -> Result<ItemPage> {
        self.query_session(scope, session, move |snapshot, scope, session| {
            snapshot.items_before(scope, session, before, limit)
        })
        .await
    }

    /// The items at those of these seqs after `after` that the session has, ascending. The cursor is the last seq of a
    /// page that its limit in bytes has ended. The caller limits the number of seqs.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`.
    pub async fn items_at(
        &self,
        scope: &Scope,
        session: &SessionId,
        seqs: Seqs,
        after: u64,
    ) -> Result<ItemPage> {
        self.query_session(scope, session, move |snapshot, scope, session| {
            snapshot.items_at(scope, session, &seqs, after)
        })
        .await
    }

    /// The item with this caller's key; `None` if the session has none.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`.
    pub async fn item_with_id(
        &self,
        scope: &Scope,
        session: &SessionId,
        id: ItemId,
    ) -> Result<Option<Item>> {
        self.query_session(scope, session, move |snapshot, scope, session| {
            snapshot.item_with_id(scope, session, &id)
        })
        .await
    }

    /// A page of the change feed.
    ///
    /// # Errors
    /// `invalid` for a cursor that this store never issued; `integrity_error`.
    pub async fn changes(
        &self,
        scope: &Scope,
        after: ChangeCursor,
        limit: usize,
    ) -> Result<ChangePage> {
        let viewer = scope.clone();
        self.query_listed(scope, move |snapshot| {
            snapshot.changes(&viewer, after, None, limit)
        })
        .await
    }

    /// As `changes`, but leaves out the changes of damaged sessions; the page names these sessions.
    ///
    /// # Errors
    /// As `changes`, if it is unknown whether `scope` lists a damaged session.
    pub async fn list_changes(
        &self,
        scope: &Scope,
        after: ChangeCursor,
        limit: usize,
    ) -> Result<ChangePage> {
        let viewer = scope.clone();
        self.query_listed(scope, move |snapshot| {
            let mut findings = Findings::default();
            let page = snapshot.list_changes(&viewer, after, None, limit, &mut findings)?;
            Ok(ChangePage {
                findings: findings.into_vec(),
                ..page
            })
        })
        .await
    }

    /// A page of the change feed up to the position `end`, which an earlier page has returned.
    ///
    /// # Errors
    /// Those of a page without an end.
    pub async fn changes_until(
        &self,
        scope: &Scope,
        after: ChangeCursor,
        end: ChangeCursor,
        limit: usize,
    ) -> Result<ChangePage> {
        let viewer = scope.clone();
        self.query_listed(scope, move |snapshot| {
            snapshot.changes(&viewer, after, Some(&end), limit)
        })
        .await
    }

    /// A page of a session's events after number `after`, and the cursor of the next page, if there is one.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`.
    pub async fn events(
        &self,
        scope: &Scope,
        session: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<(Vec<SessionEvent>, Option<String>)> {
        self.query_session(scope, session, move |snapshot, scope, session| {
            snapshot.events(scope, session, after, limit)
        })
        .await
    }

    /// The drafts of a session's open turns. `last_read` gives, for each recording, the number of the newest chunk that
    /// the reader already has.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`.
    pub async fn drafts(
        &self,
        scope: &Scope,
        session: &SessionId,
        last_read: BTreeMap<StreamId, u64>,
    ) -> Result<Vec<DraftUpdate>> {
        self.query_session(scope, session, move |snapshot, scope, session| {
            snapshot.drafts(scope, session, &last_read)
        })
        .await
    }

    /// The note with this name.
    ///
    /// # Errors
    /// `integrity_error`, and the store's errors.
    pub async fn note(&self, name: &str) -> Result<Option<Note>> {
        let name = name.to_owned();
        self.query_reserved(move |snapshot| snapshot.note(&name))
            .await
    }

    /// Writes a note if its version is `expected` (0 if the note must not exist). Returns `false`, and writes nothing,
    /// if the version differs.
    ///
    /// # Errors
    /// `limit_exceeded`, and the store's errors.
    pub async fn put_note(&self, name: &str, expected: u64, value: Vec<u8>) -> Result<bool> {
        let note = PutNote {
            name: name.into(),
            expected,
            value,
        };
        // A note belongs to no tenant; only internal code reads it.
        let scope = Scope::new(TenantId::default_tenant(), Viewer::Operator);
        let write = Write::PutNote(note);
        match self.put(Command { scope, write }).await? {
            Outcome::Note(is_written) => Ok(is_written),
            _ => {
                Err(ErrorCode::Internal.failure("the ledger returned the outcome of another write"))
            }
        }
    }

    /// Verifies one session; with `None`, verifies the entire store.
    ///
    /// # Errors
    /// Fails only when the store does not answer or the session is absent.
    pub async fn verify(&self, only: Option<(Scope, SessionId)>) -> Result<VerificationReport> {
        let viewer = only.as_ref().map(|(scope, _)| scope.clone());
        let query = move |snapshot: &LedgerSnapshot<'_>| {
            snapshot.verify(only.as_ref().map(|(scope, id)| (scope, id)))
        };
        match viewer {
            Some(viewer) => self.query_listed(&viewer, query).await,
            None => self.query(query).await,
        }
    }
}
