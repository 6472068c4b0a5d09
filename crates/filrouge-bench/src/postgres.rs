//! `postgres`: turns through the PostgreSQL ledger, compared with pgbench running the statements that the ledger sends.

mod calls;
mod capture;
mod pgbench;
mod script;
pub(crate) mod server;
mod usage;

use anyhow::Result;
use filrouge_testbed::PgBouncer;

use crate::Setup;
use crate::append::best_series;
use crate::product::Product;
use crate::report::{Line, Section, Target, load_average};
use crate::stats::{Leg, Series};
use calls::CallsPerTurn;
use script::{Script, StatementSelection};
use server::{DurableServer, SESSIONS, Store};

/// The number of server connections of PgBouncer.
const POOL: u32 = 20;

/// One arrangement of the product: how many sessions write concurrently, by which calls, and over which connections.
struct Arrangement {
    name: &'static str,
    sessions: usize,
    calls: CallsPerTurn,
    topology: Topology,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Topology {
    /// One server of filrouge, over the Unix socket of PostgreSQL.
    Socket,
    /// One server of filrouge, behind PgBouncer.
    PgBouncer,
    /// Two servers of filrouge on one database, each with half of the sessions.
    TwoServers,
}

const ARRANGEMENTS: [Arrangement; 7] = [
    arrangement("library, 1 session", 1, CallsPerTurn::One, Topology::Socket),
    arrangement(
        "library, 32 sessions",
        SESSIONS,
        CallsPerTurn::One,
        Topology::Socket,
    ),
    arrangement(
        "library, 1 session, three calls a turn",
        1,
        CallsPerTurn::Three,
        Topology::Socket,
    ),
    arrangement(
        "library, 32 sessions, three calls a turn",
        SESSIONS,
        CallsPerTurn::Three,
        Topology::Socket,
    ),
    arrangement(
        "library behind PgBouncer, 1 session",
        1,
        CallsPerTurn::One,
        Topology::PgBouncer,
    ),
    arrangement(
        "library behind PgBouncer, 32 sessions",
        SESSIONS,
        CallsPerTurn::One,
        Topology::PgBouncer,
    ),
    arrangement(
        "two libraries on one database, 16 sessions each",
        SESSIONS,
        CallsPerTurn::One,
        Topology::TwoServers,
    ),
];
// Positions in `ARRANGEMENTS`.
const ONE: usize = 0;
const MANY: usize = 1;
const STEPS_ONE: usize = 2;
const STEPS_MANY: usize = 3;
const POOLED_ONE: usize = 4;
const POOLED_MANY: usize = 5;
const TWO_SERVERS: usize = 6;

const fn arrangement(
    name: &'static str,
    sessions: usize,
    calls: CallsPerTurn,
    topology: Topology,
) -> Arrangement {
    Arrangement {
        name,
        sessions,
        calls,
        topology,
    }
}

/// The scripts that pgbench runs, with one client and with 32. The baseline is the best of the first
/// [`READING_LIMITS`].
const LIMITS: [(StatementSelection, &str); 4] = [
    (
        StatementSelection::Unlocked,
        "the same statements without the writers' lock",
    ),
    (StatementSelection::Silent, "without lock and pg_notify"),
    (StatementSelection::All, "the same statements"),
    (
        StatementSelection::Writes,
        "only the writing statements, without pg_notify",
    ),
];
/// The number of [`LIMITS`], from the first, that read what the product reads.
const READING_LIMITS: usize = 3;

/// The scripts and the series of [`LIMITS`]; also one client that commits groups of 32 turns.
struct Limits {
    scripts: Vec<Script>,
    one: Vec<Series>,
    many: Vec<Series>,
    group_script: Script,
    group: Series,
}

impl Limits {
    async fn prepare(server: &DurableServer) -> Result<Self> {
        let sent = capture::capture_turn(server).await?;
        let types = script::column_types(server, &server.store().name);
        let scripts = LIMITS
            .iter()
            .map(|(selection, _)| script::build_script(&sent, &types, *selection, None))
            .collect::<Result<_>>()?;
        let series = |clients: &str| {
            let name = |label: &str| Series::new(format!("pgbench, {clients}, {label}"));
            LIMITS.iter().map(|(_, label)| name(label)).collect()
        };
        Ok(Self {
            scripts,
            one: series("1 client"),
            many: series("32 clients"),
            group_script: script::build_script(
                &sent,
                &types,
                StatementSelection::All,
                Some(SESSIONS),
            )?,
            group: Series::new("pgbench, 1 client, groups of 32 turns"),
        })
    }

