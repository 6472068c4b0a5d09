//! Places that a store has not given yet: of what waits for the ledger (DESIGN §6, "Ledger down"). JSON says `null`.

use serde::{Deserialize, Deserializer, Serializer};

/// The seq, or ordinal, of what has none yet because it waits for the ledger. No store gives it.
pub const UNPLACED: u64 = u64::MAX;

/// The place, or `null`.
///
/// # Errors
/// The serializer's.
pub fn serialize<S: Serializer>(place: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    match *place {
        UNPLACED => serializer.serialize_none(),
        place => serializer.serialize_u64(place),
    }
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(UNPLACED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Placed(#[serde(with = "super")] u64);

    #[test]
    fn a_place_that_is_not_given_is_null() {
        let json = |place| serde_json::to_string(&Placed(place)).unwrap();
        assert_eq!(json(7), "7");
        assert_eq!(json(UNPLACED), "null");
        for place in [0, 7, UNPLACED] {
            let read: Placed = serde_json::from_str(&json(place)).unwrap();
            assert_eq!(read.0, place);
        }
    }
}
