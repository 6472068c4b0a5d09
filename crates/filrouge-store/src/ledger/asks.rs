//! What is asked of any ledger, by the port.

use std::collections::BTreeMap;

use filrouge_types::{
    ErrorCode, Failure, Session, SessionEvent, SessionId, TenantId, Turn, TurnId,
};
use tokio::sync::oneshot;

use super::{About, Inspect, Ledger, Note};
use crate::command::{Command, Outcome, PutNote, Scope, SessionFilter, Viewer, Write};
use crate::draft::StreamId;
use crate::read::{
    ChangeCursor, ChangePage, DraftNews, ItemPage, SessionPage, Sight, TurnPage, TurnQuery,
};
use crate::rows::View;
use crate::verify::Report;

/// A question that puts its answer where it can be taken once it was put.
fn answered<R, F>(question: F) -> (Inspect, oneshot::Receiver<Result<R, Failure>>)
where
    R: Send + 'static,
    F: for<'a> FnOnce(&Sight<'a, dyn View + 'a>) -> Result<R, Failure> + Send + 'static,
{
    let (sender, receiver) = oneshot::channel();
    let put: Inspect = Box::new(move |sight| {
        // Whoever has given the question up takes no answer.
        let _ = sender.send(question(sight));
    });
    (put, receiver)
}

fn not_put() -> Failure {
    Failure::new(ErrorCode::Internal, "the store did not put the question")
}

impl dyn Ledger + '_ {
    /// As [`Ledger::write`], for who need not know where the write went.
    ///
    /// # Errors
    /// Those of the rules, and of the store.
    pub async fn put(&self, command: Command) -> Result<Outcome, Failure> {
        Ok(self.write(command).await?.outcome)
    }

    /// Asks one consistent sight of the store.
    ///
    /// # Errors
    /// Those of the question, and of the store.
    pub async fn ask<R, F>(&self, question: F) -> Result<R, Failure>
    where
        R: Send + 'static,
        F: for<'a> FnOnce(&Sight<'a, dyn View + 'a>) -> Result<R, Failure> + Send + 'static,
    {
        let (question, mut answer) = answered(question);
        self.inspect(About::Store, question).await?;
        answer.try_recv().map_err(|_| not_put())?
    }

    /// Asks one consistent sight of the store, about one session.
    ///
    /// # Errors
    /// Those of the question, and of the store.
    pub async fn ask_in<R, F>(
        &self,
        scope: &Scope,
        session: &SessionId,
        question: F,
    ) -> Result<R, Failure>
    where
        R: Send + 'static,
        F: for<'a> FnOnce(&Sight<'a, dyn View + 'a>) -> Result<R, Failure> + Send + 'static,
    {
        let (question, mut answer) = answered(question);
        self.inspect(About::Session(scope, session), question)
            .await?;
        answer.try_recv().map_err(|_| not_put())?
    }

    /// As `ask`, but never behind the questions of callers.
    ///
    /// # Errors
    /// Those of the question, and of the store.
    pub async fn ask_apart<R, F>(&self, question: F) -> Result<R, Failure>
    where
        R: Send + 'static,
        F: for<'a> FnOnce(&Sight<'a, dyn View + 'a>) -> Result<R, Failure> + Send + 'static,
    {
        let (question, mut answer) = answered(question);
        self.inspect(About::Apart, question).await?;
        answer.try_recv().map_err(|_| not_put())?
    }

    /// One session.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`.
    pub async fn session(&self, scope: &Scope, id: &SessionId) -> Result<Session, Failure> {
        let (viewer, of) = (scope.clone(), id.clone());
        self.ask_in(scope, id, move |sight| sight.session(&viewer, &of))
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
    ) -> Result<SessionPage, Failure> {
        let scope = scope.clone();
        self.ask(move |sight| sight.sessions(&scope, &filter, cursor.as_deref(), limit))
            .await
    }

    /// One turn.
    ///
    /// # Errors
    /// `session_not_found`, `turn_not_found`, `turn_mismatch`, `integrity_error`.
    pub async fn turn(
        &self,
        scope: &Scope,
        session: &SessionId,
        id: TurnId,
    ) -> Result<Turn, Failure> {
        let (viewer, of) = (scope.clone(), session.clone());
        self.ask_in(scope, session, move |sight| sight.turn(&viewer, &of, &id))
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
    ) -> Result<TurnPage, Failure> {
        let (viewer, of) = (scope.clone(), session.clone());
        self.ask_in(scope, session, move |sight| {
            sight.turns(&viewer, &of, &query)
        })
        .await
    }

    /// A page of items after `after`.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`.
    pub async fn items(
        &self,
        scope: &Scope,
        session: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<ItemPage, Failure> {
        let (viewer, of) = (scope.clone(), session.clone());
        self.ask_in(scope, session, move |sight| {
            sight.items(&viewer, &of, after, limit)
        })
        .await
    }

    /// A page of the change feed.
    ///
    /// # Errors
    /// `invalid` for a cursor that this store never gave; `integrity_error`.
    pub async fn changes(
        &self,
        scope: &Scope,
        after: ChangeCursor,
        limit: usize,
    ) -> Result<ChangePage, Failure> {
        let scope = scope.clone();
        self.ask(move |sight| sight.changes(&scope, after, limit))
            .await
    }

    /// A page of a session's events behind the one numbered `after`.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`.
    pub async fn events(
        &self,
        scope: &Scope,
        session: &SessionId,
        after: u64,
        limit: usize,
    ) -> Result<(Vec<SessionEvent>, Option<String>), Failure> {
        let (viewer, of) = (scope.clone(), session.clone());
        self.ask_in(scope, session, move |sight| {
            sight.events(&viewer, &of, after, limit)
        })
        .await
    }

    /// The drafts of a session's open turns; `known` are the chunks that the reader has.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`.
    pub async fn drafts(
        &self,
        scope: &Scope,
        session: &SessionId,
        known: BTreeMap<StreamId, u64>,
    ) -> Result<Vec<DraftNews>, Failure> {
        let (viewer, of) = (scope.clone(), session.clone());
        self.ask_in(scope, session, move |sight| {
            sight.drafts(&viewer, &of, &known)
        })
        .await
    }

    /// The note with this name.
    ///
    /// # Errors
    /// `integrity_error`, and the store's.
    pub async fn note(&self, name: &str) -> Result<Option<Note>, Failure> {
        let name = name.to_owned();
        self.ask_apart(move |sight| sight.note(&name)).await
    }

    /// Puts a note that is at version `expected`, 0 for one that is not there yet; `false` when it is at another.
    ///
    /// # Errors
    /// `limit_exceeded`, and the store's.
    pub async fn put_note(
        &self,
        name: &str,
        expected: u64,
        value: Vec<u8>,
    ) -> Result<bool, Failure> {
        let note = PutNote {
            name: name.into(),
            expected,
            value,
        };
        // A note is of no tenant; only the store's own code asks for it.
        let scope = Scope::new(TenantId::default_tenant(), Viewer::Operator);
        let write = Write::PutNote(note);
        match self.put(Command { scope, write }).await? {
            Outcome::Note(put) => Ok(put),
            _ => Err(Failure::new(
                ErrorCode::Internal,
                "the ledger answered another question",
            )),
        }
    }

    /// Verifies one session, or with `None` the whole store.
    ///
    /// # Errors
    /// Only when the store does not answer, or the session is absent.
    pub async fn verify(&self, only: Option<(Scope, SessionId)>) -> Result<Report, Failure> {
        self.ask(move |sight| sight.verify(only.as_ref().map(|(scope, id)| (scope, id))))
            .await
    }
}
