//! Ledgers that wrap another ledger.

use std::any::Any;

use async_trait::async_trait;
use filrouge_types::Failure;
use tokio::sync::watch;

use super::{
    Backend, CommittedWrite, Health, Ledger, Position, QuerySubject, SnapshotQuery, StoreLoad,
};
use crate::command::Command;
use crate::keyring::Keyring;
use crate::lane::Lanes;

/// A ledger that wraps another one. The methods of this trait can differ from those of the wrapped ledger; every other
/// operation of [`Ledger`] is forwarded to it.
#[async_trait]
pub trait LedgerLayer: Any + Send + Sync {
    /// The wrapped ledger.
    fn inner(&self) -> &dyn Ledger;

    /// As [`Ledger::write`].
    async fn write(&self, command: Command) -> Result<CommittedWrite, Failure>;

    /// As [`Ledger::inspect`].
    async fn inspect(&self, about: QuerySubject<'_>, query: SnapshotQuery) -> Result<(), Failure> {
        self.inner().inspect(about, query).await
    }

    /// As [`Ledger::backend`].
    fn backend(&self) -> Backend {
        self.inner().backend()
    }

    /// As [`Ledger::close`].
    async fn close(&self) {
        self.inner().close().await;
    }
}

#[async_trait]
impl<L: LedgerLayer> Ledger for L {
    async fn write(&self, command: Command) -> Result<CommittedWrite, Failure> {
        LedgerLayer::write(self, command).await
    }

    async fn inspect(&self, about: QuerySubject<'_>, query: SnapshotQuery) -> Result<(), Failure> {
        LedgerLayer::inspect(self, about, query).await
    }

    fn backend(&self) -> Backend {
        LedgerLayer::backend(self)
    }

    fn lanes(&self) -> Lanes {
        self.inner().lanes()
    }

    fn position(&self) -> Position {
        self.inner().position()
    }

    fn anchor_position(&self) -> Position {
        self.inner().anchor_position()
    }

    fn commits(&self) -> watch::Receiver<u64> {
        self.inner().commits()
    }

    fn writer(&self) -> String {
        self.inner().writer()
    }

    async fn has_exited(&self, writer: &str) -> bool {
        self.inner().has_exited(writer).await
    }

    fn store_id(&self) -> &str {
        self.inner().store_id()
    }

    fn keyring(&self) -> &Keyring {
        self.inner().keyring()
    }

    fn health(&self) -> Health {
        self.inner().health()
    }

    fn load(&self) -> StoreLoad {
        self.inner().load()
    }

    fn distrust(&self, reason: String) {
        self.inner().distrust(reason);
    }

    async fn close(&self) {
        LedgerLayer::close(self).await;
    }
}
