//! Provider formats: a restored conversation, planned without any provider's words, becomes the messages of the next
//! request (DESIGN §5).
//!
//! Rendering is copying: texts are JSON string tokens already and are never parsed again. What a format cannot show is
//! left out or changed, and the report says so.

mod format;
mod json;
mod labels;
mod media;
mod record;
mod render;
mod restore;
mod stream;
mod text;

pub use format::Format;
pub use record::{GiveUp, RecordStream, Recorder, Step, record};
pub use render::{Context, render};
pub use restore::restore;
pub use stream::{Decoder, StreamFormat};
