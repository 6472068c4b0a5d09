//! `postgres`: turns through the PostgreSQL ledger, compared with a lean client that inserts the same rows; by several
//! servers, with slow flushes, and over a slow network.

mod arrangement;
mod bare_client;
mod delay_proxy;
pub(crate) mod server;

use anyhow::{Context, Result};

use crate::Setup;
use crate::report::{Line, Section, Target};
use crate::stats::Series;
use arrangement::{
    Arrangement, DELAY, DISTANT_256, DISTANT_FOUR, DISTANT_MANY, FLUSHED_MANY, FLUSHED_TWO, MANY,
    ONE, POOL, POOLED_MANY, POOLED_ONE, STEPS_MANY, STEPS_ONE, TWO, turns_each,
};
use server::DurableServer;

/// All arrangements, in the order in which each pair runs them.
const ARRANGEMENTS: [Arrangement; 12] = [
    ONE,
    MANY,
    STEPS_ONE,
    STEPS_MANY,
    POOLED_ONE,
    POOLED_MANY,
    TWO,
    FLUSHED_MANY,
    FLUSHED_TWO,
    DISTANT_MANY,
    DISTANT_FOUR,
    DISTANT_256,
];

/// The legs of a run.
struct Legs {
    /// In the order of [`ARRANGEMENTS`].
    products: Vec<Series>,
    bare_one: Series,
    bare_many: Series,
}

impl Legs {
    fn new() -> Self {
        let products = ARRANGEMENTS.iter().map(|a| Series::new(a.name));
        Self {
            products: products.collect(),
            bare_one: Series::new("bare client, 1 session, a turn a transaction"),
            bare_many: Series::new("bare client, 32 sessions, a turn a transaction"),
        }
    }

    async fn run_pair(&mut self, setup: &Setup, server: &DurableServer) -> Result<()> {
        for (series, arrangement) in [(&mut self.bare_one, ONE), (&mut self.bare_many, MANY)] {
            let turns = turns_each(setup, arrangement.sessions);
            let leg = bare_client::run(&server.store(), arrangement.sessions, turns).await?;
            series.legs.push(leg);
        }
        for (series, arrangement) in self.products.iter_mut().zip(&ARRANGEMENTS) {
            let leg = arrangement.run(setup, &server.store()).await?;
            series.legs.push(leg);
        }
        Ok(())
    }

    fn of(&self, arrangement: &Arrangement) -> Result<&Series> {
        let mut products = self.products.iter();
        products
            .find(|series| series.name == arrangement.name)
            .context(arrangement.name)
    }

    fn lines(&self) -> Result<Vec<Line>> {
        use Target::{AtLeast, Shown};
        let (one, many) = (self.of(&ONE)?, self.of(&MANY)?);
        let per_s = many.median(|l| l.per_s);
        let rate = |(product, limit): (&Series, &Series), target: Target| {
            let label = format!("{} / {}, turns a second", product.name, limit.name);
            Line::rate(&label, (product, limit), target)
        };
        let p50 = |product: &Series, limit: &Series| {
            let label = format!("{} / {}, p50", product.name, limit.name);
            Line::p50(&label, (product, limit), Shown)
        };
        let pair = |product, limit| anyhow::Ok((self.of(product)?, self.of(limit)?));
        Ok(vec![
            rate((many, &self.bare_many), AtLeast(1.0)),
            Line::of_builds(
                "turns a second, 32 sessions",
                per_s,
                AtLeast(1.0),
                format!("{per_s:.0} /s"),
            ),
            rate(pair(&STEPS_MANY, &MANY)?, AtLeast(0.5)),
            rate(pair(&TWO, &MANY)?, AtLeast(1.2)),
            rate(pair(&FLUSHED_TWO, &FLUSHED_MANY)?, AtLeast(1.9)),
            rate(pair(&DISTANT_FOUR, &DISTANT_MANY)?, AtLeast(2.2)),
            rate(pair(&DISTANT_256, &DISTANT_MANY)?, AtLeast(3.0)),
            rate(pair(&POOLED_MANY, &MANY)?, Shown),
            p50(one, &self.bare_one),
            p50(self.of(&STEPS_ONE)?, one),
            p50(self.of(&POOLED_ONE)?, one),
        ])
    }
}

