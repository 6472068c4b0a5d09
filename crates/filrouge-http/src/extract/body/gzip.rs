//! Decompresses gzip within limits, so that a small body cannot expand to fill all memory.

use std::io::{self, BufRead, ErrorKind, Read};

use flate2::bufread::GzDecoder;

use super::receive::Refusal;
use crate::limits::Reservation;

/// The decompressed size in bytes that every body may have, whatever its compressed size.
const ALWAYS: usize = 1 << 20;
/// The maximum ratio of a larger decompressed size to the compressed size. For text, it is usually 3 to 20.
const RATIO: usize = 100;
/// The number of bytes that are read or decompressed before other tasks may run.
const STEP: usize = 64 << 10;
/// The maximum number of gzip members in a body (RFC 1952 §2.2). Each costs a decoder, even if it is empty.
const MEMBERS: usize = 64;

/// The remaining input. A read fails with `WouldBlock` after every [`STEP`] bytes, so that other tasks may run even if
/// long input decompresses to nothing.
struct Packed<'a> {
    rest: &'a [u8],
    turn: usize,
}

impl Read for Packed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.fill_buf()?.read(into)?;
        self.consume(n);
        Ok(n)
    }
}

impl BufRead for Packed<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.turn == 0 && !self.rest.is_empty() {
            self.turn = STEP;
            return Err(ErrorKind::WouldBlock.into());
        }
        Ok(self.rest.get(..self.turn).unwrap_or(self.rest))
    }

    fn consume(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
        self.turn = self.turn.saturating_sub(bytes);
    }
}

/// Decompresses `packed`. The result has at most `limit` bytes, and at most [`ALWAYS`] bytes or [`RATIO`] times the
/// compressed size, whichever is more. Its memory is reserved in `room`.
pub(super) async fn decompress(
    packed: &[u8],
    limit: usize,
    room: &Reservation,
) -> Result<Vec<u8>, Refusal> {
    let limit = limit.min(ALWAYS.max(packed.len().saturating_mul(RATIO)));
    let mut members = 1;
    let mut decoder = GzDecoder::new(Packed {
        rest: packed,
        turn: STEP,
    });
    let mut step = vec![0; STEP];
    let mut out = Vec::new();
    loop {
        match decoder.read(&mut step) {
            Ok(0) if decoder.get_ref().rest.is_empty() => return Ok(out),
            Ok(0) if members == MEMBERS => return Err(Refusal::Members { limit: MEMBERS }),
            Ok(0) => {
                members += 1;
                decoder = GzDecoder::new(decoder.into_inner());
            }
            Ok(n) if n > limit - out.len() => return Err(Refusal::Expands { limit }),
            Ok(n) if !room.grow(n) => {
                tracing::debug!(bytes = n, "no memory for a decompressed body");
                return Err(Refusal::NoRoom);
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

    fn pack(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    async fn decompressed(packed: &[u8], limit: usize, total: usize) -> Result<Vec<u8>, Refusal> {
        let room = Budget::without_shares(total).reservation();
        decompress(packed, limit, &room).await
    }

    #[tokio::test]
    async fn compressed_bodies_round_trip() {
        let text = b"{\"a\":1}".repeat(9999);
        assert_eq!(
            decompressed(&pack(&text), 1 << 20, 1 << 20).await.unwrap(),
            text
        );
        let two = [pack(b"a"), pack(b"b")].concat();
        assert_eq!(decompressed(&two, 10, 10).await.unwrap(), b"ab");
    }

    #[tokio::test]
    async fn the_number_of_members_is_limited() {
        let one = pack(b"a");
        assert_eq!(
            decompressed(&one.repeat(MEMBERS), 9999, 9999)
                .await
                .unwrap(),
            b"a".repeat(MEMBERS)
        );
        for many in [one, pack(b"")] {
            assert_eq!(
                decompressed(&many.repeat(MEMBERS + 1), 9999, 9999).await,
                Err(Refusal::Members { limit: MEMBERS })
            );
        }
    }

    /// The body is one gzip member of many empty blocks (RFC 1951 §3.2.4).
    #[tokio::test]
    async fn empty_blocks_do_not_block_other_tasks() {
        let mut hollow = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
        hollow.extend_from_slice(&[0, 0, 0, 0xff, 0xff].repeat(STEP));
        hollow.extend_from_slice(&[1, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
        let mut decompressing = std::pin::pin!(decompressed(&hollow, 9999, 9999));
        let mut turns = 0;
        let all = std::future::poll_fn(|cx| {
            turns += 1;
            decompressing.as_mut().poll(cx)
        });
        assert_eq!(all.await, Ok(Vec::new()));
        assert!(turns >= 5, "{turns}");
    }

    #[tokio::test]
    async fn size_and_memory_limits_are_enforced() {
        let bomb = pack(&vec![b' '; 8 << 20]);
        assert!(bomb.len() < 10_000, "{}", bomb.len());
        let limit = 1 << 20;
        assert_eq!(
            decompressed(&bomb, 32 << 20, 1 << 30).await,
            Err(Refusal::Expands { limit })
        );
        let small = pack(&[b' '; 1000]);
        assert_eq!(
            decompressed(&small, 999, 9999).await,
            Err(Refusal::Expands { limit: 999 })
        );
        assert_eq!(decompressed(&small, 1000, 999).await, Err(Refusal::NoRoom));
        let cut = small.get(..small.len() - 4).unwrap();
        for bad in [cut, b"{}", &[small.as_slice(), b"x"].concat()] {
            assert_eq!(decompressed(bad, 9999, 9999).await, Err(Refusal::NotGzip));
        }
    }
}
