//! Bundles: one session as a file that anyone can verify with only a public key (DESIGN §9, docs/format.md).

mod export;
#[cfg(test)]
mod forged;
mod import;
mod item;
mod read;
mod refusal;
mod sign;
mod verify;

pub use export::Sink;
pub use import::ImportedBundle;
pub use sign::{PublicKey, PublicKeyError};
pub use verify::{BundleReport, SignedBy, verify};

/// The beginning of a bundle of any format. A file that begins otherwise is no bundle.
const MARK: &str = "{\"filrouge_bundle\":";
/// The beginning of a bundle, up to its session.
const OPENING: &str = "{\"filrouge_bundle\":1,\n\"session\":";
const TURNS: &str = ",\n\"turns\":";
const ITEMS: &str = ",\n\"items\":";
const CHECKPOINTS: &str = ",\n\"checkpoints\":";
const HEAD: &str = ",\n\"head\":";
const SIGNATURE: &str = ",\n\"signature\":";
const END: &str = "}\n";
