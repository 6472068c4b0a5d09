//! The arrangements of the product: how many sessions write, through how many servers, and how PostgreSQL is reached.

use std::time::Duration;

use anyhow::Result;
use filrouge_testbed::PgBouncer;

use super::delay_proxy::DelayProxy;
use super::server::{FIRST_SESSION, Store};
use crate::Setup;
use crate::product::Product;
use crate::sessions::{self, CallsPerTurn};
use crate::stats::Leg;

/// The number of server connections of PgBouncer.
pub(super) const POOL: u32 = 20;
/// How long the slow network delays data, in each direction.
pub(super) const DELAY: Duration = Duration::from_millis(1);

/// The way from filrouge to PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    /// The Unix socket of PostgreSQL.
    Socket,
    PgBouncer,
    /// TCP over a network that delays data.
    SlowNetwork,
}

/// One arrangement of the product.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrangement {
    pub(super) name: &'static str,
    /// The number of servers of filrouge on one database: each is a ledger with its own writer and connections.
    servers: usize,
    /// The number of sessions that write concurrently through each server.
    pub(super) sessions: usize,
    calls: CallsPerTurn,
    route: Route,
    has_slow_flushes: bool,
}

/// One server with 32 sessions: the limit of most others.
pub(super) const MANY: Arrangement = Arrangement::of(1, 32, "library, 32 sessions");
pub(super) const ONE: Arrangement = Arrangement::of(1, 1, "library, 1 session");
pub(super) const STEPS_MANY: Arrangement =
    Arrangement::of(1, 32, "library, 32 sessions, three calls a turn").in_three_calls();
pub(super) const STEPS_ONE: Arrangement =
    Arrangement::of(1, 1, "library, 1 session, three calls a turn").in_three_calls();
pub(super) const POOLED_MANY: Arrangement =
    Arrangement::of(1, 32, "library behind PgBouncer, 32 sessions").via(Route::PgBouncer);
pub(super) const POOLED_ONE: Arrangement =
    Arrangement::of(1, 1, "library behind PgBouncer, 1 session").via(Route::PgBouncer);
pub(super) const TWO: Arrangement = Arrangement::of(2, 32, "two servers, 32 sessions each");
pub(super) const FLUSHED_MANY: Arrangement =
    Arrangement::of(1, 32, "slow flushes, library, 32 sessions").with_slow_flushes();
pub(super) const FLUSHED_TWO: Arrangement =
    Arrangement::of(2, 32, "slow flushes, two servers, 32 sessions each").with_slow_flushes();
pub(super) const DISTANT_MANY: Arrangement =
    Arrangement::of(1, 32, "slow network, library, 32 sessions").via(Route::SlowNetwork);
pub(super) const DISTANT_FOUR: Arrangement =
    Arrangement::of(4, 32, "slow network, four servers, 32 sessions each").via(Route::SlowNetwork);
pub(super) const DISTANT_256: Arrangement =
    Arrangement::of(1, 256, "slow network, library, 256 sessions").via(Route::SlowNetwork);

/// The number of turns that each of `sessions` sessions writes in a leg: fewer if there are many sessions.
pub(super) fn turns_each(setup: &Setup, sessions: usize) -> usize {
    match sessions {
        1 => setup.size(2000, 8),
        many => setup.size((16_000 / many).min(250), 4),
    }
}

impl Arrangement {
    /// Turns in one call, over the socket, with normal flushes.
    const fn of(servers: usize, sessions: usize, name: &'static str) -> Self {
        Self {
            name,
            servers,
            sessions,
            calls: CallsPerTurn::One,
            route: Route::Socket,
            has_slow_flushes: false,
        }
    }

    const fn in_three_calls(mut self) -> Self {
        self.calls = CallsPerTurn::Three;
        self
    }

    const fn via(mut self, route: Route) -> Self {
        self.route = route;
        self
    }

    const fn with_slow_flushes(mut self) -> Self {
        self.has_slow_flushes = true;
        self
    }

    /// Runs one leg on a fresh store.
    pub(super) async fn run(&self, setup: &Setup, store: &Store<'_>) -> Result<Leg> {
        if self.has_slow_flushes {
            store.slow_down_flushes();
        }
        let postgres = &store.server.postgres;
        let pooler = (self.route == Route::PgBouncer).then(|| PgBouncer::before(postgres, POOL));
        let network = match self.route {
            Route::SlowNetwork => Some(DelayProxy::before(postgres.tcp(), DELAY)?),
            Route::Socket | Route::PgBouncer => None,
        };
        let url = match (&pooler, &network) {
            (Some(pooler), _) => pooler.socket_url(&store.name),
            (None, Some(network)) => network.url(&store.name),
            (None, None) => store.url(),
        };
        let mut products = Vec::new();
        let mut dirs = Vec::new();
        for _ in 0..self.servers {
            let dir = store.anchor_dir()?;
            products.push(Product::open_postgres(&url, dir.path()).await?);
            dirs.push(dir);
        }
        let sessions = self.servers * self.sessions;
        let leg = sessions::write(
            &products.iter().map(Product::writer).collect::<Vec<_>>(),
            FIRST_SESSION..FIRST_SESSION + sessions,
            turns_each(setup, sessions),
            self.calls,
        )
        .await;
        for product in products {
            product.close().await;
        }
        leg
    }
}
