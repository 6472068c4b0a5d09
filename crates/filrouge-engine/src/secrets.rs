//! Keeps credentials out of the ledger (DESIGN §8).
//!
//! Two kinds are masked. Text that has the form of a credential is masked in users' texts and in arguments of tool calls, by
//! shape: lengths, alphabets and surrounding words as issuers document them. Values of `runtime_context` that its allow-list
//! does not name are known exactly, and are masked wherever they reappear in the same turn.

mod header;
mod json;
mod jwt;
mod mask;
mod pem;
mod places;
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
pub use stream::MaskStream;
pub use turn::{SecretStream, TurnSecrets};

pub(crate) use registry::Registry;
