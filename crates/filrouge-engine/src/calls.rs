//! Live calls (DESIGN §6): one holder of a session at a time, checkpoints of the application, and resuming a session from its
//! newest checkpoint and the items after it, on whichever server the next webhook arrives.
//!
//! In the log of live calls, `call_id` is the session's id.

mod checkpoint;
mod enter;
mod journal;
mod lease;
mod policy;
mod requests;
mod resume;
mod settings;
#[cfg(test)]
mod tests;
mod unclaimed;
mod words;

pub use enter::{Entered, Webhook};
pub(crate) use journal::journal;
pub(crate) use lease::fenced_scope;
pub use policy::CheckpointPolicy;
pub use requests::{AcquireLease, RenewLease, ResumeSession, SaveCheckpoint};
pub use resume::{Fallback, Resumed};
pub use settings::{CallSettings, Journal};
pub(crate) use words::{word, word_of};
