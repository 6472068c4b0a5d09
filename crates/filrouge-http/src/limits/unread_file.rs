//! Files for responses that their clients have not read.

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::Path;

use hyper::body::Bytes;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, MAX_TAG_LEN, Nonce, UnboundKey};
use ring::error::Unspecified;
use ring::rand::{SecureRandom, SystemRandom};

use super::Reservation;
use super::large_responses::FRAME_MAX;

/// A file without a name, with the bytes of a response. It is encrypted with a key that is only in memory, so that no
/// recorded text remains on the disk.
pub(super) struct UnreadFile {
    file: File,
    key: LessSafeKey,
    length: usize,
    _reservation: Reservation,
}

fn cipher_failure(_: Unspecified) -> io::Error {
    io::Error::other("the cipher failed")
}

/// The nonce of a frame. The key is used for one file, so the frame's number is unique.
fn nonce(frame: usize) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&(frame as u64).to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

impl UnreadFile {
    /// Writes the bytes into a new file in `folder`, as frames of at most [`FRAME_MAX`] bytes. Creates the folder if it is
    /// missing.
    pub(super) fn create(
        folder: &Path,
        bytes: &[u8],
        reservation: Reservation,
    ) -> io::Result<Self> {
        let mut secret = [0; 32];
        SystemRandom::new()
            .fill(&mut secret)
            .map_err(cipher_failure)?;
        let key = UnboundKey::new(&AES_256_GCM, &secret).map_err(cipher_failure)?;
        let key = LessSafeKey::new(key);
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(folder)?;
        let mut file = tempfile::tempfile_in(folder)?;
        for (number, frame) in bytes.chunks(FRAME_MAX).enumerate() {
            let mut sealed = frame.to_vec();
            key.seal_in_place_append_tag(nonce(number), Aad::empty(), &mut sealed)
                .map_err(cipher_failure)?;
            file.write_all(&sealed)?;
        }
        Ok(Self {
            file,
            key,
            length: bytes.len(),
            _reservation: reservation,
        })
    }

    /// Reads the frame with this number, counted from 0. It must exist.
    pub(super) fn read_frame(&self, number: usize) -> io::Result<Bytes> {
        let length = (self.length - number * FRAME_MAX).min(FRAME_MAX);
        let mut bytes = vec![0; length + MAX_TAG_LEN];
        let offset = number * (FRAME_MAX + MAX_TAG_LEN);
        self.file.read_exact_at(&mut bytes, offset as u64)?;
        self.key
            .open_in_place(nonce(number), Aad::empty(), &mut bytes)
            .map_err(cipher_failure)?;
        bytes.truncate(length);
        Ok(Bytes::from(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Budget;
    use super::*;

    #[test]
    fn frames_are_read_as_written_and_the_file_does_not_show_them() {
        let text = [b'x'; 2 * FRAME_MAX + 1];
        let folder = tempfile::tempdir().unwrap();
        let reservation = Budget::without_shares(0).reservation();
        let missing = folder.path().join("missing");
        let file = UnreadFile::create(&missing, &text, reservation).unwrap();
        let frames = [0, 1, 2].map(|number| file.read_frame(number).unwrap());
        assert!(frames.concat() == text);
        let mut stored = vec![0; text.len()];
        file.file.read_exact_at(&mut stored, 0).unwrap();
        assert!(!stored.windows(8).any(|bytes| bytes == [b'x'; 8]));
    }
}
