//! Bytes as lower-case hexadecimal digits.

/// Writes bytes.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Reads exactly `N` bytes; upper-case digits are refused, so that bytes have one spelling.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
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
