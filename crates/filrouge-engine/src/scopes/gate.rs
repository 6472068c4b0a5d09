//! What was redacted in an ephemeral session stays redacted: the ledger notes from which state on it may be used, so that
//! no older dump, lagging replica or failover of the hot store brings anything back (DESIGN §7, §9).

use std::sync::Arc;

use async_trait::async_trait;
use filrouge_store::Ledger;
use filrouge_store::hot::{Edition, Gate, HotKey};
use filrouge_store::ledger::Note;
use filrouge_types::{ErrorCode, Failure, SessionId, TenantId};

/// Most lives of one session that are noted: it had to expire and be redacted again so often.
const LIVES: usize = 256;
/// How often a note is put again that somebody else has put in between.
const TRIES: usize = 64;

/// The gate whose notes are in the ledger.
pub(super) struct LedgerGate(pub(super) Arc<dyn Ledger>);

/// From which version on one life of a session may be used.
#[derive(Debug, PartialEq, Eq)]
struct Floor {
    incarnation: u64,
    version: u64,
}

/// From which state on a session may be used, for each of its lives.
#[derive(Debug, Default, PartialEq, Eq)]
struct Floors(Vec<Floor>);

impl Floors {
    fn read(note: Option<&Note>) -> Result<Self, Failure> {
        let Some(note) = note else {
            return Ok(Self::default());
        };
        let (lives, rest) = note.value.as_chunks::<16>();
        if !rest.is_empty() {
            let what = "the note of an ephemeral session's redactions is malformed";
            return Err(Failure::new(ErrorCode::IntegrityError, what));
        }
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n, byte| (n << 8) | u64::from(*byte));
        let lives = lives.iter().map(|life| Floor {
            incarnation: number(&life[..8]),
            version: number(&life[8..]),
        });
        Ok(Self(lives.collect()))
    }

    fn admits(&self, edition: Edition) -> bool {
        let mut floors = self.0.iter();
        floors.all(|f| f.incarnation != edition.incarnation || f.version <= edition.version)
    }

    /// Raises the floor to `edition`; `None` when it is there.
    fn raised(mut self, edition: Edition) -> Option<Self> {
        let mut lives = self.0.iter_mut();
        match lives.find(|f| f.incarnation == edition.incarnation) {
            Some(floor) if floor.version >= edition.version => return None,
            Some(floor) => floor.version = edition.version,
            None => {
                if self.0.len() == LIVES {
                    self.0.remove(0);
                }
                self.0.push(Floor {
                    incarnation: edition.incarnation,
                    version: edition.version,
                });
            }
        }
        Some(self)
    }

    fn bytes(&self) -> Vec<u8> {
        let lives = self.0.iter();
        let pairs = lives.flat_map(|f| [f.incarnation.to_be_bytes(), f.version.to_be_bytes()]);
        pairs.flatten().collect()
    }
}

impl LedgerGate {
    fn name(&self, tenant: &TenantId, session: &SessionId) -> String {
        format!("hot/{}", HotKey::new(self.0.store_id(), tenant, session))
    }

    /// Admits the session from now on in `edition` or a newer state alone.
    ///
    /// # Errors
    /// The ledger's.
    pub(super) async fn raise(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        edition: Edition,
    ) -> Result<(), Failure> {
        let name = self.name(tenant, session);
        for _ in 0..TRIES {
            let note = self.0.note(&name).await?;
            let version = note.as_ref().map_or(0, |note| note.version);
            let Some(raised) = Floors::read(note.as_ref())?.raised(edition) else {
                return Ok(());
            };
            if self.0.put_note(&name, version, raised.bytes()).await? {
                return Ok(());
            }
        }
        let what = "a redaction could not be noted: too many at once";
        Err(Failure::new(ErrorCode::Overloaded, what))
    }
}

#[async_trait]
impl Gate for LedgerGate {
    async fn admits(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        edition: Edition,
    ) -> Result<bool, Failure> {
        let note = self.0.note(&self.name(tenant, session)).await?;
        Ok(Floors::read(note.as_ref())?.admits(edition))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn edition(incarnation: u64, version: u64) -> Edition {
        Edition {
            incarnation,
            version,
            word: version ^ 0x5a,
        }
    }

    fn again(floors: &Floors) -> Floors {
        let value = floors.bytes();
        Floors::read(Some(&Note { version: 1, value })).unwrap()
    }

    #[test]
    fn each_life_has_a_floor_that_only_rises() {
        let floors = Floors::default().raised(edition(7, 3)).unwrap();
        assert!(!floors.admits(edition(7, 2)) && floors.admits(edition(7, 3)));
        assert!(floors.admits(edition(8, 1)));
        let floors = again(&floors).raised(edition(8, 2)).unwrap();
        assert!(
            !floors.admits(edition(7, 2)),
            "the life before is forgotten"
        );
        assert!(!floors.admits(edition(8, 1)));
        assert_eq!(again(&floors), floors);
        assert_eq!(again(&floors).raised(edition(7, 3)), None);
        let floors = floors.raised(edition(7, 9)).unwrap();
        assert!(!floors.admits(edition(7, 8)) && floors.admits(edition(7, 9)));
    }

    #[test]
    fn the_note_is_bounded_and_a_malformed_one_admits_nothing() {
        let mut floors = Floors::default();
        for life in 0..1000 {
            floors = floors.raised(edition(life, 2)).unwrap();
        }
        assert_eq!(floors.bytes().len(), LIVES * 16);
        assert!(!floors.admits(edition(999, 1)));
        let value = vec![0; 17];
        assert!(Floors::read(Some(&Note { version: 1, value })).is_err());
    }
}
