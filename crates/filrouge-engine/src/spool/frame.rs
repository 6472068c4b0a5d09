//! Frames: the records of the spool's files (docs/spool.md). Each has its own MAC, so a damaged frame affects no other.
//!
//! A frame is `FRsp`, key id (4 bytes), length of the payload (4), MAC (16) and payload. The payload is the length of
//! the header (4), the header as JSON, and the body. Numbers are big-endian. The MAC covers the payload and the store's
//! id.

use filrouge_store::{Domain, KeyId, Keyring, MAC_BYTES, equal_macs};
use serde::{Deserialize, Serialize};

/// The first bytes of every frame.
const MAGIC: [u8; 4] = *b"FRsp";
/// The length of a frame's preamble: magic, key id, length, MAC.
const PREAMBLE_BYTES: usize = MAGIC.len() + 4 + 4 + MAC_BYTES;

/// A frame's header, which gives the frame's kind and its data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Header {
    /// A queued write; the body is the command.
    Write(EntryInfo),
    /// A lease that the spool granted, renewed or released; the body is the command that requested it.
    Lease(EntryInfo, SpooledLease),
    /// A mark that an entry is done: it has left the queue. The mark has no body.
    Done {
        /// The entry's number.
        id: u64,
    },
    /// A dead letter: a write that the ledger has refused. The body is the command, or empty if its contents were
    /// erased.
    Dead(EntryInfo, DeadLetterReason),
    /// A dead letter with a piece of a file that fails verification; the body is the piece.
    Unreadable(DeadLetterReason),
}

/// Identifies an entry and its session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EntryInfo {
    /// The number of the entry in its folder. A newer entry has a greater number.
    pub(super) id: u64,
    /// When it was queued, in microseconds since 1970.
    pub(super) at: i64,
    pub(super) tenant: String,
    pub(super) session: String,
    /// The kind of write as one word, such as `append` (see `queue.rs`).
    pub(super) what: String,
}

/// A session's lease after the spool has granted, renewed or released it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SpooledLease {
    pub(super) fence: u64,
    /// Empty if the lease was released.
    pub(super) holder: String,
    /// When the lease expires, in microseconds since 1970.
    pub(super) expires_at: i64,
}

/// The reason why an entry is a dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DeadLetterReason {
    /// The number of the dead letter in its folder.
    pub(super) letter: u64,
    /// When the write was refused, in microseconds since 1970.
    pub(super) refused_at: i64,
    pub(super) code: String,
    pub(super) detail: String,
}

/// Authenticates frames with the keyring. The MAC is bound to the store's id, so frames of another store do not verify.
#[derive(Clone)]
pub(super) struct Seal {
    keyring: std::sync::Arc<Keyring>,
    store_id: String,
}

impl Seal {
    pub(super) fn new(keyring: std::sync::Arc<Keyring>, store_id: &str) -> Self {
        Self {
            keyring,
            store_id: store_id.to_owned(),
        }
    }

    fn mac(&self, key: KeyId, payload: &[u8]) -> Option<[u8; MAC_BYTES]> {
        let length = (self.store_id.len() as u64).to_be_bytes();
        let pieces = [&length, self.store_id.as_bytes(), payload];
        self.keyring.mac(key, Domain::Spool, &pieces)
    }

    /// The frame of `header` and `body`.
    pub(super) fn frame(&self, header: &Header, body: &[u8]) -> std::io::Result<Vec<u8>> {
        let header = serde_json::to_vec(header)?;
        let payload = [&length_bytes(header.len())?[..], &header[..], body].concat();
        let key = self.keyring.active();
        // `mac` returns `None` only for a key that is not in the ring; the active one is.
        let mac = self.mac(key, &payload).unwrap_or_default();
        let (key, length) = (key.to_be_bytes(), length_bytes(payload.len())?);
        Ok([&MAGIC[..], &key[..], &length[..], &mac[..], &payload[..]].concat())
    }

