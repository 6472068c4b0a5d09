//! Bytes as lower-case hexadecimal digits, for use in `serde(with = …)`.

use serde::{Deserialize, Deserializer, Serializer, de};

/// Decodes exactly `N` bytes; `None` for any other text. Rejects upper-case digits, so that each byte string has only
/// one encoding.
pub fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    let has_upper_case = text.bytes().any(|digit| digit.is_ascii_uppercase());
    (!has_upper_case).then_some(bytes)
}

/// Serializes the bytes as digits.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<const N: usize, S: Serializer>(bytes: &[u8; N], s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&hex::encode(bytes))
}

/// Deserializes the digits.
///
/// # Errors
/// Fails for a text that is not `N` bytes in lower-case digits.
pub fn deserialize<'de, const N: usize, D: Deserializer<'de>>(d: D) -> Result<[u8; N], D::Error> {
    let digits = String::deserialize(d)?;
    let detail = "not lower-case hexadecimal of the right length";
    from_hex(&digits).ok_or_else(|| de::Error::custom(detail))
}
