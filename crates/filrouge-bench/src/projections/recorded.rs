//! The ledger that is projected: generated turns of one end user.

use std::ops::Range;
use std::time::Instant;

use anyhow::Result;
use filrouge_engine::Caller;
use filrouge_types::{IdentityId, TenantId};
use tempfile::TempDir;

use crate::Setup;
use crate::product::Product;
use crate::report::progress;
use crate::sessions::{self, CallsPerTurn};
use crate::stats::Leg;

/// The number of items of a turn.
const ITEMS_PER_TURN: usize = 4;
/// The number of turns of a session.
pub(super) const TURNS_PER_SESSION: usize = 25;
/// The number of sessions that are written at the same time.
const TASKS: usize = 32;

/// A ledger in SQLite.
pub(super) struct RecordedLedger {
    pub(super) product: Product,
    pub(super) dir: TempDir,
    /// The owner of all sessions.
    pub(super) owner: IdentityId,
    /// The number of sessions that were written before anything was measured.
    pub(super) sessions: usize,
    /// The number of the next new session.
    next_session: usize,
}

impl RecordedLedger {
    /// Writes about `items` items, at least one session.
    pub(super) async fn write(setup: &Setup, items: usize) -> Result<Self> {
        let dir = setup.dir()?;
        let mut ledger = Self {
            product: Product::open(dir.path(), true).await?,
            dir,
            owner: "anna".parse()?,
            sessions: (items / (ITEMS_PER_TURN * TURNS_PER_SESSION)).max(1),
            next_session: 0,
        };
        let start = Instant::now();
        while ledger.next_session < ledger.sessions {
            let count = TASKS.min(ledger.sessions - ledger.next_session);
            let sessions = ledger.new_sessions(count);
            ledger.append(sessions, TURNS_PER_SESSION).await?;
        }
        progress(format_args!(
            "{} items written in {:.1} s",
            ledger.items(),
            start.elapsed().as_secs_f64()
        ));
        Ok(ledger)
    }

    /// The number of items that were written before anything was measured.
    pub(super) const fn items(&self) -> usize {
        self.sessions * TURNS_PER_SESSION * ITEMS_PER_TURN
    }

    /// The end user who owns all sessions.
    pub(super) fn end_user(&self) -> Caller {
        Caller::local(TenantId::default_tenant(), Some(self.owner.clone()))
    }

    /// The numbers of the next new sessions.
    pub(super) fn new_sessions(&mut self, count: usize) -> Range<usize> {
        let first = self.next_session;
        self.next_session += count;
        first..self.next_session
    }

    /// Writes turns to sessions concurrently.
    pub(super) async fn append(&self, sessions: Range<usize>, turns: usize) -> Result<Leg> {
        let (engine, caller) = (&self.product.engine, self.end_user());
        sessions::write(&[(engine, &caller)], sessions, turns, CallsPerTurn::One).await
    }

    pub(super) async fn close(self) {
        self.product.close().await;
    }
}
