//! all-MiniLM-L6-v2, computed in this process: a small English model, 384 dimensions (DESIGN §10).
//!
//! The operator installs its files ([`Installing`]); nothing is downloaded. Computing with them needs the
//! feature `minilm`.

mod files;
#[cfg(feature = "minilm")]
mod letters;
#[cfg(feature = "minilm")]
mod model;
#[cfg(feature = "minilm")]
mod wordpiece;

pub use files::{
    DIMENSIONS, FILES, InstallError, Installing, ModelFile, NAME, State, check_installed, state,
};
#[cfg(feature = "minilm")]
pub use model::MiniLm;

/// Whether this program can compute with the model's files.
pub const IS_BUILT_IN: bool = cfg!(feature = "minilm");
