//! Seals show whether the rows of an index are those that were written to it (docs/adr/0041-sealed-index.md).
//!
//! A session is sealed with its documents, a segment with its postings, a shard with its sessions and segments, and the
//! index with its shards. As in the store digest (`digest.rs`), each member has a secret term, and a seal contains the
//! masked sum of the terms: a change of one member needs no other member, and older members with the same sum cannot be
//! found. A MAC binds the sum to the row's other values.

use std::fmt;

use filrouge_types::Failure;
use sha2::{Digest as _, Sha256};

use super::{DocumentNo, NewDocument, SessionEntry, SessionNo, Shard};
use crate::keyring::{Entropy, OsEntropy, SecretNumbers, equal_macs};

/// The length of a seal in bytes: the nonce (16), the masked sum (16), the number of members (8) and the MAC (16).
pub const SEAL_BYTES: usize = 56;
/// The length of the MAC of a body in bytes.
pub const BODY_MAC_BYTES: usize = 16;

/// The key of an index's seals ([`crate::Keyring::index_key`]).
#[derive(Clone)]
pub struct IndexKey(SecretNumbers);

impl fmt::Debug for IndexKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IndexKey(secret)")
    }
}

/// A row with a seal, and its values that the seal covers besides the members.
#[derive(Debug, Clone, Copy)]
pub enum SealedRow<'a> {
    /// The index, with its feed position; its members are shards.
    Index(Option<&'a [u8]>),
    /// A shard with its number and its counts; its members are sessions, and what makes them found.
    Shard(u64, &'a Shard, &'a [i64]),
    /// A segment with its number, and the lowest and highest number of its documents; its members are its rows.
    Segment(u64, DocumentNo, DocumentNo),
    /// A session with its number and its shard; its members are documents.
    Session(SessionNo, &'a Shard, &'a SessionEntry),
}

/// A member of a sealed row.
#[derive(Debug, Clone, Copy)]
pub enum Member<'a> {
    /// A session: the number of its shard, its number, its key and its seal. A forgotten session keeps its seal.
    Session(u64, SessionNo, &'a str, &'a [u8]),
    /// A shard: its number and that of its realm (0 without numbers of realms), its name and its seal.
    Shard([u64; 2], &'a Shard, &'a [u8]),
    /// A segment of postings of a shard: its number and its seal.
    Segment(u64, &'a [u8]),
    /// A row of a segment, or a document of a shard without postings: its table, its number, and its contents.
    Postings(u8, u64, &'a [u8]),
    /// A document.
    Document {
        /// The number of its session.
        session: SessionNo,
        /// Its number.
        no: DocumentNo,
        /// [`NewDocument::key`].
        key: &'a str,
        /// [`NewDocument::unit`], [`NewDocument::kind`], [`NewDocument::created`] and [`NewDocument::digest`].
        fields: [u64; 4],
        /// A hash of other contents of its row; may be empty.
        content: &'a [u8],
    },
}

impl<'a> Member<'a> {
    /// The member for a new document of a session.
    #[must_use]
    pub fn new_document(
        session: SessionNo,
        no: DocumentNo,
        document: &'a NewDocument,
        content: &'a [u8],
    ) -> Self {
        let (kind, created) = (document.kind.into(), document.created.cast_unsigned());
        Self::Document {
            session,
            no,
            key: &document.key,
            fields: [document.unit, kind, created, document.digest],
            content,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut encoded = Vec::with_capacity(128);
        match self {
            Self::Session(shard, no, key, seal) => {
                encoded.push(b's');
                add_numbers(&mut encoded, &[*shard, *no]);
                add_bytes(&mut encoded, key.as_bytes());
                encoded.extend_from_slice(seal);
            }
            Self::Shard(numbers, shard, seal) => {
                encoded.push(b'h');
                add_numbers(&mut encoded, numbers);
                add_shard(&mut encoded, shard);
                encoded.extend_from_slice(seal);
            }
            Self::Segment(no, seal) => {
                encoded.push(b'g');
                add_numbers(&mut encoded, &[*no]);
                encoded.extend_from_slice(seal);
            }
            Self::Postings(table, no, contents) => {
                encoded.extend_from_slice(&[b'p', *table]);
                add_numbers(&mut encoded, &[*no]);
                encoded.extend_from_slice(contents);
            }
            Self::Document {
                session,
                no,
                key,
                fields,
                content,
            } => {
                encoded.push(b'd');
                add_numbers(&mut encoded, &[*session, *no]);
                add_numbers(&mut encoded, fields);
                add_bytes(&mut encoded, key.as_bytes());
                encoded.extend_from_slice(content);
            }
        }
        encoded
    }
}

impl SealedRow<'_> {
    /// The values that the MAC covers.
    fn encode(&self) -> Vec<u8> {
        let mut encoded = Vec::with_capacity(256);
        match self {
            Self::Index(position) => {
                encoded.push(b'I');
                if let Some(position) = position {
                    encoded.push(1);
                    encoded.extend_from_slice(position);
                }
            }
            Self::Shard(no, shard, counts) => {
                encoded.push(b'H');
                add_numbers(&mut encoded, &[*no]);
                add_shard(&mut encoded, shard);
                counts
                    .iter()
                    .for_each(|count| encoded.extend_from_slice(&count.to_be_bytes()));
            }
            Self::Segment(no, first, last) => {
                encoded.push(b'G');
                add_numbers(&mut encoded, &[*no, *first, *last]);
            }
            Self::Session(no, shard, entry) => {
                encoded.push(b'S');
                add_numbers(&mut encoded, &[*no, entry.stamp[0], entry.stamp[1]]);
                add_numbers(&mut encoded, &[entry.updated.cast_unsigned()]);
                add_shard(&mut encoded, shard);
                add_bytes(&mut encoded, entry.key.as_bytes());
                let project = entry.project.iter();
                project.for_each(|project| add_bytes(&mut encoded, project.as_bytes()));
            }
        }
        encoded
    }

    /// Whether the row may be without a seal while it has no members.
    const fn may_be_unsealed(&self) -> bool {
        matches!(
            self,
            Self::Index(None) | Self::Shard(..) | Self::Segment(..)
        )
    }
}

fn add_numbers(encoded: &mut Vec<u8>, numbers: &[u64]) {
    for number in numbers {
        encoded.extend_from_slice(&number.to_be_bytes());
    }
}

fn add_bytes(encoded: &mut Vec<u8>, bytes: &[u8]) {
    add_numbers(encoded, &[bytes.len() as u64]);
    encoded.extend_from_slice(bytes);
}

fn add_shard(encoded: &mut Vec<u8>, shard: &Shard) {
    add_bytes(encoded, &shard.realm);
    add_bytes(encoded, &shard.owner);
}

/// The hash of a document's folded text and body, for [`Member::Document`]: the SHA-256 of both their SHA-256.
#[must_use]
pub fn content_hash(folded: &str, body: &[u8]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(Sha256::digest(folded));
    hash.update(Sha256::digest(body));
    hash.finalize().into()
}

/// The members of a sealed row: the secret sum of their terms modulo 2^128, and their number.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Members {
    sum: u128,
    count: u64,
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Members({})", self.count)
    }
}