    /// Whether the unreadable rest of a file is one torn frame, which a crash left incomplete: a frame whose length
    /// reaches to the end of the file or beyond, or zeros. A frame under a key that is not in the ring may be valid, so
    /// it does not count as torn.
    fn is_torn_frame(&self, bytes: &[u8]) -> bool {
        if bytes.iter().take(MAGIC.len()).all(|byte| *byte == 0) {
            return memchr::memmem::find(bytes, &MAGIC).is_none();
        }
        let Some((preamble, rest)) = bytes.split_at_checked(PREAMBLE_BYTES) else {
            return false;
        };
        preamble.starts_with(&MAGIC)
            && rest.len() <= u32_at(preamble, 8) as usize
            && self.mac(u32_at(preamble, 4), &[]).is_some()
    }

    /// Reads the frame at the start of `bytes`.
    fn read(&self, bytes: &[u8]) -> ParsedFrame {
        let Some((preamble, rest)) = bytes.split_at_checked(PREAMBLE_BYTES) else {
            let magic_part = &bytes[..bytes.len().min(MAGIC.len())];
            return match MAGIC.starts_with(magic_part) {
                true => ParsedFrame::Incomplete,
                false => ParsedFrame::Invalid,
            };
        };
        if !preamble.starts_with(&MAGIC) {
            return ParsedFrame::Invalid;
        }
        let Some(payload) = rest.get(..u32_at(preamble, 8) as usize) else {
            return ParsedFrame::Incomplete;
        };
        let is_authentic = self
            .mac(u32_at(preamble, 4), payload)
            .zip(preamble.last_chunk::<MAC_BYTES>())
            .is_some_and(|(m, mac)| equal_macs(&m, mac));
        match is_authentic.then(|| parse_payload(payload)).flatten() {
            Some((header, body)) => {
                ParsedFrame::Frame(header, body.to_vec(), PREAMBLE_BYTES + payload.len())
            }
            None => ParsedFrame::Invalid,
        }
    }
}

/// The big-endian number at offset `at` of a frame's preamble.
fn u32_at(preamble: &[u8], at: usize) -> u32 {
    let bytes = preamble[at..].first_chunk::<4>().copied();
    bytes.map_or(0, u32::from_be_bytes)
}

fn length_bytes(length: usize) -> std::io::Result<[u8; 4]> {
    let length = u32::try_from(length).map_err(std::io::Error::other)?;
    Ok(length.to_be_bytes())
}

fn parse_payload(payload: &[u8]) -> Option<(Header, &[u8])> {
    let (length, rest) = payload.split_first_chunk::<4>()?;
    let (header, body) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    Some((serde_json::from_slice(header).ok()?, body))
}

/// The result of reading one frame.
enum ParsedFrame {
    /// The header, the body, and the length of the frame.
    Frame(Header, Vec<u8>, usize),
    /// The bytes end before the frame does.
    Incomplete,
    /// The bytes are no frame, or fail verification.
    Invalid,
}

/// The contents of a file of frames.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ScanResult {
    /// The frames that verify, in order.
    pub(super) frames: Vec<(Header, Vec<u8>)>,
    /// The pieces between and after them that do not verify, without a torn last frame.
    pub(super) unreadable: Vec<Vec<u8>>,
    /// The length of the file without a torn last frame.
    pub(super) valid_bytes: usize,
}

/// Scans a file. Bytes that fail verification are skipped up to the next valid frame. Only the last frame can be torn;
/// it is dropped: its write was not answered yet, so no caller relies on it.
pub(super) fn scan(bytes: &[u8], seal: &Seal) -> ScanResult {
    let mut scanned = ScanResult::default();
    let mut at = 0;
    while at < bytes.len() {
        match seal.read(&bytes[at..]) {
            ParsedFrame::Frame(header, body, length) => {
                scanned.frames.push((header, body));
                at += length;
            }
            read => {
                let Some(next) = next_frame(bytes, at + 1, seal) else {
                    if matches!(read, ParsedFrame::Invalid) && !seal.is_torn_frame(&bytes[at..]) {
                        scanned.unreadable.push(bytes[at..].to_vec());
                        at = bytes.len();
                    }
                    break;
                };
                scanned.unreadable.push(bytes[at..next].to_vec());
                at = next;
            }
        }
    }
    scanned.valid_bytes = at;
    scanned
}

