//! The ledger port: what the engine asks of a durable store (DESIGN §13).

use std::collections::BTreeMap;
use std::sync::mpsc;

use async_trait::async_trait;
use filrouge_types::{
    ErrorCode, Failure, Session, SessionEvent, SessionId, TenantId, Turn, TurnId,
};
use tokio::sync::watch;

use crate::command::{Command, Outcome, PutNote, Scope, SessionFilter, Viewer, Write};
use crate::draft::StreamId;
use crate::keyring::{Keyring, MAC_BYTES};
use crate::read::{
    ChangeCursor, ChangePage, DraftNews, ItemPage, SessionPage, Sight, TurnPage, TurnQuery,
};
use crate::rows::View;
use crate::verify::Report;

/// A commit that is durable: what an anchor remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The commit's number; 0 before the first.
    pub commit_no: u64,
    /// Its link.
    pub link: [u8; MAC_BYTES],
}

/// What an answered write has survived (P1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It is on disk.
    Flushed,
    /// It is in memory and gone with the process.
    Ephemeral,
}

impl Durability {
    /// The word of the `Filrouge-Durability` header.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Flushed => "flushed",
            Self::Ephemeral => "ephemeral",
        }
    }
}

/// How a store is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// Why it takes no writes, if it does not.
    pub read_only: Option<String>,
    /// What is known not to be what was written.
    pub integrity: Option<String>,
}

/// What a store has done in this process, and what waits for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Statements put to the store since the process began.
    pub statements: u64,
    /// Writes that wait for their turn.
    pub queued_writes: u64,
}

/// A small named value of the store, outside of any session: written whole, compared and set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// How often it was put, from 1.
    pub version: u64,
    /// Its value, at most [`crate::rows::NOTE_MAX`] bytes.
    pub value: Vec<u8>,
}

/// A question put to one consistent sight of the store.
pub type Inspect = Box<dyn for<'a> FnOnce(&Sight<'a, dyn View + 'a>) + Send>;

/// A durable store of sessions, turns and items.
///
/// A write that is answered is on disk (P1). All methods fail with codes of
/// [`filrouge_types::ErrorCode`]; none tells failures apart by text.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Does one write in a transaction and answers once it is flushed.
    async fn write(&self, command: Command) -> Result<Outcome, Failure>;

    /// Shows one consistent sight of the store to `question`.
    async fn inspect(&self, question: Inspect) -> Result<(), Failure>;

    /// As [`Self::inspect`], but never behind the questions of callers: for the small ones that a server has itself,
    /// such as which keys are good.
    async fn inspect_apart(&self, question: Inspect) -> Result<(), Failure> {
        self.inspect(question).await
    }

    /// What an answered write has survived.
    fn durability(&self) -> Durability {
        Durability::Flushed
    }

    /// The newest durable commit.
    fn position(&self) -> Position;

    /// The newest durable commit that an anchor has to remember: behind it nothing but drafts have grown.
    fn witnessed(&self) -> Position {
        self.position()
    }

    /// The number of the newest durable commit as it grows, also by other processes of the same store: those are
    /// seen within a tenth of a second while somebody holds a receiver. A commit may be told before the write that
    /// made it is answered.
    fn commits(&self) -> watch::Receiver<u64>;

    /// This process among those that record streams into the store. One of one process alone needs no name.
    fn writer(&self) -> String {
        String::new()
    }

    /// Whether a process that has recorded streams is certain not to be there any more; of one that is not known
    /// its signs of life tell.
    fn is_gone(&self, writer: &str) -> bool {
        let _ = writer;
        false
    }

    /// The store's own name, given when it was made; names its anchor.
    fn store_id(&self) -> &str;

    /// The keys that its data is authenticated with.
    fn keyring(&self) -> &Keyring;

    /// How the store is.
    fn health(&self) -> Health;

    /// What it has done and has waiting; zeros for a store that counts nothing.
    fn load(&self) -> Load {
        Load::default()
    }

    /// Refuses everything from now on: the store is older than its anchor.
    fn distrust(&self, what: String);

    /// Finishes what is under way and releases the store.
    async fn close(&self);
}

/// A question that puts its answer where it can be taken once it was put.
fn answered<R, F>(question: F) -> (Inspect, mpsc::Receiver<Result<R, Failure>>)
where
    R: Send + 'static,
    F: for<'a> FnOnce(&Sight<'a, dyn View + 'a>) -> Result<R, Failure> + Send + 'static,
{
    let (sender, receiver) = mpsc::sync_channel(1);
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
    /// Asks one consistent sight of the store.
    ///
    /// # Errors
    /// Those of the question, and of the store.
    pub async fn ask<R, F>(&self, question: F) -> Result<R, Failure>
    where
        R: Send + 'static,
        F: for<'a> FnOnce(&Sight<'a, dyn View + 'a>) -> Result<R, Failure> + Send + 'static,
    {
        let (question, answer) = answered(question);
        self.inspect(question).await?;
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
        let (question, answer) = answered(question);
        self.inspect_apart(question).await?;
        answer.try_recv().map_err(|_| not_put())?
    }

    /// One session.
    ///
    /// # Errors
    /// `session_not_found`, `integrity_error`.
    pub async fn session(&self, scope: &Scope, id: &SessionId) -> Result<Session, Failure> {
        let (scope, id) = (scope.clone(), id.clone());
        self.ask(move |sight| sight.session(&scope, &id)).await
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
        let (scope, session) = (scope.clone(), session.clone());
        self.ask(move |sight| sight.turn(&scope, &session, &id))
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
        let (scope, session) = (scope.clone(), session.clone());
        self.ask(move |sight| sight.turns(&scope, &session, &query))
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
        let (scope, session) = (scope.clone(), session.clone());
        self.ask(move |sight| sight.items(&scope, &session, after, limit))
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
        let (scope, session) = (scope.clone(), session.clone());
        self.ask(move |sight| sight.events(&scope, &session, after, limit))
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
        let (scope, session) = (scope.clone(), session.clone());
        self.ask(move |sight| sight.drafts(&scope, &session, &known))
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
        match self.write(Command { scope, write }).await? {
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
