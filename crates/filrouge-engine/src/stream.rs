//! Streams recorded while they flow (DESIGN §4): what a provider's stream has brought, and how it becomes drafts and
//! items of a turn.
//!
//! A decoder (`filrouge-transcode`) fills a [`Transcript`]; a [`Recording`] writes what the transcript holds.

mod block;
mod end;
mod ending;
mod kept;
mod ready;
mod recording;
mod transcript;
mod veil;

pub use block::{Block, Part};
pub use end::{Ended, StreamError, StreamErrorSource};
pub use recording::{BEAT, DRAFT_EVERY, RecordSettings, Recording};
pub use transcript::{PieceNo, ReadyItem, Transcript};