/// Offset of the next valid frame at or after `from`.
fn next_frame(bytes: &[u8], from: usize, seal: &Seal) -> Option<usize> {
    let offsets = memchr::memmem::find_iter(bytes.get(from..)?, &MAGIC);
    let mut offsets = offsets.map(|at| from + at);
    offsets.find(|at| matches!(seal.read(&bytes[*at..]), ParsedFrame::Frame(..)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn seal(store: &str) -> Seal {
        Seal::new(Arc::new(Keyring::single([5; 32])), store)
    }

    fn file(bodies: &[Vec<u8>]) -> (Vec<u8>, Vec<usize>) {
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        for (id, body) in (1..).zip(bodies) {
            let frame = seal("s").frame(&Header::Done { id }, body).unwrap();
            bytes.extend_from_slice(&frame);
            ends.push(bytes.len());
        }
        (bytes, ends)
    }

    fn some_bodies() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let text = prop_oneof![
            any::<Vec<u8>>(),
            Just(b"FRsp".to_vec()),
            Just(b"FRspFRsp\0\0\0\x01\0\0".to_vec()),
        ];
        proptest::collection::vec(text, 0..6)
    }

    proptest! {
        #[test]
        fn a_file_cut_anywhere_keeps_the_frames_before_the_cut(bodies in some_bodies(), at: prop::sample::Index) {
            let (bytes, ends) = file(&bodies);
            let cut = at.index(bytes.len() + 1);
            let scanned = scan(&bytes[..cut], &seal("s"));
            let complete = ends.iter().filter(|end| **end <= cut).count();
            prop_assert_eq!(scanned.frames.len(), complete);
            prop_assert!(scanned.unreadable.is_empty());
            prop_assert_eq!(scanned.valid_bytes, ends[..complete].last().copied().unwrap_or(0));
            for ((_, body), written) in scanned.frames.iter().zip(&bodies) {
                prop_assert_eq!(body, written);
            }
        }

        #[test]
        fn a_changed_byte_damages_only_its_frame(bodies in some_bodies(), at: prop::sample::Index, bit in 0..8_u8) {
            let (mut bytes, ends) = file(&bodies);
            prop_assume!(!bytes.is_empty());
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let hit = ends.iter().filter(|end| **end <= at).count();
            let scanned = scan(&bytes, &seal("s"));
            let ids: Vec<_> = scanned.frames.iter().map(|(header, _)| header.clone()).collect();
            let others = (1..=bodies.len() as u64).filter(|id| *id != hit as u64 + 1);
            prop_assert_eq!(ids, others.map(|id| Header::Done { id }).collect::<Vec<_>>());
            // A damaged last frame whose length exceeds the file is indistinguishable from a torn one.
            prop_assert!(scanned.unreadable.len() == 1 || hit + 1 == bodies.len());
        }
    }

    #[test]
    fn frames_of_another_store_are_rejected() {
        let (bytes, _) = file(&[b"x".to_vec(), b"y".to_vec()]);
        let scanned = scan(&bytes, &seal("t"));
        assert!(scanned.frames.is_empty());
        assert_eq!(scanned.unreadable, [bytes]);
    }

    #[test]
    fn an_incomplete_last_frame_is_torn() {
        let (bytes, ends) = file(&[b"x".to_vec(), b"yyyy".to_vec()]);
        let mut half = bytes.clone();
        half[ends[1] - 2..].fill(0);
        let mut zeros = bytes.clone();
        zeros[ends[0]..].fill(0);
        for torn in [half, zeros] {
            let scanned = scan(&torn, &seal("s"));
            assert_eq!((scanned.frames.len(), scanned.valid_bytes), (1, ends[0]));
            assert!(scanned.unreadable.is_empty());
        }
    }

    #[test]
    fn a_last_frame_of_an_unknown_key_is_kept() {
        let (mut bytes, ends) = file(&[b"x".to_vec(), b"y".to_vec()]);
        bytes[ends[0] + 4] ^= 1;
        let scanned = scan(&bytes, &seal("s"));
        assert_eq!(scanned.unreadable, [bytes[ends[0]..].to_vec()]);
    }
}
