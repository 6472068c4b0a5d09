//! Records provider streams while they arrive (DESIGN §4): decoded contents, and how they become drafts and items of a turn.
//!
//! A decoder (`filrouge-transcode`) fills a [`Transcript`]; a [`Recording`] writes its contents.

mod block;
mod draft_masker;
mod end;
mod ending;
mod kept;
mod ready;
mod recording;
mod transcript;

pub use block::{StreamBlock, StreamPart};
pub use end::{Ended, StreamError, StreamErrorSource};
pub use recording::{BEAT, DRAFT_EVERY, RecordSettings, Recording};
pub use transcript::{PieceNo, ReadyItem, Transcript};
