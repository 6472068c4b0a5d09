//! A rollback that an attacker computes without keys, from the contents of the database.
//!
//! The attacker has sessions of their own, each patched once, and wants to restore an older state of a foreign session.
//! They search for a set of own sessions to restore too, so that the sum of all heads stays the same: a generalized
//! birthday search (Wagner 2002). The search finds such a set in a sum of visible MACs, and in sums of secret terms
//! that are stored without a mask; it finds none in the digest.
//!
//! `scripts/torture` searches with the full 128 bits: 128 lists of 17 sessions, 2^17 subsets each.

use super::*;
use crate::keyring::Domain;
use crate::lane::Lanes;

/// The size of a search.
#[derive(Clone, Copy)]
struct Size {
    /// The bits of the sum that must be the same.
    bits: u32,
    /// The number of lists is 2^levels.
    levels: u32,
    /// The sessions of each list.
    sessions: u32,
}

impl Size {
    const SMALL: Self = Self {
        bits: 32,
        levels: 3,
        sessions: 9,
    };
    const FULL: Self = Self {
        bits: 128,
        levels: 7,
        sessions: 17,
    };

    const fn mask(bits: u32) -> u128 {
        if bits == 128 {
            u128::MAX
        } else {
            (1 << bits) - 1
        }
    }

    /// The number of the attacker's own sessions.
    fn own_sessions(self) -> usize {
        (self.sessions as usize) << self.levels
    }

    fn same_sum(self, a: u128, b: u128) -> bool {
        a.wrapping_sub(b) & Self::mask(self.bits) == 0
    }
}

/// One subset of each of several lists, and by how much the sum changes if their sessions are put back.
struct Choice {
    change: u128,
    subsets: Vec<u32>,
}

/// All subsets of a list.
fn choices(changes: &[u128], offset: u128) -> Vec<Choice> {
    let all = 0..1_u32 << changes.len();
    let choice = |subset: u32| {
        let chosen = (0..).zip(changes).filter(|(n, _)| subset >> n & 1 == 1);
        let change = chosen.fold(offset, |sum, (_, change)| sum.wrapping_add(*change));
        Choice {
            change,
            subsets: vec![subset],
        }
    };
    all.map(choice).collect()
}

/// The pairs whose changes add up to zero in the lowest `zero` bits; at most as many as the left list has choices.
fn merged(left: &[Choice], mut right: Vec<Choice>, zero: u32) -> Vec<Choice> {
    let low = |change: u128| change & Size::mask(zero);
    right.sort_unstable_by_key(|choice| low(choice.change));
    let mut found = Vec::new();
    for a in left {
        let wanted = low(a.change.wrapping_neg());
        let first = right.partition_point(|b| low(b.change) < wanted);
        for b in right[first..]
            .iter()
            .take_while(|b| low(b.change) == wanted)
        {
            if found.len() == left.len() {
                return found;
            }
            found.push(Choice {
                change: a.change.wrapping_add(b.change),
                subsets: [a.subsets.as_slice(), &b.subsets].concat(),
            });
        }
    }
    found
}

/// The choices of `lists` whose changes, with `offset`, are zero in the bits of their level.
fn search(size: Size, lists: &[&[u128]], offset: u128) -> Vec<Choice> {
    let [list] = lists else {
        let (left, right) = lists.split_at(lists.len() / 2);
        let level = lists.len().ilog2();
        let zero = match level == size.levels {
            true => size.bits,
            false => level * size.sessions,
        };
        return merged(&search(size, left, offset), search(size, right, 0), zero);
    };
    choices(list, offset)
}

/// Which own sessions to put back so that the sum stays the same although it changes by `foreign`.
fn forge(size: Size, changes: &[u128], foreign: u128) -> Option<Vec<bool>> {
    let lists: Vec<&[u128]> = changes.chunks(size.sessions as usize).collect();
    let found = search(size, &lists, foreign).into_iter().next()?;
    let bits = |subset: u32| (0..size.sessions).map(move |n| subset >> n & 1 == 1);
    Some(found.subsets.into_iter().flat_map(bits).collect())
}

