//! Keeps credentials out of the ledger (DESIGN §8).
//!
//! Three kinds are masked:
//!
//! - Credentials recognized by their *shape*: the lengths, alphabets and surrounding words that issuers document. They
//!   are masked in users' texts, in arguments of tool calls, in the state of checkpoints, and in all metadata, labels
//!   and titles.
//! - Values of *secret members*: members of metadata whose names say that they are secret.
//! - *Known secrets*: the values in a turn's `runtime_context` that the allow-list does not name. They are masked
//!   wherever they reappear in the same turn.

mod anchors;
mod compound;
mod header;
mod json;
mod jwt;
mod mask;
mod members;
mod pem;
mod read;
mod registry;
mod requests;
mod scan;
mod shape;
mod stream;
#[cfg(test)]
mod tests;
mod turn;
mod verdict;

pub use json::mask_json;
pub use mask::{CredentialPolicy, Masked, credentials, mask_text};

pub(crate) use registry::Registry;
pub(crate) use requests::runtime_contexts;
pub(crate) use stream::MaskStream;
pub(crate) use turn::{SecretStream, TurnSecrets};
