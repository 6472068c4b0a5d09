//! Values of rows that several targets have in common.

use filrouge_types::{IdentityId, RawJson, replace_lone_surrogates};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::SessionKey;

/// JSON of the ledger. What serde_json does not read, such as nesting at the ledger's limit, becomes a string.
pub(crate) fn parsed(raw: &RawJson) -> Value {
    let text = replace_lone_surrogates(raw.as_str());
    serde_json::from_str(&text).unwrap_or_else(|_| Value::from(raw.as_str()))
}

/// A session as 32 hexadecimal digits: short enough for each target's ids, whatever the lengths of the tenant's id and
/// the session's. Equal only for equal keys.
pub(crate) fn session_digest(key: &SessionKey) -> String {
    let mut hash = Sha256::new();
    hash.update(key.tenant.as_str());
    // No id has a control character.
    hash.update([0_u8]);
    hash.update(key.session.as_str());
    hex::encode(&hash.finalize()[..16])
}

/// An owner as 32 hexadecimal digits: for targets that ignore white space at the ends of a text.
pub(crate) fn owner_digest(owner: &IdentityId) -> String {
    hex::encode(&Sha256::digest(owner.as_str())[..16])
}
