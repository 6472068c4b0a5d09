//! Provider formats. Renders a restored conversation, whose plan is provider-neutral, as the messages of the next
//! request (DESIGN §5). Decodes and records the streams with which providers respond (DESIGN §4).
//!
//! Rendering copies texts, which are JSON string tokens already, and never parses them a second time. Content that a
//! format cannot represent is left out or changed, and the report lists it.

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
pub use record::{GiveUp, RecordStream, Recorder, RecordingStep, record};
pub use render::{Context, render};
pub use restore::restore;
pub use stream::{Decoder, StreamFormat};
