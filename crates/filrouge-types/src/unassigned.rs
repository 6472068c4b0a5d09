//! Positions that are not assigned yet, because the write waits for the ledger (DESIGN §6, "Ledger down"). They are
//! `null` in JSON.

use serde::{Deserialize, Deserializer, Serializer};

/// The seq or ordinal of a write that waits for the ledger. No store assigns this value.
pub const UNASSIGNED: u64 = u64::MAX;

/// Writes the position; [`UNASSIGNED`] becomes `null`.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(position: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    match *position {
        UNASSIGNED => serializer.serialize_none(),
        position => serializer.serialize_u64(position),
    }
}

/// Reads a position; `null` becomes [`UNASSIGNED`].
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(UNASSIGNED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Position(#[serde(with = "super")] u64);

    #[test]
    fn an_unassigned_position_is_null() {
        let json = |position| serde_json::to_string(&Position(position)).unwrap();
        assert_eq!(json(7), "7");
        assert_eq!(json(UNASSIGNED), "null");
        for position in [0, 7, UNASSIGNED] {
            let read: Position = serde_json::from_str(&json(position)).unwrap();
            assert_eq!(read.0, position);
        }
    }
}