    fn run(&mut self, setup: &Setup, server: &DurableServer, turns: Turns) -> Result<()> {
        for (n, script) in self.scripts.iter().enumerate() {
            let leg = pgbench::run(setup, &server.store(), script, 1, turns.one)?;
            self.one[n].legs.push(leg);
            let leg = pgbench::run(setup, &server.store(), script, SESSIONS, turns.many)?;
            self.many[n].legs.push(leg);
        }
        let leg = pgbench::run(setup, &server.store(), &self.group_script, 1, turns.many)?;
        self.group.legs.push(Leg {
            per_s: leg.per_s * SESSIONS as f64,
            ..leg
        });
        Ok(())
    }
}

/// The number of turns in a leg: of a single session, and of each of many.
#[derive(Debug, Clone, Copy)]
struct Turns {
    one: usize,
    many: usize,
}

/// One leg of the product.
async fn product_leg(arrangement: &Arrangement, store: &Store<'_>, turns: Turns) -> Result<Leg> {
    let pooler = (arrangement.topology == Topology::PgBouncer)
        .then(|| PgBouncer::before(&store.server.postgres, POOL));
    let url = pooler
        .as_ref()
        .map_or_else(|| store.url(), |pooler| pooler.socket_url(&store.name));
    let servers = if arrangement.topology == Topology::TwoServers {
        2
    } else {
        1
    };
    let mut products = Vec::new();
    let mut dirs = Vec::new();
    for _ in 0..servers {
        let dir = store.anchor_dir()?;
        products.push(Product::open_postgres(&url, dir.path()).await?);
        dirs.push(dir);
    }
    let turns = if arrangement.sessions == 1 {
        turns.one
    } else {
        turns.many
    };
    let leg = calls::run(&products, arrangement.sessions, turns, arrangement.calls).await?;
    for product in products {
        product.close().await;
    }
    Ok(leg)
}

/// `postgres`.
pub(crate) async fn postgres(setup: &Setup) -> Result<Section> {
    let before = load_average();
    let turns = Turns {
        one: setup.size(2000, 8),
        many: setup.size(250, 4),
    };
    let server = DurableServer::start(setup).await?;
    let mut limits = Limits::prepare(&server).await?;
    let mut products: Vec<Series> = ARRANGEMENTS.iter().map(|s| Series::new(s.name)).collect();
    for _ in 0..setup.pairs {
        limits.run(setup, &server, turns)?;
        for (series, arrangement) in products.iter_mut().zip(&ARRANGEMENTS) {
            series
                .legs
                .push(product_leg(arrangement, &server.store(), turns).await?);
        }
    }
    let notes = vec![
        format!(
            "{} turns of one session, {} of each of {SESSIONS}, each leg on a copy of one store that the library wrote; fsync and full_page_writes on",
            turns.one, turns.many
        ),
        format!(
            "pgbench sends the statements that the server's log shows for a turn of the library, prepared, over the same socket: {}",
            limits.scripts[0]
        ),
        format!("PgBouncer: transaction mode, {POOL} server connections"),
    ];
    let lines = lines(&products, &limits)?;
    Ok(Section {
        name: "postgres",
        lines,
        series: [products, limits.one, limits.many, vec![limits.group]].concat(),
        notes,
        load: (before, load_average()),
    })
}

fn lines(products: &[Series], limits: &Limits) -> Result<Vec<Line>> {
    let rate = |label: &str, arrangement: usize, limit: &Series, target: Target| {
        Line::series(
            label,
            (&products[arrangement], limit),
            |l| l.per_s,
            target,
            "/s",
        )
    };
    let p50 = |label: &str, arrangement: usize, limit: &Series, target: Target| {
        Line::series(
            label,
            (&products[arrangement], limit),
            |l| l.p50,
            target,
            "µs",
        )
    };
    let many = "turns a second, 32 sessions";
    let one = "p50, 1 session";
    let mut lines = vec![
        rate(
            many,
            MANY,
            best_series(&limits.many[..READING_LIMITS], |l| l.per_s, true)?,
            Target::AtLeast(0.8),
        ),
        p50(
            one,
            ONE,
            best_series(&limits.one[..READING_LIMITS], |l| l.p50, false)?,
            Target::AtMost(1.5),
        ),
    ];
    for limit in limits.many.iter().chain([&limits.group]) {
        lines.push(rate(many, MANY, limit, Target::Shown));
    }
    for limit in &limits.one {
        lines.push(p50(one, ONE, limit, Target::Shown));
    }
    lines.push(p50(
        "p50, 1 session, three calls a turn",
        STEPS_ONE,
        &products[ONE],
        Target::Shown,
    ));
    for (label, arrangement) in [
        (
            "turns a second, 32 sessions, three calls a turn",
            STEPS_MANY,
        ),
        ("turns a second, 32 sessions, behind PgBouncer", POOLED_MANY),
        ("turns a second, 2 x 16 sessions, two servers", TWO_SERVERS),
    ] {
        lines.push(rate(label, arrangement, &products[MANY], Target::Shown));
    }
    lines.push(p50(
        "p50, 1 session, behind PgBouncer",
        POOLED_ONE,
        &products[ONE],
        Target::Shown,
    ));
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn every_leg_has_results() {
        let setup = Setup {
            quick: true,
            pairs: 1,
            root: std::env::temp_dir(),
            binary: None,
        };
        let section = postgres(&setup).await.unwrap();
        assert_eq!(
            section.series.len(),
            ARRANGEMENTS.len() + 2 * LIMITS.len() + 1
        );
        for series in &section.series {
            let [leg] = series.legs.as_slice() else {
                panic!("{series:?}")
            };
            assert!(leg.per_s > 0.0 && leg.p50 > 0.0, "{series:?}");
        }
        assert!(section.lines.iter().all(|line| line.ratio > 0.0));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_script_writes_turns_as_the_library_does() {
        let setup = Setup {
            quick: true,
            pairs: 1,
            root: std::env::temp_dir(),
            binary: None,
        };
        let server = DurableServer::start(&setup).await.unwrap();
        let sent = capture::capture_turn(&server).await.unwrap();
        let store = server.store();
        let script = script::build_script(
            &sent,
            &script::column_types(&server, &store.name),
            StatementSelection::All,
            None,
        );
        let before = rows(&store);
        let (clients, turns_each) = (2, 5);
        pgbench::run(&setup, &store, &script.unwrap(), clients, turns_each).unwrap();
        let after = rows(&store);
        let written = after
            .iter()
            .zip(&before)
            .map(|(after, before)| after - before);
        // What was written, in the order of `rows`. Before, the store had one turn of each session.
        let [turns, records, commits, sessions, heads, bytes] =
            <[i64; 6]>::try_from(written.collect::<Vec<_>>()).unwrap();
        assert_eq!([turns, commits, sessions, heads], [10, 10, 0, 0]);
        let turns_before = before[0];
        assert_eq!(records * turns_before, before[1] * 10);
        let (mean, written) = (before[5] / turns_before, bytes / 10);
        assert!(
            (mean * 9 / 10..=mean * 11 / 10).contains(&written),
            "a record has {written} B per turn instead of about {mean} B"
        );
    }

    /// The numbers of turns, records, commits, sessions and heads, and the bytes of all records.
    fn rows(store: &Store<'_>) -> Vec<i64> {
        let sql =
            "SELECT (SELECT count(*) FROM filrouge.turn), (SELECT count(*) FROM filrouge.record),
            (SELECT count(*) FROM filrouge.commit_log), (SELECT count(*) FROM filrouge.session),
            (SELECT count(*) FROM filrouge.head), (SELECT sum(length(body)) FROM filrouge.record)";
        let row = store.server.sql(&store.name, sql).remove(0);
        row.into_iter()
            .map(|n| n.unwrap().parse().unwrap())
            .collect()
    }
}
