//! Opens a store on PostgreSQL, and starts its threads.

use std::sync::Arc;

use filrouge_store::{Durability, Keyring};
use filrouge_types::{Clock, Result};

use crate::clock::DatabaseClock;
use crate::connect::{Connection, Connector};
use crate::error::{failure, unavailable};
use crate::follow::CommitWatch;
use crate::migrate;
use crate::nodes::{self, Node, Nodes};
use crate::options::Options;
use crate::presence::Presence;
use crate::rows::{ReadAhead, Rows};
use crate::session::Driver;
use crate::stage::STATEMENTS;
use crate::store_state::StoreState;
use crate::target::Target;
use crate::writer::Writer;

/// What is known about the store once it is open.
pub(super) struct OpenedStore {
    pub(super) store_state: Arc<StoreState>,
    /// The keyring of the options, bound to the store.
    pub(super) keyring: Arc<Keyring>,
    pub(super) store_id: String,
    /// The nodes that own the lanes of a distributed store.
    pub(super) owners: Option<Vec<Node>>,
    pub(super) durability: Durability,
    pub(super) version: String,
}

/// Connects, migrates the schema, and compares the store's heads with its commit log. `database_clock` is `None` if the
/// options contain a clock.
pub(super) fn open_store(
    options: &Options,
    connector: &Connector,
    database_clock: Option<&DatabaseClock>,
) -> Result<(Driver, Connection, OpenedStore)> {
    let driver = Driver::on_current_thread()?;
    let mut connection = driver.wait(connector.connect(&[]))?;
    let client = connection.session.client();
    let store = driver.wait(migrate::migrate(client, options))?;
    driver.wait(migrate::refuse_unfinished(client))?;
    let (durability, version) = driver.wait(read_server_facts(client))?;
    let mut owners = None;
    if store.distributed {
        connector.set_distributed(true);
        driver.wait(connection.use_distributed())?;
        let read_owners = nodes::read_owners(&connection.session, store.lanes);
        owners = Some(driver.wait(read_owners)?);
    }
    let keyring = Arc::new(options.keyring.for_store(&store.store_id, store.lanes));
    let store_state = Arc::new(StoreState::new(keyring.clone(), options.check, store.lanes));
    let rows = Rows {
        session: &connection.session,
        driver: &driver,
        lanes: store.lanes,
        read_ahead: ReadAhead::default(),
    };
    if let Some(database_clock) = database_clock {
        crate::follow::read_database_time(&rows, database_clock)?;
    }
    let run = |sql: &str| {
        let result = driver.wait(connection.session.run(sql));
        result.map_err(|e| failure(&e))
    };
    run(&format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY{}",
        connection.transaction_settings
    ))?;
    store_state.log.initialize(&rows)?;
    run("ROLLBACK")?;
    if !connection.pooled {
        let result = driver.wait(connection.session.prepare(STATEMENTS));
        result.map_err(|e| failure(&e))?;
    }
    connection
        .session
        .set_answer_timeout(options.answer_timeout);
    let opened = OpenedStore {
        store_state,
        keyring,
        store_id: store.store_id,
        owners,
        durability,
        version,
    };
    Ok((driver, connection, opened))
}

/// The writer with this number, without a connection.
pub(super) fn new_writer(
    options: &Options,
    connector: Arc<Connector>,
    clock: Arc<dyn Clock>,
    store: &OpenedStore,
    driver: Driver,
    number: usize,
) -> Writer {
    Writer {
        driver,
        connector,
        connection: None,
        number,
        nodes: store.owners.clone().map(Nodes::new),
        unannounced: None,
        store_state: store.store_state.clone(),
        keyring: store.keyring.clone(),
        entropy: options.entropy.clone(),
        clock,
        uses_database_time: options.clock.is_none(),
        answer_timeout: options.answer_timeout,
        settle_timeout: options.settle_timeout,
    }
}

/// Reads the durability of a commit under the database server's settings, and the server's version.
async fn read_server_facts(client: &tokio_postgres::Client) -> Result<(Durability, String)> {
    let sql = "SELECT current_setting('fsync')::bool, current_setting('server_version')";
    let row = client.query_typed_one(sql, &[]).await;
    let row = row.map_err(|e| failure(&e))?;
    let durability = match row.get(0) {
        true => Durability::Flushed,
        false => Durability::Buffered,
    };
    Ok((durability, row.get(1)))
}

/// Starts the thread that watches for commits of other servers until the ledger is dropped.
pub(super) fn start_watch(
    options: &Options,
    (store_state, presence): (&Arc<StoreState>, &Arc<Presence>),
    clock: Option<Arc<DatabaseClock>>,
    distributed: bool,
) -> Result<()> {
    let new_connector = |target: &Target| {
        let connector = Connector::new(target.clone(), options.lock_timeout);
        let connector = connector.with_presence(presence.clone());
        connector.set_distributed(distributed);
        Arc::new(connector)
    };
    let server = new_connector(&options.server);
    let (connector, fallback) = match &options.direct {
        Some(direct) => (new_connector(direct), Some(server)),
        None => (server, None),
    };
    let watch = CommitWatch {
        driver: Driver::on_current_thread()?,
        connector,
        fallback,
        store_state: Arc::downgrade(store_state),
        lanes: store_state.log.lanes(),
        erasure: store_state.erasure().clone(),
        clock,
        answer_timeout: options.answer_timeout,
    };
    let thread = std::thread::Builder::new().name("filrouge-follow".to_owned());
    let thread = thread.spawn(move || watch.run()).map(drop);
    thread.map_err(|e| {
        unavailable(format!(
            "no thread to watch for other servers' commits: {e}"
        ))
    })
}
