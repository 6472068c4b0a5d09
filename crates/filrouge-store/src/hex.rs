//! Bytes as lower-case hexadecimal digits; for `serde(with)` too.

use serde::{Deserialize, Deserializer, Serializer, de};

/// Writes bytes.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Reads exactly `N` bytes; upper-case digits are refused, so that bytes have one spelling.
#[must_use]
pub fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    let lower = |b: &u8| b.is_ascii_digit() || (b'a'..=b'f').contains(b);
    if digits.len() != 2 * N || !digits.iter().all(lower) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

/// Writes the digits.
///
/// # Errors
/// The serializer's.
pub fn serialize<const N: usize, S: Serializer>(bytes: &[u8; N], s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(&to_hex(bytes))
}

/// Reads the digits.
///
/// # Errors
/// For other text.
pub fn deserialize<'de, const N: usize, D: Deserializer<'de>>(d: D) -> Result<[u8; N], D::Error> {
    let digits = String::deserialize(d)?;
    let what = "not lower-case hexadecimal of the right length";
    from_hex(&digits).ok_or_else(|| de::Error::custom(what))
}
