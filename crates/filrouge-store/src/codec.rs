//! The binary encoding of stored records (docs/format.md): numbers of variable length (LEB128), a length before each
//! text, and times as eight big-endian bytes.

use filrouge_types::Timestamp;

/// The format byte that this program writes.
pub(crate) const FORMAT: u8 = 1;

/// The error for stored bytes that do not follow the encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Appends values to a buffer.
pub(crate) trait WriteBytes {
    fn byte(&mut self, v: u8);
    fn number(&mut self, v: u64);
    fn bytes(&mut self, v: &[u8]);
    fn text(&mut self, v: &str) {
        self.bytes(v.as_bytes());
    }
    fn time(&mut self, v: Timestamp);
    fn optional(&mut self, v: Option<&str>) {
        self.byte(u8::from(v.is_some()));
        if let Some(v) = v {
            self.text(v);
        }
    }
}

impl WriteBytes for Vec<u8> {
    fn byte(&mut self, v: u8) {
        self.push(v);
    }

    /// Appends a number as LEB128: seven bits per byte, low bits first.
    fn number(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.push((v as u8 & 0x7f) | 0x80);
            v >>= 7;
        }
        self.push(v as u8);
    }

    fn bytes(&mut self, v: &[u8]) {
        self.number(v.len() as u64);
        self.extend_from_slice(v);
    }

    fn time(&mut self, v: Timestamp) {
        self.extend_from_slice(&v.as_micros().to_be_bytes());
    }
}

/// Reads values from the front of a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByteReader<'a>(pub(crate) &'a [u8]);

impl<'a> ByteReader<'a> {
    /// Reads one value that must occupy all bytes; `None` when the bytes do not follow the encoding or when bytes
    /// remain after the value.
    pub(crate) fn read_all<T>(
        bytes: &'a [u8],
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Option<T> {
        let mut r = Self(bytes);
        read(&mut r).ok().filter(|_| r.is_empty())
    }

    /// Reads the format byte of a row, which must be [`FORMAT`].
    pub(crate) fn format(&mut self) -> Result<(), Malformed> {
        match self.byte()? {
            FORMAT => Ok(()),
            _ => Err(Malformed),
        }
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    pub(crate) fn optional(&mut self) -> Result<Option<&'a str>, Malformed> {
        match self.flag()? {
            true => self.text().map(Some),
            false => Ok(None),
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn fixed(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(n).ok_or(Malformed)?;
        self.0 = rest;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.fixed(N)?.try_into().map_err(|_| Malformed)
    }

    /// Takes all remaining bytes.
    pub(crate) const fn rest(&mut self) -> &'a [u8] {
        let rest = self.0;
        self.0 = &[];
        rest
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.fixed(1)?[0])
    }

    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let b = self.byte()?;
            let low = u64::from(b & 0x7f);
            if shift == 63 && low > 1 {
                return Err(Malformed);
            }
            value |= low << shift;
            if b & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let n = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        self.fixed(n)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }

    pub(crate) fn time(&mut self) -> Result<Timestamp, Malformed> {
        Ok(Timestamp::from_micros(i64::from_be_bytes(self.array()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_and_texts_round_trip(n: u64, t in ".{0,40}") {
            let mut out = Vec::new();
            out.number(n);
            out.text(&t);
            let mut r = ByteReader(&out);
            prop_assert_eq!(r.number(), Ok(n));
            prop_assert_eq!(r.text(), Ok(t.as_str()));
            prop_assert!(r.is_empty());
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>) {
            let mut r = ByteReader(&bytes);
            while r.number().is_ok() && r.bytes().is_ok() {}
        }
    }
}
