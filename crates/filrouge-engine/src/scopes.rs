//! Two scopes, one ledger to whoever asks (DESIGN §7): sessions of known identities in the durable ledger, with copies of
//! their newest turns in a hot store; sessions of nobody, where they are not to be durable, in the hot store alone.
//!
//! | who asks for what | who answers |
//! |---|---|
//! | anybody under `durable = all` | the ledger |
//! | a session that is in the ledger, also an erased one | the ledger |
//! | any other, nobody asks | the hot store |
//! | any other, the operator asks | the hot store, if it has it; else the ledger |
//! | any other, somebody reads | the hot store, if it has it and the rules show it |
//! | any other, somebody writes | the ledger, once what the hot store has is there: a login |
//!
//! A durable session waits for the hot store, and never longer than that takes to give up, to have something removed from
//! it; under `durable = authenticated` also, once in each process, to learn whether it has something from before a login.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use filrouge_store::command::{Command, Outcome, Scope, Write};
use filrouge_store::hot::{AsOf, Edition, EphemeralSessions, HotKey, HotStore};
use filrouge_store::ledger::{About, Inspect, Layer};
use filrouge_store::read::session_conflict;
use filrouge_store::{Durability, Entropy, Keyring, Ledger, Stored};
use filrouge_types::{Clock, ErrorCode, Failure, IdentityId, SessionId, TenantId};
use quick_cache::sync::Cache;
use tokio::sync::{RwLock, Semaphore};
use tracing::Instrument;

mod copies;
mod gate;
mod late;
mod ledger;
mod login;
mod options;
mod recent;
mod route;
mod sealed;
mod step;
mod tally;
#[cfg(test)]
mod tests;
mod verified;
mod view;

pub use options::{DurablePolicy, ScopeOptions};
pub(crate) use view::session_ephemeral;
pub use view::{HotReceipt, HotState, HotView, RecentTurns, ScopeCounts};

use copies::{Begun, Copies, Removal};
use gate::LedgerGate;
use recent::FILLS;
use route::{InLedger, Place, identity_of};
use tally::Tally;
use verified::Sightings;

/// Most sessions that are remembered to be in the ledger.
const KNOWN: usize = 65_536;
/// Most sessions whose copies' reach is remembered.
const FILLED: usize = 16_384;
/// How often an ephemeral session that must not be is told to go, and how long after the time before.
const GOING: (u32, Duration) = (3, Duration::from_millis(50));

/// How long closing waits for steps that the hot store has not received yet.
const CLOSING: Duration = Duration::from_secs(5);

/// A durable ledger with a hot store in front.
pub struct TwoScopes {
    this: Weak<Self>,
    ledger: Arc<dyn Ledger>,
    hot: Arc<dyn HotStore>,
    ephemeral: EphemeralSessions,
    gate: Arc<LedgerGate>,
    keyring: Arc<Keyring>,
    entropy: Arc<dyn Entropy>,
    options: ScopeOptions,
    tally: Arc<Tally>,
    copies: Copies,
    known: Cache<HotKey, InLedger>,
    verified: Sightings,
    filled: Cache<HotKey, (u64, usize)>,
    /// The copies that may be made at the moment.
    filling: Arc<Semaphore>,
    /// The lives of ephemeral sessions whose names were not in the ledger after this process wrote to them.
    alone: Cache<HotKey, u64>,
    /// Held by each write that takes something away, until it is done.
    clearing: Arc<RwLock<()>>,
}

#[async_trait]
impl Layer for TwoScopes {
    fn behind(&self) -> &dyn Ledger {
        self.ledger.as_ref()
    }

    async fn write(&self, command: Command) -> Result<Stored, Failure> {
        if command.write.takes_away() {
            return self.written_to_the_end(command).await;
        }
        self.written(command).await
    }

    async fn inspect(&self, about: About<'_>, question: Inspect) -> Result<(), Failure> {
        match about {
            About::Session(scope, session) => self.inspect_session(scope, session, question).await,
            about => self.ledger.inspect(about, question).await,
        }
    }

    async fn close(&self) {
        let settled = async {
            let _none_under_way = self.clearing.write().await;
            self.copies.settle().await;
        };
        if tokio::time::timeout(CLOSING, settled).await.is_err() {
            tracing::warn!(
                steps = self.copies.waiting(),
                "[SESSIONS][HOT] not all was told before the end"
            );
        }
        self.ledger.close().await;
    }
}

