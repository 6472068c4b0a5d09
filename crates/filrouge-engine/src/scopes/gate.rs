//! Makes redactions of ephemeral sessions permanent (DESIGN §7, §9). A note in the ledger records the minimum version
//! in which a redacted session may be used. So no older dump, lagging replica or failover of the hot store can restore
//! redacted contents.

use std::sync::Arc;

use async_trait::async_trait;
use filrouge_store::Ledger;
use filrouge_store::hot::{Edition, Gate, HotKey};
use filrouge_store::ledger::Note;
use filrouge_types::{ErrorCode, Failure, SessionId, TenantId};

/// The maximum number of incarnations of one session id in its note; beyond it, the oldest is dropped. An incarnation
/// is the session from its creation to its expiry. Each cycle of creation, redaction and expiry adds one.
const INCARNATIONS_MAX: usize = 256;
/// The maximum number of attempts to write a note that others change at the same time.
const ATTEMPTS_MAX: usize = 64;

/// A gate whose notes are in the ledger.
pub(super) struct LedgerGate(pub(super) Arc<dyn Ledger>);

/// The minimum versions of a session: for each incarnation, its number and its minimum version.
#[derive(Debug, Default, PartialEq, Eq)]
struct MinimumVersions(Vec<[u64; 2]>);

impl MinimumVersions {
    fn decode(note: Option<&Note>) -> Result<Self, Failure> {
        let Some(note) = note else {
            return Ok(Self::default());
        };
        // Each incarnation takes 16 bytes: its number and its minimum version, both big-endian.
        let (incarnations, remainder) = note.value.as_chunks::<16>();
        if !remainder.is_empty() {
            let what = "the note of an ephemeral session's redactions is malformed";
            return Err(Failure::new(ErrorCode::IntegrityError, what));
        }
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n, byte| (n << 8) | u64::from(*byte));
        let pairs = incarnations
            .iter()
            .map(|bytes| [number(&bytes[..8]), number(&bytes[8..])]);
        Ok(Self(pairs.collect()))
    }

    fn admits(&self, edition: Edition) -> bool {
        let mut minimums = self.0.iter();
        minimums.all(|[incarnation, version]| {
            *incarnation != edition.incarnation || *version <= edition.version
        })
    }

    /// Raises the minimum version to `edition`; `None` if it is already that high.
    fn raised(mut self, edition: Edition) -> Option<Self> {
        let mut incarnations = self.0.iter_mut();
        match incarnations.find(|[incarnation, _]| *incarnation == edition.incarnation) {
            Some([_, version]) if *version >= edition.version => return None,
            Some([_, version]) => *version = edition.version,
            None => {
                if self.0.len() == INCARNATIONS_MAX {
                    self.0.remove(0);
                }
                self.0.push([edition.incarnation, edition.version]);
            }
        }
        Some(self)
    }

    fn encode(&self) -> Vec<u8> {
        let numbers = self.0.as_flattened().iter();
        numbers.flat_map(|number| number.to_be_bytes()).collect()
    }
}

impl LedgerGate {
    fn note_name(&self, tenant: &TenantId, session: &SessionId) -> String {
        format!("hot/{}", HotKey::new(self.0.store_id(), tenant, session))
    }

    /// Raises the minimum version of the incarnation of `edition` to that version.
    ///
    /// # Errors
    /// Those of the ledger.
    pub(super) async fn raise(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        edition: Edition,
    ) -> Result<(), Failure> {
        let name = self.note_name(tenant, session);
        for _ in 0..ATTEMPTS_MAX {
            let note = self.0.note(&name).await?;
            let version = note.as_ref().map_or(0, |note| note.version);
            let Some(raised) = MinimumVersions::decode(note.as_ref())?.raised(edition) else {
                return Ok(());
            };
            if self.0.put_note(&name, version, raised.encode()).await? {
                return Ok(());
            }
        }
        Err(ErrorCode::Overloaded.failure("a redaction could not be noted: too many at once"))
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
        let note = self.0.note(&self.note_name(tenant, session)).await?;
        Ok(MinimumVersions::decode(note.as_ref())?.admits(edition))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn edition(incarnation: u64, version: u64) -> Edition {
        Edition {
            incarnation,
            version,
            nonce: version ^ 0x5a,
        }
    }

    fn reread(minimums: &MinimumVersions) -> MinimumVersions {
        let value = minimums.encode();
        MinimumVersions::decode(Some(&Note { version: 1, value })).unwrap()
    }

    #[test]
    fn the_minimum_version_of_an_incarnation_only_rises() {
        let minimums = MinimumVersions::default().raised(edition(7, 3)).unwrap();
        assert!(!minimums.admits(edition(7, 2)) && minimums.admits(edition(7, 3)));
        assert!(minimums.admits(edition(8, 1)));
        let minimums = reread(&minimums).raised(edition(8, 2)).unwrap();
        assert!(
            !minimums.admits(edition(7, 2)),
            "the earlier incarnation is not admitted any more"
        );
        assert!(!minimums.admits(edition(8, 1)));
        assert_eq!(reread(&minimums), minimums);
        assert_eq!(reread(&minimums).raised(edition(7, 3)), None);
        let minimums = minimums.raised(edition(7, 9)).unwrap();
        assert!(!minimums.admits(edition(7, 8)) && minimums.admits(edition(7, 9)));
    }

    #[test]
    fn the_note_is_bounded_and_a_malformed_one_admits_nothing() {
        let mut minimums = MinimumVersions::default();
        for incarnation in 0..1000 {
            minimums = minimums.raised(edition(incarnation, 2)).unwrap();
        }
        assert_eq!(minimums.encode().len(), INCARNATIONS_MAX * 16);
        assert!(!minimums.admits(edition(999, 1)));
        let value = vec![0; 17];
        assert!(MinimumVersions::decode(Some(&Note { version: 1, value })).is_err());
    }
}
