//! Live calls, which are telephone calls (DESIGN §6). A session has one holder at a time, and checkpoints of the
//! application's state. On whichever server the next webhook arrives, the session resumes from its newest checkpoint
//! and the items after it.
//!
//! In the log of live calls, `call_id` is the session's id.

mod checkpoint;
mod enter;
mod journal;
mod lease;
mod live;
mod policy;
mod requests;
mod resume;
mod settings;
#[cfg(test)]
mod tests;
mod unclaimed;
mod words;

pub use enter::{Webhook, WebhookAdmission};
pub(crate) use journal::log_call_items;
pub(crate) use lease::fenced_scope;
pub use live::{LiveCall, LiveCalls};
pub use policy::CheckpointPolicy;
pub use requests::{AcquireLease, RenewLease, ResumeSession, SaveCheckpoint};
pub use resume::{Fallback, Resumed};
pub use settings::{CallSettings, Journal};
pub(crate) use words::{log_word, optional_log_word};
