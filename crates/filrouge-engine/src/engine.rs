//! The services over one ledger.

use std::ops::Deref;
use std::sync::Arc;

use filrouge_store::text_index::TextIndex;
use filrouge_store::{Entropy, Ledger};
use filrouge_types::Clock;

use crate::cleaning::Cleaner;
use crate::core::Core;
use crate::settings::Settings;
use crate::upkeep::Indexing;
use crate::validate::Limits;

macro_rules! services {
    ($($(#[$doc:meta])+ $field:ident: $service:ident;)+) => {
        $(
            $(#[$doc])+
            #[derive(Clone)]
            pub struct $service(pub(crate) Arc<Core>);

            impl Deref for $service {
                type Target = Core;

                fn deref(&self) -> &Core {
                    &self.0
                }
            }
        )+

        /// The services over one ledger. Each method takes the caller, checks its permission and fails with `forbidden`
        /// without it; the process-level services [`Upkeep`] and [`IndexFeed`] take no caller.
        pub struct Engine {
            $($(#[$doc])+ pub $field: $service,)+
            pub(crate) core: Arc<Core>,
        }

        impl From<Core> for Engine {
            fn from(core: Core) -> Self {
                let core = Arc::new(core);
                Self {
                    $($field: $service(core.clone()),)+
                    core,
                }
            }
        }
    };
}

services! {
    /// Operations on sessions: create, list, change, link, close, verify.
    sessions: Sessions;
    /// Turns and their items: start, append, end, replace, import, read.
    turns: Turns;
    /// Recording of items while they arrive: a provider's stream, an utterance.
    streams: Streams;
    /// Live calls: leases, checkpoints, resume.
    calls: Calls;
    /// An entire session: as the context for a provider, the conversation for people, the diagnosis for an operator.
    context: Context;
    /// Sessions as they grow: the change feed, the tail, a turn's end.
    following: Following;
    /// The audit: who said and did what, in order.
    audit: Audit;
    /// Redaction and erasure.
    erasure: Erasure;
    /// API keys, which authenticate the callers of a server.
    keys: Keys;
    /// Shares: secret addresses at which anybody can read a session, or a part of it, for a while.
    shares: Shares;
    /// Statistics of a session, and its lineage.
    stats: Stats;
    /// Events of sessions, and the key figures computed from them.
    events: Events;
    /// Bundles: signed sessions that anyone can verify offline.
    bundles: Bundles;
    /// The sessions that commits changed, for an index that follows the ledger.
    index_feed: IndexFeed;
    /// Maintenance that a process performs for its store, and the store's condition.
    upkeep: Upkeep;
}

impl Engine {
    /// The services over `ledger`: a plain ledger, one with a hot store in front ([`crate::scopes::TieredLedger`]), or
    /// either of them with a spool ([`crate::spool::SpooledLedger`]).
    pub fn new(
        ledger: Arc<dyn Ledger>,
        entropy: Arc<dyn Entropy>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Self {
        Core::new(ledger, entropy, clock, settings).into()
    }

    /// The same services with an index of the ledger's documents. The search service adds documents to it. These
    /// services only remove documents, before the write returns that redacts or erases them or links their session to
    /// an owner.
    #[must_use]
    pub fn with_index(self, index: Arc<dyn TextIndex>) -> Self {
        // The index is set at most once, when the engine is built.
        let _ = self.core.index.set(Indexing::new(index));
        self
    }

    /// Makes redactions and erasures also clean the copies of sessions, before they return. The cleaner is set at most
    /// once; a later one is ignored.
    pub fn set_cleaner(&self, cleaner: Arc<dyn Cleaner>) {
        let _ = self.core.cleaner.set(cleaner);
    }

    /// The ledger, for the wiring of a process and for feeds, which read all tenants. Wires call services instead.
    pub fn ledger(&self) -> &dyn Ledger {
        self.core.ledger.as_ref()
    }

    /// The ledger as a shared pointer, for the same uses as [`Self::ledger`].
    pub fn shared_ledger(&self) -> Arc<dyn Ledger> {
        self.core.ledger.clone()
    }

    /// The limits on requests.
    pub fn limits(&self) -> &Limits {
        &self.core.settings.limits
    }
}
