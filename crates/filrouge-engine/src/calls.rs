//! Live calls (DESIGN §6): one holder of a session at a time, the application's checkpoints, and going on with a session from
//! the newest checkpoint and what came after it, wherever the next webhook lands.

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
pub(crate) use lease::held;
pub use policy::CheckpointPolicy;
pub use requests::{AcquireLease, RenewLease, ResumeSession, SaveCheckpoint};
pub use resume::{Fallback, Resumed};
pub use settings::{CallSettings, Journal};
pub(crate) use words::{word, word_of};
