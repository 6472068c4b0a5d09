//! Ledgers that stand before another one.

use std::any::Any;

use async_trait::async_trait;
use filrouge_types::Failure;
use tokio::sync::watch;

use super::{About, Backend, Health, Inspect, Ledger, Load, Position, Stored};
use crate::command::Command;
use crate::keyring::Keyring;

/// What stands before a ledger and is one by it: it answers itself what is here, the one behind it all else.
#[async_trait]
pub trait Layer: Any + Send + Sync {
    /// The ledger behind it.
    fn behind(&self) -> &dyn Ledger;

    /// As [`Ledger::write`].
    async fn write(&self, command: Command) -> Result<Stored, Failure>;

    /// As [`Ledger::inspect`].
    async fn inspect(&self, about: About<'_>, question: Inspect) -> Result<(), Failure> {
        self.behind().inspect(about, question).await
    }

    /// As [`Ledger::backend`].
    fn backend(&self) -> Backend {
        self.behind().backend()
    }

    /// As [`Ledger::close`].
    async fn close(&self) {
        self.behind().close().await;
    }
}

#[async_trait]
impl<L: Layer> Ledger for L {
    async fn write(&self, command: Command) -> Result<Stored, Failure> {
        Layer::write(self, command).await
    }

    async fn inspect(&self, about: About<'_>, question: Inspect) -> Result<(), Failure> {
        Layer::inspect(self, about, question).await
    }

    fn backend(&self) -> Backend {
        Layer::backend(self)
    }

    fn position(&self) -> Position {
        self.behind().position()
    }

    fn witnessed(&self) -> Position {
        self.behind().witnessed()
    }

    fn commits(&self) -> watch::Receiver<u64> {
        self.behind().commits()
    }

    fn writer(&self) -> String {
        self.behind().writer()
    }

    fn is_gone(&self, writer: &str) -> bool {
        self.behind().is_gone(writer)
    }

    fn store_id(&self) -> &str {
        self.behind().store_id()
    }

    fn keyring(&self) -> &Keyring {
        self.behind().keyring()
    }

    fn health(&self) -> Health {
        self.behind().health()
    }

    fn load(&self) -> Load {
        self.behind().load()
    }

    fn distrust(&self, what: String) {
        self.behind().distrust(what);
    }

    async fn close(&self) {
        Layer::close(self).await;
    }
}