/// The heads of the attacker's sessions and, last, of the foreign one: the MACs before and after their patches.
struct World {
    keyring: Keyring,
    macs: Vec<[[u8; MAC_BYTES]; 2]>,
}

impl World {
    fn new(size: Size) -> Self {
        let keyring = Keyring::single([7; 32]);
        let mac = |pk: u64, state: u8| {
            let pieces: [&[u8]; 2] = [&pk.to_be_bytes(), &[state]];
            keyring.mac(1, Domain::Head, &pieces).unwrap()
        };
        let macs = (0..=size.own_sessions() as u64).map(|pk| [mac(pk, 0), mac(pk, 1)]);
        Self {
            macs: macs.collect(),
            keyring,
        }
    }

    /// The digest when the first `patched` sessions are patched, except those to put back.
    fn digest(&self, patched: usize, put_back: impl Fn(usize) -> bool) -> Digest {
        let sessions = self.macs.iter().enumerate();
        sessions.fold(Digest::default(), |sum, (n, macs)| {
            let mac = &macs[usize::from(n < patched && !put_back(n))];
            sum.plus(&self.keyring, DigestRow::Head(n as u64), mac)
        })
    }

    /// By how much a visible sum changes when each session is put back.
    fn changes(&self, value: impl Fn(usize) -> u128) -> Vec<u128> {
        let sessions = 0..self.macs.len();
        sessions
            .map(|n| value(n).wrapping_sub(value(n + 1)))
            .collect()
    }

    /// Searches in the changes that the attacker sees; returns whether the digest stays the same.
    fn deceives(&self, size: Size, changes: &[u128]) -> bool {
        let (foreign, own) = changes.split_last().unwrap();
        let put_back = forge(size, own, *foreign).expect("the lists are long enough");
        let put_back = |n: usize| put_back.get(n).copied().unwrap_or(true);
        let sessions = self.macs.len();
        let unchanged = self.digest(sessions, |_| false);
        size.same_sum(self.digest(sessions, put_back).0, unchanged.0)
    }
}

#[test]
fn a_small_search_deceives_a_sum_of_visible_macs() {
    check_visible_macs(Size::SMALL);
}

#[test]
#[ignore = "takes minutes: scripts/torture runs it"]
fn the_full_search_deceives_a_sum_of_visible_macs() {
    check_visible_macs(Size::FULL);
}

#[test]
fn a_small_search_deceives_only_unmasked_sums() {
    check_masks(Size::SMALL);
}

#[test]
#[ignore = "takes minutes: scripts/torture runs it"]
fn the_full_search_deceives_only_unmasked_sums() {
    check_masks(Size::FULL);
}

fn check_visible_macs(size: Size) {
    let world = World::new(size);
    let number = |mac: &[u8; MAC_BYTES]| u128::from_be_bytes(*mac);
    let changes: Vec<u128> = world
        .macs
        .iter()
        .map(|[before, after]| number(before).wrapping_sub(number(after)))
        .collect();
    let (foreign, own) = changes.split_last().unwrap();
    let put_back = forge(size, own, *foreign).unwrap();
    let chosen = own.iter().zip(&put_back).filter(|(_, back)| **back);
    let change = chosen.fold(*foreign, |sum, (change, _)| sum.wrapping_add(*change));
    assert!(size.same_sum(change, 0));
    assert!(!world.deceives(size, &changes));
}

fn check_masks(size: Size) {
    let world = World::new(size);
    // The attacker patches one session in each commit, and reads the digest of each commit.
    let mut sums = vec![world.digest(0, |_| false)];
    for (n, [before, after]) in world.macs.iter().enumerate() {
        let (keyring, row) = (&world.keyring, DigestRow::Head(n as u64));
        let sum = sums[n].minus(keyring, row, before);
        sums.push(sum.plus(keyring, row, after));
    }
    let unmasked = world.changes(|n| sums[n].0);
    assert!(world.deceives(size, &unmasked));
    let entropy = crate::OsEntropy;
    let masked: Vec<MaskedDigest> = sums
        .iter()
        .map(|sum| sum.masked(&world.keyring, &entropy).unwrap())
        .collect();
    let visible = world.changes(|n| masked[n].sum);
    assert!(!world.deceives(size, &visible));
    for (masked, sum) in masked.iter().zip(&sums) {
        assert!(masked.unmasked(&world.keyring) == Some(*sum));
    }
}

