//! What an index notes of its source, as its position: the mark of the whole history that it holds, and when its sessions
//! were last looked at closely.

use filrouge_sources::Stamp;

use super::digest;
use super::rounds::Rounds;

/// Tells these notes from other positions, and from those of other versions.
const HEAD: [u8; 8] = *b"looked02";

/// What an index notes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Position {
    /// [`digest::whole`] of the history, when the index held all of it.
    pub(super) whole: Option<[u8; digest::WHOLE_BYTES]>,
    pub(super) rounds: Rounds,
}

impl Position {
    const NONE: Self = Self {
        whole: None,
        rounds: Rounds::NONE,
    };

    /// What a position notes; nothing for one that is something else.
    pub(super) fn read(position: Option<&[u8]>) -> Self {
        let noted = position.and_then(|bytes| bytes.strip_prefix(&HEAD));
        let parts = noted.and_then(|noted| noted.split_first_chunk());
        let Some((whole, rounds)) = parts else {
            return Self::NONE;
        };
        Rounds::read(rounds).map_or(Self::NONE, |rounds| Self {
            whole: Some(*whole).filter(|whole| *whole != [0; digest::WHOLE_BYTES]),
            rounds,
        })
    }

    /// As a position.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut bytes = HEAD.to_vec();
        bytes.extend(self.whole.unwrap_or_default());
        self.rounds.write(&mut bytes);
        bytes
    }

    /// Whether the index holds the history whose mark this is.
    pub(super) fn holds(&self, whole: Stamp) -> bool {
        self.whole == Some(digest::whole(whole))
    }
}

#[cfg(test)]
mod tests {
    use filrouge_types::Timestamp;

    use super::*;

    #[test]
    fn notes_are_read_as_they_were_written() {
        let mut rounds = Rounds::NONE;
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1000).unwrap();
        rounds.found(0, at(1_700_000_000));
        rounds.found(255, at(1_800_000_000));
        rounds.found(256, at(1));
        let whole = Stamp(1, 2);
        for noted in [None, Some(digest::whole(whole))] {
            let rounds = rounds.clone();
            let position = Position {
                whole: noted,
                rounds,
            };
            assert_eq!(Position::read(Some(&position.write())), position);
            assert_eq!(position.holds(whole), noted.is_some());
            assert!(!position.holds(Stamp(1, 3)));
        }
        let bytes = Position::NONE.write();
        let cut = bytes.get(..bytes.len() - 1);
        let other = digest::whole(whole);
        for nothing in [None, Some(&b""[..]), Some(&other), bytes.get(1..), cut] {
            assert_eq!(Position::read(nothing), Position::NONE);
        }
    }
}
