//! The embedding model all-MiniLM-L6-v2, which runs in this process: a small English model with vectors of 384
//! dimensions (DESIGN §10).
//!
//! The operator installs the model's files ([`Installation`]); nothing is downloaded. Running the model requires the
//! feature `minilm`; without it, the files can be installed and checked, but not used.

mod files;
#[cfg(feature = "minilm")]
mod model;
#[cfg(feature = "minilm")]
mod normalizer;
#[cfg(feature = "minilm")]
mod wordpiece;

pub use files::{
    DIMENSIONS, FILES, InstallError, Installation, ModelFile, NAME, State, check_installed, state,
};
#[cfg(feature = "minilm")]
pub use model::MiniLm;

/// Whether this program can run the model, because it was built with the feature `minilm`.
pub const IS_BUILT_IN: bool = cfg!(feature = "minilm");
