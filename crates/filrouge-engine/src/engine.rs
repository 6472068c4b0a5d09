//! The services over one ledger.

use std::ops::Deref;
use std::sync::Arc;

use filrouge_store::text_index::TextIndex;
use filrouge_store::{Entropy, Ledger};
use filrouge_types::Clock;

use crate::core::{Core, Settings};
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
        /// without it; services for the process itself, [`Upkeep`] and [`IndexFeed`], take none.
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
    /// Sessions as a whole: made, listed, changed, linked, closed, verified.
    sessions: Sessions;
    /// Turns and their items: started, continued, ended, replaced, imported, read.
    turns: Turns;
    /// Items that are recorded while they arrive: a provider's stream, an utterance.
    streams: Streams;
    /// Live calls: leases, checkpoints, resume.
    calls: Calls;
    /// A session whole: the context for a provider, the conversation for people, the diagnosis for an operator.
    context: Context;
    /// Sessions as they grow: the change feed, the tail, a turn's end.
    following: Following;
    /// Who said and did what, in order.
    audit: Audit;
    /// Redaction and erasure.
    erasure: Erasure;
    /// API keys: who may call a server.
    keys: Keys;
    /// What a session amounts to, and its relatives.
    stats: Stats;
    /// Events of sessions, and the key figures that are counted from them.
    events: Events;
    /// Signed sessions for strangers.
    bundles: Bundles;
    /// What commits have touched, for an index that is kept in step with the ledger.
    index_feed: IndexFeed;
    /// What a process does for its store, and how the store is.
    upkeep: Upkeep;
}

impl Engine {
    /// The services over `ledger`: a plain one, one with a hot store in front ([`crate::scopes::TwoScopes`]), or either of
    /// them with a spool ([`crate::spool::Spooling`]).
    #[must_use]
    pub fn new(
        ledger: Arc<dyn Ledger>,
        entropy: Arc<dyn Entropy>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Self {
        Core::new(ledger, entropy, clock, settings).into()
    }

    /// The same services with an index of what their ledger holds, which forgets what is redacted or erased, and what is
    /// linked to another owner, before the caller is answered. Feeding it is the affair of who searches.
    #[must_use]
    pub fn with_index(self, index: Arc<dyn TextIndex>) -> Self {
        // An engine is made with one index or none.
        let _ = self.core.index.set(Indexing::new(index));
        self
    }

    /// The ledger, for who wires it and for feeds, which read all tenants. Wires call services.
    #[must_use]
    pub fn ledger(&self) -> &dyn Ledger {
        self.core.ledger.as_ref()
    }

    /// As [`Self::ledger`], to be kept.
    #[must_use]
    pub fn shared_ledger(&self) -> Arc<dyn Ledger> {
        self.core.ledger.clone()
    }

    /// The bounds of what is taken.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.core.settings.limits
    }
}
