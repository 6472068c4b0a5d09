//! Credentials do not reach the journal (DESIGN §8).
//!
//! Two kinds are kept out. What has the form of a credential is masked in what users say and in what tools are called
//! with, by shape: lengths, alphabets and words around it, as issuers document them. What came in `runtime_context`
//! and is not on its allow-list is known exactly, and is masked wherever it comes back in the same turn.

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
