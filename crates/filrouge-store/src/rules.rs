//! The rules of a turn's lifecycle (DESIGN §4), common to all backends. A write is checked first (owner, replay,
//! expected seq, turn state) and then applied, so that a refused write changes nothing.

use filrouge_types::Failure;

use crate::command::{Command, Outcome, Write};
use crate::read::in_session;
use crate::rows::Tx;

mod adopt;
mod append;
mod checkpoint;
mod close;
mod draft;
mod erase;
mod event;
mod interrupt;
mod lease;
pub mod lease_check;
mod link;
mod note;
mod redact;
pub mod refusal;
mod session;
mod start;
mod writing;

pub(crate) use redact::redaction_prefix;
pub use redact::redaction_seqs;
use writing::ActiveWrite;
pub(crate) use writing::final_slot;
pub use writing::{CommitGroup, RuleContext, TURN_ITEMS_MAX};

/// Applies one write. On a failure the caller rolls the transaction back.
///
/// # Errors
/// The refusals of DESIGN §4 by their codes, `integrity_error`, or the store's own failures.
pub fn apply<T: Tx>(
    tx: &mut T,
    group: &mut CommitGroup,
    ctx: &RuleContext<'_>,
    command: &Command,
) -> Result<Outcome, Failure> {
    let w = &mut ActiveWrite {
        tx,
        group,
        ctx,
        scope: &command.scope,
    };
    let outcome = match &command.write {
        Write::CreateSession(new) => session::create(w, new),
        Write::Start(start) => start::apply(w, start),
        Write::Append(append) => append::apply(w, append),
        Write::Close(close) => close::apply(w, close),
        Write::Interrupt(interrupt) => interrupt::apply(w, interrupt),
        Write::Redact(redact) => redact::apply(w, redact),
        Write::Adopt(adopt) => adopt::apply(w, adopt),
        Write::Patch(patch) => session::patch(w, patch),
        Write::CloseSession(close) => session::close(w, close),
        Write::Link(link) => link::apply(w, link),
        Write::Erase(erase) => erase::apply(w, erase),
        Write::RecordEvent(event) => event::apply(w, event),
        Write::PutDraft(draft) => draft::put(w, draft),
        Write::Lease(command) => lease::apply(w, command),
        Write::PutCheckpoint(put) => checkpoint::put(w, put),
        Write::PutNote(note) => note::apply(w, note),
    };
    match command.write.session_id() {
        Some(id) => in_session(id, outcome),
        None => outcome,
    }
}
