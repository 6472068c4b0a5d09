//! Decompresses gzip within limits, so that a small body cannot expand to fill all memory.

use std::io::{self, BufRead, ErrorKind, Read};

use flate2::bufread::GzDecoder;

use super::receive::Refusal;
use crate::limits::Reservation;

/// The decompressed size in bytes that every body may have, whatever its compressed size.
const ALWAYS_ALLOWED: usize = 1 << 20;
/// The maximum ratio of a larger decompressed size to the compressed size. For text, it is usually 3 to 20.
const RATIO_MAX: usize = 100;
/// The number of bytes that are read or decompressed before other tasks may run.
const STEP_BYTES: usize = 64 << 10;
/// The maximum number of gzip members in a body (RFC 1952 §2.2). Each costs a decoder, even if it is empty.
const MEMBERS_MAX: usize = 64;

/// The remaining input. A read fails with `WouldBlock` after every [`STEP_BYTES`] bytes, so that other tasks may run
/// even if long input decompresses to nothing.
struct CompressedInput<'a> {
    remaining: &'a [u8],
    step_left: usize,
}

impl Read for CompressedInput<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.fill_buf()?.read(into)?;
        self.consume(n);
        Ok(n)
    }
}

impl BufRead for CompressedInput<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.step_left == 0 && !self.remaining.is_empty() {
            self.step_left = STEP_BYTES;
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(self
            .remaining
            .get(..self.step_left)
            .unwrap_or(self.remaining))
    }

    fn consume(&mut self, bytes: usize) {
        self.remaining = self.remaining.get(bytes..).unwrap_or_default();
        self.step_left = self.step_left.saturating_sub(bytes);
    }
}

/// Decompresses `compressed`. The result has at most `limit` bytes, and at most [`ALWAYS_ALLOWED`] bytes or
/// [`RATIO_MAX`] times the compressed size, whichever is more. Its memory is reserved in `reservation`.
pub(super) async fn decompress(
    compressed: &[u8],
    limit: usize,
    reservation: &Reservation,
) -> Result<Vec<u8>, Refusal> {
    let limit = limit.min(ALWAYS_ALLOWED.max(compressed.len().saturating_mul(RATIO_MAX)));
    let mut members = 1;
    let mut decoder = GzDecoder::new(CompressedInput {
        remaining: compressed,
        step_left: STEP_BYTES,
    });
    let mut step = vec![0; STEP_BYTES];
    let mut out = Vec::new();
    loop {
        match decoder.read(&mut step) {
            Ok(0) if decoder.get_ref().remaining.is_empty() => return Ok(out),
            Ok(0) if members == MEMBERS_MAX => {
                return Err(Refusal::TooManyMembers { limit: MEMBERS_MAX });
            }
            Ok(0) => {
                members += 1;
                decoder = GzDecoder::new(decoder.into_inner());
            }
            Ok(n) if n > limit - out.len() => return Err(Refusal::ExpandsTooFar { limit }),
            Ok(n) if !reservation.grow(n) => {
                tracing::debug!(bytes = n, "no memory for a decompressed body");
                return Err(Refusal::NoMemory);
            }
            Ok(n) => out.extend_from_slice(step.get(..n).unwrap_or_default()),
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(_) => return Err(Refusal::NotGzip),
        }
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Budget;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn compress(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    async fn decompressed(
        compressed: &[u8],
        limit: usize,
        total: usize,
    ) -> Result<Vec<u8>, Refusal> {
        let reservation = Budget::without_shares(total).reservation();
        decompress(compressed, limit, &reservation).await
    }

    #[tokio::test]
    async fn compressed_bodies_round_trip() {
        let text = b"{\"a\":1}".repeat(9999);
        assert_eq!(
            decompressed(&compress(&text), 1 << 20, 1 << 20)
                .await
                .unwrap(),
            text
        );
        let two = [compress(b"a"), compress(b"b")].concat();
        assert_eq!(decompressed(&two, 10, 10).await.unwrap(), b"ab");
    }

    #[tokio::test]
    async fn the_number_of_members_is_limited() {
        let member = compress(b"a");
        assert_eq!(
            decompressed(&member.repeat(MEMBERS_MAX), 9999, 9999)
                .await
                .unwrap(),
            b"a".repeat(MEMBERS_MAX)
        );
        for member in [member, compress(b"")] {
            assert_eq!(
                decompressed(&member.repeat(MEMBERS_MAX + 1), 9999, 9999).await,
                Err(Refusal::TooManyMembers { limit: MEMBERS_MAX })
            );
        }
    }

    /// The body is one gzip member of many empty blocks (RFC 1951 §3.2.4).
    #[tokio::test]
    async fn empty_blocks_do_not_block_other_tasks() {
        let mut empty_blocks = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
        empty_blocks.extend_from_slice(&[0, 0, 0, 0xff, 0xff].repeat(STEP_BYTES));
        empty_blocks.extend_from_slice(&[1, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
        let mut decompressing = std::pin::pin!(decompressed(&empty_blocks, 9999, 9999));
        let mut polls = 0;
        let all = std::future::poll_fn(|cx| {
            polls += 1;
            decompressing.as_mut().poll(cx)
        });
        assert_eq!(all.await, Ok(Vec::new()));
        assert!(polls >= 5, "{polls}");
    }

    #[tokio::test]
    async fn size_and_memory_limits_are_enforced() {
        let bomb = compress(&vec![b' '; 8 << 20]);
        assert!(bomb.len() < 10_000, "{}", bomb.len());
        let limit = 1 << 20;
        assert_eq!(
            decompressed(&bomb, 32 << 20, 1 << 30).await,
            Err(Refusal::ExpandsTooFar { limit })
        );
        let small = compress(&[b' '; 1000]);
        assert_eq!(
            decompressed(&small, 999, 9999).await,
            Err(Refusal::ExpandsTooFar { limit: 999 })
        );
        assert_eq!(
            decompressed(&small, 1000, 999).await,
            Err(Refusal::NoMemory)
        );
        let truncated = small.get(..small.len() - 4).unwrap();
        for bad in [truncated, b"{}", &[small.as_slice(), b"x"].concat()] {
            assert_eq!(decompressed(bad, 9999, 9999).await, Err(Refusal::NotGzip));
        }
    }
}
