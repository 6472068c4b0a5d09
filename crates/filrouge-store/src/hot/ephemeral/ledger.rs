//! Makes the ephemeral sessions usable as a [`Ledger`]: queries about one session work, lists are empty.

use async_trait::async_trait;
use filrouge_types::{Failure, lock};
use tokio::sync::watch;

use super::EphemeralSessions;
use crate::command::Command;
use crate::hot::rows::EphemeralRows;
use crate::keyring::{Keyring, MAC_BYTES};
use crate::lane::Lanes;
use crate::ledger::{
    Backend, CommittedWrite, Durability, Health, LanePosition, Ledger, Position, QuerySubject,
    SnapshotQuery,
};
use crate::verify::Suspects;

#[async_trait]
impl Ledger for EphemeralSessions {
    async fn write(&self, command: Command) -> Result<CommittedWrite, Failure> {
        let (outcome, _) = Self::write(self, &command).await?;
        Ok(CommittedWrite {
            outcome,
            durability: Durability::Ephemeral,
        })
    }

    async fn inspect(&self, about: QuerySubject<'_>, query: SnapshotQuery) -> Result<(), Failure> {
        let QuerySubject::Session(scope, session) = about else {
            self.inspect_absent(query);
            return Ok(());
        };
        let suspects = self.suspects();
        let none = EphemeralRows::default();
        let run_query = |cached: Option<&super::CachedSession>| {
            let rows = cached.map_or(&none, |cached| &cached.rows);
            query(&self.snapshot(rows, &suspects));
        };
        self.with_session(&scope.tenant, session, run_query).await
    }

    fn backend(&self) -> Backend {
        Backend {
            kind: "memory",
            version: None,
            durability: Durability::Ephemeral,
            remains: None,
        }
    }

    fn lanes(&self) -> Lanes {
        Lanes::ONE
    }

    /// The number of commits of this process. Commits of other processes have no common order with them, and there is
    /// no link.
    fn position(&self) -> Position {
        Position::new(vec![LanePosition {
            commit_no: *self.commits.borrow(),
            link: [0; MAC_BYTES],
        }])
    }

    fn commits(&self) -> watch::Receiver<u64> {
        self.commits.subscribe()
    }

    fn store_id(&self) -> &str {
        &self.store_id
    }

    fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    fn health(&self) -> Health {
        let suspects = self.suspects();
        Health {
            read_only: self.hot.failure(),
            integrity: (!suspects.is_empty()).then(|| suspects.to_string()),
        }
    }

    fn distrust(&self, reason: String) {
        let mut suspects = lock(&self.suspects);
        *suspects = suspects.merged_with(Suspects::entire_store(reason));
    }
}
