//! all-MiniLM-L6-v2, computed here: a small English model, 384 dimensions (DESIGN §10).
//!
//! Its files are installed by whoever wants it ([`Installing`]); nothing is downloaded. Computing with them needs the
//! feature `minilm`.

mod files;
#[cfg(feature = "minilm")]
mod letters;
#[cfg(feature = "minilm")]
mod model;
#[cfg(feature = "minilm")]
mod wordpiece;

pub use files::{
    DIMENSIONS, FILES, InstallError, Installing, Known, NAME, State, must_hold, state,
};
#[cfg(feature = "minilm")]
pub use model::MiniLm;

/// Whether this program can compute with the model's files.
pub const IS_BUILT_IN: bool = cfg!(feature = "minilm");