#[test]
fn equal_sums_are_stored_as_different_bytes() {
    let keyring = Keyring::single([7; 32]);
    let [a, b] = [(); 2].map(|()| {
        let masked = Digest(5).masked(&keyring, &crate::OsEntropy).unwrap();
        assert_eq!(MaskedDigest::from_bytes(masked.to_bytes()), masked);
        masked
    });
    assert_ne!(a.sum, b.sum);
    assert!(a.unmasked(&keyring) == b.unmasked(&keyring));
    let other = Keyring::single([8; 32]);
    assert!(a.unmasked(&other) != Some(Digest(5)));
    let later = Keyring::new([(2, [7; 32])].into(), 2).unwrap();
    assert!(a.unmasked(&later).is_none());
    let refused = a.unmasked_for_write(&later).unwrap_err();
    assert_eq!(refused.code, ErrorCode::KeyMissing);
    assert!(refused.detail.contains("key 1"), "{refused:?}");
}

#[test]
fn a_term_depends_on_the_row_the_mac_and_the_root_key_alone() {
    let secrets = |keys: &[u32]| keys.iter().map(|id| (*id, [7 + *id as u8; 32])).collect();
    let ring = |keys: &[u32], active| Keyring::new(secrets(keys), active).unwrap();
    let term_of = |keyring: &Keyring, row, mac| Digest::default().plus(keyring, row, &[mac; 16]);
    let (one, rotated, other) = (ring(&[1], 1), ring(&[1, 2], 2), ring(&[2], 2));
    let term = term_of(&one, DigestRow::Head(1), 1);
    assert!(term == term_of(&rotated, DigestRow::Head(1), 1));
    for different in [
        term_of(&other, DigestRow::Head(1), 1),
        term_of(&one, DigestRow::Head(2), 1),
        term_of(&one, DigestRow::Head(1), 2),
        term_of(&one, DigestRow::Note("\0\0\0\0\0\0\0\u{1}"), 1),
    ] {
        assert!(term != different);
    }
    assert!(term.minus(&one, DigestRow::Head(1), &[1; 16]) == Digest::default());
}

/// A head's number names its lane, so the same MAC contributes another term in another lane.
#[test]
fn a_heads_term_of_one_lane_does_not_count_in_another() {
    let (lanes, plain) = (Lanes::new(3).unwrap(), Keyring::single([7; 32]));
    let keyring = plain.for_store("store", lanes);
    let digest_of = |keyring: &Keyring, pk| {
        let row = DigestRow::Head(pk);
        Digest::default().plus(keyring, row, &[1; MAC_BYTES])
    };
    // The first two sessions of each lane.
    let pks: Vec<SessionPk> = lanes
        .iter()
        .flat_map(|lane| {
            let first = lanes.next_pk(lane, None);
            [first, lanes.next_pk(lane, Some(first))]
        })
        .collect();
    for (n, pk) in pks.iter().enumerate() {
        let digest = digest_of(&keyring, *pk);
        for other in &pks[n + 1..] {
            assert!(digest != digest_of(&keyring, *other), "{pk}");
        }
        // Nor does it count in another store, or in the same store with another number of lanes.
        for elsewhere in [
            plain.for_store("another", lanes),
            plain.for_store("store", Lanes::ONE),
        ] {
            assert!(digest != digest_of(&elsewhere, *pk), "{pk}");
            let masked = digest.masked(&keyring, &crate::OsEntropy).unwrap();
            assert!(masked.unmasked(&elsewhere) != Some(digest), "{pk}");
        }
    }
}
