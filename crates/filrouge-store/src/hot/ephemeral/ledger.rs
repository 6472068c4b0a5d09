//! Ephemeral sessions as a ledger of their own: what concerns one session is answered, lists are empty.

use async_trait::async_trait;
use filrouge_types::Failure;
use tokio::sync::watch;

use super::{EphemeralSessions, locked};
use crate::command::Command;
use crate::hot::rows::HeldRows;
use crate::keyring::{Keyring, MAC_BYTES};
use crate::ledger::{About, Backend, Durability, Health, Inspect, Ledger, Load, Position, Stored};
use crate::verify::Suspects;

#[async_trait]
impl Ledger for EphemeralSessions {
    async fn write(&self, command: Command) -> Result<Stored, Failure> {
        let (outcome, _) = Self::write(self, &command).await?;
        Ok(Stored {
            outcome,
            durability: Durability::Ephemeral,
        })
    }

    async fn inspect(&self, about: About<'_>, question: Inspect) -> Result<(), Failure> {
        let About::Session(scope, session) = about else {
            self.inspect_absent(question);
            return Ok(());
        };
        let suspects = self.suspects();
        let none = HeldRows::default();
        let put = |held: Option<&super::Held>| {
            let rows = held.map_or(&none, |held| &held.rows);
            question(&self.sight(rows, &suspects));
        };
        self.with(&scope.tenant, session, put).await
    }

    fn backend(&self) -> Backend {
        Backend {
            kind: "memory",
            version: None,
            durability: Durability::Ephemeral,
        }
    }

    fn witnessed(&self) -> Position {
        self.position()
    }

    fn writer(&self) -> String {
        String::new()
    }

    fn is_gone(&self, _: &str) -> bool {
        false
    }

    fn load(&self) -> Load {
        Load::default()
    }

    /// How many commits this process has made: there is no order of those of others among them, and no link.
    fn position(&self) -> Position {
        Position {
            commit_no: *self.commits.borrow(),
            link: [0; MAC_BYTES],
        }
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

    fn distrust(&self, what: String) {
        let mut suspects = locked(&self.suspects);
        *suspects = suspects.and(Suspects::everything(what));
    }

    async fn close(&self) {}
}
