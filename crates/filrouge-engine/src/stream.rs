//! Records providers' streams while they arrive, as drafts and items of a turn (DESIGN §4).
//!
//! A decoder (`filrouge-transcode`) fills a [`Transcript`]. A [`Recording`] writes the transcript's contents to the
//! ledger.

mod block;
mod draft_masker;
mod end;
mod ending;
mod kept;
mod ready;
mod recording;
mod transcript;

pub use block::{StreamBlock, StreamPart};
pub use end::{StreamEnd, StreamError, StreamErrorSource};
pub use recording::{DRAFT_EVERY, HEARTBEAT_EVERY, RecordSettings, Recording};
pub use transcript::{PieceId, ReadyItem, Transcript};