impl TwoScopes {
    /// `hot` in front of `ledger`, whose keys are `keyring`. To be called within a Tokio runtime: a task sends steps until
    /// this is dropped.
    #[must_use]
    pub fn new(
        ledger: Arc<dyn Ledger>,
        hot: Arc<dyn HotStore>,
        keyring: Arc<Keyring>,
        entropy: Arc<dyn Entropy>,
        clock: Arc<dyn Clock>,
        options: ScopeOptions,
    ) -> Arc<Self> {
        let tally = Arc::<Tally>::default();
        let gate = Arc::new(LedgerGate(ledger.clone()));
        let ephemeral = EphemeralSessions::new(
            hot.clone(),
            gate.clone(),
            keyring.clone(),
            entropy.clone(),
            clock,
            ledger.store_id(),
        )
        .with_turn_timeout(options.turn_timeout);
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            copies: Copies::start(hot.clone(), tally.clone()),
            ledger,
            hot,
            ephemeral,
            gate,
            keyring,
            entropy,
            options,
            tally,
            known: Cache::new(KNOWN),
            verified: Sightings::new(),
            filled: Cache::new(FILLED),
            filling: Arc::new(Semaphore::new(FILLS as usize)),
            alone: Cache::new(KNOWN),
            clearing: Arc::default(),
        })
    }

    /// What has happened in this process.
    #[must_use]
    pub fn counts(&self) -> ScopeCounts {
        ScopeCounts {
            steps_waiting: self.copies.waiting(),
            removals_waiting: self.copies.unremoved(),
            ephemeral: self.ephemeral.counts(),
            ..self.tally.counts()
        }
    }

    /// Waits until the hot store was told of all writes that were answered before, and copies that are being made are
    /// there; what it does not take is counted.
    pub async fn settle(&self) {
        self.copies.settle().await;
        // It is never closed.
        let _none = self.filling.acquire_many(FILLS).await;
    }

    /// A write where its session is.
    async fn written(&self, command: Command) -> Result<Stored, Failure> {
        if !self.has_scopes() {
            return self.put(command).await;
        }
        match self.place_of_write(&command).await? {
            Place::Ledger => self.write_durable(command).await,
            Place::Hot => self.write_ephemeral(command).await,
        }
    }

    /// A write that takes something away from both stores: it goes on to its end when whoever asked for it has hung up,
    /// for half of it would leave what has to be gone.
    async fn written_to_the_end(&self, command: Command) -> Result<Stored, Failure> {
        let ended = |what: String| Failure::new(ErrorCode::Internal, what);
        let Some(scopes) = self.this.upgrade() else {
            return Err(ended("the stores are being closed".to_owned()));
        };
        let under_way = self.clearing.clone().read_owned().await;
        let write = async move {
            let _under_way = under_way;
            scopes.written(command).await
        };
        let written = tokio::spawn(write.in_current_span()).await;
        written.unwrap_or_else(|e| Err(ended(format!("a write was ended: {e}"))))
    }

    /// A write to the ledger, and what it means to the session's copy.
    async fn put(&self, command: Command) -> Result<Stored, Failure> {
        let Some(session) = command.write.session_id() else {
            return self.ledger.write(command).await;
        };
        let key = self.key(&command.scope, session);
        let scope = command.scope.clone();
        let begun = command.write.takes_away().then(|| self.copies.begin(key));
        let written = self.ledger.write(command).await;
        let stored = match (written, begun) {
            (Ok(stored), Some(begun)) => {
                self.cleared(key, &scope, &stored.outcome, begun).await;
                return Ok(stored);
            }
            (Err(failure), Some(begun)) => {
                if failure.code.retry() {
                    // It may have happened: the copy goes.
                    self.verified.forget(&key);
                } else {
                    begun.take_back();
                }
                return Err(failure);
            }
            (written, None) => written?,
        };
        self.saw_put(key, &scope, &stored.outcome);
        self.tell(key, &stored.outcome);
        Ok(stored)
    }

    /// Has the copy go with what a write has taken away.
    async fn cleared(&self, key: HotKey, scope: &Scope, outcome: &Outcome, begun: Begun) {
        match outcome {
            Outcome::Erased(erased) => {
                // Behind all that it had: nobody knows of another item.
                let removal = Removal::of_session(erased.items + 1);
                self.clear(key, begun, removal).await;
            }
            Outcome::Redacted(redacted) => {
                let removal = Removal::of_copy(redacted.redaction_seq);
                self.clear(key, begun, removal).await;
                self.saw_put(key, scope, outcome);
            }
            Outcome::Session { put: Some(put), .. } => {
                self.clear(key, begun, Removal::of_copy(put.last_seq)).await;
            }
            _ => begun.take_back(),
        }
    }

    /// The copy is gone once this is done, or told to be there.
    async fn clear(&self, key: HotKey, begun: Begun, removal: Removal) {
        self.verified.forget(&key);
        begun.remove(removal).await;
    }

    /// Who has just written knows which history that has left.
    fn saw_put(&self, key: HotKey, scope: &Scope, outcome: &Outcome) {
        if let Some(put) = step::put_of(outcome) {
            let as_of: AsOf = step::after(put);
            self.verified.saw(key, scope, as_of, false);
        }
    }

    /// Tells the copy of a write.
    fn tell(&self, key: HotKey, outcome: &Outcome) {
        if step::put_of(outcome).is_none() || !self.copies.takes() {
            return;
        }
        match step::step(outcome, &key, &self.keyring) {
            Ok(Some(step)) => self.copies.send(key, step),
            Ok(None) => {}
            Err(failure) => tracing::error!(%key, %failure, "a copy is not told of a write"),
        }
    }

    /// A write to a durable session; of the first one of an identity in this process, what the hot store may have left.
    async fn write_durable(&self, command: Command) -> Result<Stored, Failure> {
        let searched = self.unsearched(&command);
        let stored = self.put(command).await?;
        if let Some((scope, session, identity)) = searched {
            let key = self.key(&scope, &session);
            if !self.known.get(&key).is_some_and(|known| known.searched) {
                self.known.insert(key, InLedger::default());
                // Somebody may have begun an ephemeral one after it was looked for and before this was written.
                self.search(&scope, &session, &identity).await;
            }
        }
        Ok(stored)
    }

    fn unsearched(&self, command: &Command) -> Option<(Scope, SessionId, IdentityId)> {
        let scope = &command.scope;
        let session = command.write.session_id()?;
        let identity = identity_of(command)?;
        let known = self.known.get(&self.key(scope, session));
        let due = !known.is_some_and(|known| known.searched);
        due.then(|| (scope.clone(), session.clone(), identity.clone()))
    }

    /// A write to an ephemeral session.
    async fn write_ephemeral(&self, command: Command) -> Result<Stored, Failure> {
        let written = self.ephemeral.write(&command).await;
        let (outcome, edition) = self.tally.noted(written)?;
        let stored = Stored {
            outcome,
            durability: Durability::Ephemeral,
        };
        let tenant = &command.scope.tenant;
        let Some(session) = command.write.session_id() else {
            return Ok(stored);
        };
        if matches!(command.write, Write::Redact(_) | Write::Erase(_)) {
            self.gate.raise(tenant, session, edition).await?;
        }
        // It may have been made while its name came into the ledger: there it is, and this one nobody would see.
        let key = self.key(&command.scope, session);
        if self.alone.get(&key) != Some(edition.incarnation) {
            if self.in_ledger(&command.scope, session).await?.is_some() {
                // What others have said there before goes to whoever owns the name.
                if edition.version == 1 {
                    self.end(tenant, session, edition).await?;
                }
                return Err(session_conflict());
            }
            self.alone.insert(key, edition.incarnation);
        }
        Ok(stored)
    }

    /// Ends an ephemeral session that nobody would see, unless somebody else has written to it since: they look as well.
    async fn end(
        &self,
        tenant: &TenantId,
        session: &SessionId,
        edition: Edition,
    ) -> Result<(), Failure> {
        let (times, pause) = GOING;
        let mut tries = 1;
        loop {
            let gone = self.ephemeral.forget(tenant, session, Some(edition)).await;
            match self.tally.noted(gone) {
                Err(_) if tries < times => tokio::time::sleep(pause * tries).await,
                gone => return gone.map(|_| ()),
            }
            tries += 1;
        }
    }
}
