//! What a store has to do to be copied into.

use crate::record::RecordRow;
use crate::rows::{
    CheckpointRow, DraftChunk, DraftRow, EventRow, HeadRow, KeyRow, LogRow, NoteRow, SessionPk,
    SessionRow, TurnRow, View,
};
use filrouge_types::{ErrorCode, Failure};

/// What is in a store that is to be copied into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holding {
    /// Nothing: there is no store, or one without any session, note and commit.
    Nothing,
    /// A copy of the store with this name, which was not finished.
    Copy {
        /// [`crate::Ledger::store_id`] of what is copied.
        of: String,
    },
    /// A store that is its own.
    Store,
}

/// A store that is marked as a copy under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    /// The name of the store, which is not the source's.
    pub store_id: String,
    /// Whether an earlier run has marked it already, and may have put rows.
    pub resumed: bool,
}

/// One row of a copy, as it stands in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// All rows of this session are taken away, its row and its head with them.
    Gone(SessionPk),
    /// A session's row, under the number that it has.
    Session(SessionPk, Box<SessionRow>),
    /// A turn.
    Turn(SessionPk, TurnRow),
    /// A record.
    Record(SessionPk, RecordRow),
    /// The key of an item or of a request.
    Key(SessionPk, KeyRow),
    /// Somebody who has spoken in a session.
    Agent(SessionPk, Box<str>),
    /// An event.
    Event(SessionPk, EventRow),
    /// A checkpoint.
    Checkpoint(SessionPk, CheckpointRow),
    /// The draft of an open turn.
    Draft(SessionPk, DraftRow),
    /// A chunk of the draft of the turn at this place.
    Chunk(SessionPk, u64, DraftChunk),
    /// A session's head: the last of its rows.
    Head(SessionPk, HeadRow),
    /// A note, which may be there already.
    Note(NoteRow),
    /// A row of the commit log.
    Commit(LogRow),
}

impl Piece {
    /// About how many bytes it has.
    #[must_use]
    pub fn bytes(&self) -> usize {
        /// What a row has beside its contents.
        const ROW: usize = 96;
        ROW + match self {
            Self::Gone(_) | Self::Turn(..) | Self::Key(..) | Self::Draft(..) | Self::Head(..) => 0,
            Self::Session(_, row) => row.content_len(),
            Self::Record(_, row) => row.head.len() + row.body.len(),
            Self::Agent(_, agent) => agent.len(),
            Self::Event(_, row) => row.content_len(),
            Self::Checkpoint(_, row) => row.content_len(),
            Self::Chunk(_, _, chunk) => chunk.encode().len(),
            Self::Note(row) => row.value.len(),
            Self::Commit(row) => row.encode().len(),
        }
    }
}

/// A store that a copy is put into. It is made by a backend for one run of a copy; nothing is written before
/// [`Self::begin`].
pub trait Intake: Send {
    /// What the store holds; changes nothing.
    ///
    /// # Errors
    /// `invalid` for another program's data or a newer schema; the store's failures.
    fn holding(&mut self) -> Result<Holding, Failure>;

    /// Makes the store where there is none, brings its schema up to date, and marks it as a copy of `source` under
    /// way: from then on nobody can open it, and every other run that has begun is refused its next
    /// [`Self::put`].
    ///
    /// # Errors
    /// When there is something else in it meanwhile; the store's failures.
    fn begin(&mut self, source: &str) -> Result<Begun, Failure>;

    /// Shows what has been put; after [`Self::begin`] alone.
    ///
    /// # Errors
    /// Those of `question`, and the store's.
    fn look(
        &mut self,
        question: &mut dyn FnMut(&dyn View) -> Result<(), Failure>,
    ) -> Result<(), Failure>;

    /// Puts rows in one transaction, in this order, as they are: nothing is made anew or derived.
    ///
    /// # Errors
    /// When another run has begun since; the store's failures. None of the rows is there then.
    fn put(&mut self, rows: &[Piece]) -> Result<(), Failure>;

    /// Takes the mark away, in one transaction. New sessions get numbers above `newest`. What [`Piece::Gone`] has
    /// taken away is gone from every file by then, or by the next opening.
    ///
    /// # Errors
    /// When another run has begun since, or the store is not where it was; the store's failures.
    fn finish(&mut self, newest: SessionPk) -> Result<(), Failure>;
}

/// Another run has taken a copy over, or ended it.
#[must_use]
pub fn taken_over() -> Failure {
    Failure::new(
        ErrorCode::StoreUnavailable,
        "another `filrouge copy` into the same store has begun",
    )
    .with_hint("let that one finish")
}

/// A store that is a copy under way, for whoever opens it.
#[must_use]
pub fn unfinished(store: &str) -> Failure {
    Failure::new(
        ErrorCode::StoreUnavailable,
        format!("{store} is a copy that was not finished"),
    )
    .with_hint("give the same `filrouge copy --from … --to …` again: it goes on where it stopped")
}