impl Members {
    /// Adds a member.
    pub fn add(&mut self, key: &IndexKey, member: &Member<'_>) {
        self.sum = self.sum.wrapping_add(key.term(member));
        self.count = self.count.wrapping_add(1);
    }

    /// Removes these members.
    pub const fn remove_all(&mut self, removed: Self) {
        self.sum = self.sum.wrapping_sub(removed.sum);
        self.count = self.count.wrapping_sub(removed.count);
    }

    /// Removes a member.
    pub fn remove(&mut self, key: &IndexKey, member: &Member<'_>) {
        self.sum = self.sum.wrapping_sub(key.term(member));
        self.count = self.count.wrapping_sub(1);
    }
}

impl IndexKey {
    pub(crate) const fn new(key: SecretNumbers) -> Self {
        Self(key)
    }

    fn term(&self, member: &Member<'_>) -> u128 {
        self.0.number(&[b"t", &member.encode()])
    }

    /// The number that masks the sum under this nonce.
    fn mask(&self, nonce: &[u8]) -> u128 {
        self.0.number(&[b"m", nonce])
    }

    /// The MAC of a row and of the part of its seal before the MAC.
    fn mac(&self, row: &SealedRow<'_>, sealed: &[u8]) -> [u8; 16] {
        self.0.number(&[b"s", sealed, &row.encode()]).to_be_bytes()
    }

    /// The seal of a row with these members.
    ///
    /// # Errors
    /// `internal` when the random source fails.
    pub fn seal(&self, row: &SealedRow<'_>, members: Members) -> Result<[u8; SEAL_BYTES], Failure> {
        let mut seal = [0; SEAL_BYTES];
        OsEntropy.fill(&mut seal[..16])?;
        let masked = members.sum.wrapping_add(self.mask(&seal[..16]));
        seal[16..32].copy_from_slice(&masked.to_be_bytes());
        seal[32..40].copy_from_slice(&members.count.to_be_bytes());
        let mac = self.mac(row, &seal[..40]);
        seal[40..].copy_from_slice(&mac);
        Ok(seal)
    }

    /// The members of a row that has this seal; `None` if it is not the seal of this row. A new index, shard or segment
    /// has neither a seal nor members.
    #[must_use]
    pub fn open(&self, row: &SealedRow<'_>, seal: Option<&[u8]>) -> Option<Members> {
        let Some(seal) = seal else {
            return row.may_be_unsealed().then(Members::default);
        };
        let (sealed, mac) = seal.split_at_checked(SEAL_BYTES - 16)?;
        if !equal_macs(mac.try_into().ok()?, &self.mac(row, sealed)) {
            return None;
        }
        let (nonce, rest) = sealed.split_at_checked(16)?;
        let (masked, rest) = rest.split_first_chunk::<16>()?;
        let count = rest.first_chunk::<8>()?;
        Some(Members {
            sum: u128::from_be_bytes(*masked).wrapping_sub(self.mask(nonce)),
            count: u64::from_be_bytes(*count),
        })
    }

    /// The MAC of a document's stored body. It covers the shard and the key of the document's session, and the document
    /// as a member, so that a body is valid for its own document alone, even if another index used the same numbers.
    #[must_use]
    pub fn body_mac(
        &self,
        (shard, session): (&Shard, &str),
        document: &Member<'_>,
        stored: &[u8],
    ) -> [u8; BODY_MAC_BYTES] {
        let mut place = Vec::with_capacity(256);
        add_shard(&mut place, shard);
        add_bytes(&mut place, session.as_bytes());
        place.extend(document.encode());
        self.0.number(&[b"b", &place, stored]).to_be_bytes()
    }
}

#[cfg(test)]
mod tests;