/// `postgres`.
pub(crate) async fn postgres(setup: &Setup) -> Result<Section> {
    let server = DurableServer::start(setup).await?;
    let mut legs = Legs::new();
    for _ in 0..setup.pairs {
        legs.run_pair(setup, &server).await?;
    }
    let notes = vec![
        format!(
            "{} turns of one session, {} of each of 32; each leg on a copy of one store that the library wrote; fsync and full_page_writes on",
            turns_each(setup, 1),
            turns_each(setup, 32)
        ),
        "bare client: tokio-postgres, a connection for each session; it inserts the rows that the library writes for a turn, prepared, in one round trip".to_owned(),
        "several servers: ledgers in one process, each with its own writer, connections and anchor; sessions alternate between them".to_owned(),
        format!(
            "slow flushes: commit_delay = 3000, commit_siblings = 0; slow network: {} ms each way; PgBouncer: transaction mode, {POOL} server connections",
            DELAY.as_millis()
        ),
    ];
    Ok(Section {
        name: "postgres",
        lines: legs.lines()?,
        series: [legs.products, vec![legs.bare_one, legs.bare_many]].concat(),
        notes,
        ..Section::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::Store;

    const TABLES: [&str; 8] = [
        "record",
        "turn",
        "commit_log",
        "session",
        "head",
        "item_key",
        "session_agent",
        "event",
    ];
    // Positions in `TABLES`.
    const RECORD: usize = 0;
    const TURN: usize = 1;

    #[tokio::test(flavor = "multi_thread")]
    async fn every_leg_has_results() {
        let section = postgres(&Setup::quick()).await.unwrap();
        assert_eq!(section.series.len(), ARRANGEMENTS.len() + 2);
        for series in &section.series {
            let [leg] = series.legs.as_slice() else {
                panic!("{series:?}")
            };
            assert!(leg.per_s > 0.0 && leg.p50 > 0.0, "{series:?}");
        }
        assert!(section.lines.iter().all(|line| line.ratio > 0.0));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_bare_client_writes_the_rows_of_the_library() {
        let setup = Setup::quick();
        let server = DurableServer::start(&setup).await.unwrap();
        let [of_client, of_library] = [server.store(), server.store()];
        let before = rows(&of_client);
        let turns = turns_each(&setup, 1);
        bare_client::run(&of_client, 1, turns).await.unwrap();
        ONE.run(&setup, &of_library).await.unwrap();
        let (client, library) = (rows(&of_client), rows(&of_library));
        for (n, table) in TABLES.iter().enumerate() {
            assert_eq!(client[n].0, library[n].0, "rows of {table}");
        }
        for n in [RECORD, TURN] {
            assert_eq!(client[n].0 - before[n].0, turns as i64, "{}", TABLES[n]);
            let [client, library] = [&client, &library].map(|rows| rows[n].1 - before[n].1);
            assert!(
                (library * 9 / 10..=library * 11 / 10).contains(&client),
                "{}: {client} B, and {library} B by the library",
                TABLES[n]
            );
        }
    }

    /// For each of [`TABLES`]: the number of rows, and the bytes of their texts.
    fn rows(store: &Store<'_>) -> [(i64, i64); TABLES.len()] {
        TABLES.map(|table| {
            let sql = format!("SELECT count(*), sum(length(t::text)) FROM filrouge.{table} t");
            let row = store.server.sql(&store.name, &sql).remove(0);
            let number = |n: usize| row[n].as_ref().map_or(0, |n| n.parse().unwrap());
            (number(0), number(1))
        })
    }
}
