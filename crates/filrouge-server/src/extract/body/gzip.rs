//! Gzip, unfolded within bounds: a few bytes must not become all memory.

use std::io::{ErrorKind, Read};

use flate2::read::MultiGzDecoder;

use super::receive::Refusal;
use crate::limits::Reservation;

/// Bytes that any packed body may unfold to.
const ALWAYS: usize = 1 << 20;
/// How many times its packed size a body may have beyond that: text packs some 3 to 20 times.
const RATIO: usize = 100;
/// Bytes that are unfolded before others get their turn.
const STEP: usize = 64 << 10;

/// What `packed` was; at most `most` bytes, and not more than a hundred times what was sent.
pub(super) async fn unfold(
    packed: &[u8],
    most: usize,
    room: &Reservation,
) -> Result<Vec<u8>, Refusal> {
    let most = most.min(ALWAYS.max(packed.len().saturating_mul(RATIO)));
    let mut decoder = MultiGzDecoder::new(packed);
    let mut step = vec![0; STEP];
    let mut out = Vec::new();
    loop {
        match decoder.read(&mut step) {
            Ok(0) => return Ok(out),
            Ok(n) if n > most - out.len() => return Err(Refusal::Unfolds { most }),
            Ok(n) if !room.grow(n) => {
                tracing::debug!(bytes = n, "no room for a body that unfolds");
                return Err(Refusal::NoRoom);
            }
            Ok(n) => out.extend_from_slice(step.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(Refusal::NotGzip),
        }
        tokio::task::yield_now().await;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
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

    async fn unfolded(packed: &[u8], most: usize, total: usize) -> Result<Vec<u8>, Refusal> {
        let room = Budget::new(total).reservation();
        unfold(packed, most, &room).await
    }

    #[tokio::test]
    async fn what_was_packed_comes_back() {
        let text = b"{\"a\":1}".repeat(9999);
        assert_eq!(
            unfolded(&pack(&text), 1 << 20, 1 << 20).await.unwrap(),
            text
        );
        let two = [pack(b"a"), pack(b"b")].concat();
        assert_eq!(unfolded(&two, 10, 10).await.unwrap(), b"ab");
    }

    #[tokio::test]
    async fn bounds_hold() {
        let bomb = pack(&vec![b' '; 8 << 20]);
        assert!(bomb.len() < 10_000, "{}", bomb.len());
        let most = 1 << 20;
        assert_eq!(
            unfolded(&bomb, 32 << 20, 1 << 30).await,
            Err(Refusal::Unfolds { most })
        );
        let small = pack(&[b' '; 1000]);
        assert_eq!(
            unfolded(&small, 999, 9999).await,
            Err(Refusal::Unfolds { most: 999 })
        );
        assert_eq!(unfolded(&small, 1000, 999).await, Err(Refusal::NoRoom));
        let cut = small.get(..small.len() - 4).unwrap();
        for bad in [cut, b"{}", &[small.as_slice(), b"x"].concat()] {
            assert_eq!(unfolded(bad, 9999, 9999).await, Err(Refusal::NotGzip));
        }
    }
}
