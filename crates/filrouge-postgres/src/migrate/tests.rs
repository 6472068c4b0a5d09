//! Tests a migration after the first one, with an invented migration.

use std::sync::{Arc, Barrier};

use filrouge_store::{Keyring, OsEntropy};
use filrouge_testbed::Database;

use super::*;
use crate::schema::with_client;
use crate::session::Driver;

/// An invented second migration.
const SECOND_MIGRATION: Migration = (
    "invented",
    "ALTER TABLE filrouge.note ADD COLUMN size integer; UPDATE filrouge.note SET size = length(data);
     UPDATE filrouge.store SET value = '2' WHERE name = 'schema';",
);

fn options(url: &str) -> Options {
    let keyring = Arc::new(Keyring::single([5; 32]));
    let mut options = Options::new(url, keyring, Arc::new(OsEntropy)).unwrap();
    options.make = true;
    options
}

fn migrations_with(migration: Migration) -> Vec<Migration> {
    [MIGRATIONS, &[migration]].concat()
}

fn run_migrations(url: &str, migrations: &[Migration]) -> Result<String, Failure> {
    let options = options(url);
    with_client(&options, |driver: &Driver, client: &Client| {
        let store = driver.wait(migrate_with(client, &options, migrations))?;
        Ok(store.store_id)
    })
}

/// The store's schema version; fails if this program does not know it.
fn known_version(url: &str) -> Result<usize, Failure> {
    with_client(&options(url), |driver, client| driver.wait(version(client)))
}

/// A store of the first schema with a note, and its id.
fn store() -> (Database, String) {
    let database = Database::new();
    let id = run_migrations(&database.url(), MIGRATIONS).unwrap();
    database.sql("INSERT INTO filrouge.note (lane, name, data) VALUES (0, 'n', '\\x0102')");
    (database, id)
}

fn sizes(database: &Database) -> String {
    format!("{:?}", database.sql("SELECT size::text FROM filrouge.note"))
}

#[test]
fn one_of_several_servers_applies_a_later_migration_and_keeps_the_rows() {
    let (database, id) = store();
    let (url, migrations) = (database.url(), migrations_with(SECOND_MIGRATION));
    let barrier = Barrier::new(4);
    std::thread::scope(|scope| {
        let servers = [(); 4].map(|()| {
            scope.spawn(|| {
                barrier.wait();
                run_migrations(&url, &migrations)
            })
        });
        for server in servers {
            assert_eq!(server.join().unwrap().unwrap(), id);
        }
    });
    assert!(sizes(&database).contains('2'), "{}", sizes(&database));
    // The program without the migration refuses the store.
    let refused = known_version(&url).unwrap_err();
    assert!(refused.detail.contains("has schema 2"), "{refused:?}");
}

#[test]
fn a_failing_migration_changes_nothing() {
    let (database, _) = store();
    let broken =
        "ALTER TABLE filrouge.note ADD COLUMN size integer; UPDATE filrouge.absent SET x = 1;";
    run_migrations(&database.url(), &migrations_with(("broken", broken))).unwrap_err();
    assert_eq!(known_version(&database.url()).unwrap(), SCHEMA_VERSION);
    let columns = database.sql(
        "SELECT column_name::text FROM information_schema.columns WHERE table_schema = 'filrouge' AND table_name = 'note'",
    );
    assert_eq!(columns.len(), 3, "{columns:?}");
}

#[test]
fn the_statements_of_a_migration_may_be_executed_by_hand() {
    let (database, _) = store();
    database.sql(&format!("BEGIN; {} COMMIT", SECOND_MIGRATION.1));
    run_migrations(&database.url(), &migrations_with(SECOND_MIGRATION)).unwrap();
    assert!(sizes(&database).contains('2'), "{}", sizes(&database));
}

#[test]
fn a_role_that_does_not_own_the_tables_is_refused_with_a_hint() {
    let (database, _) = store();
    let role = format!("clerk_{}", database.name());
    database.sql(&format!(
        "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA filrouge TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA filrouge TO {role}"
    ));
    let url = database.url().replace("postgres@", &format!("{role}@"));
    let refused = run_migrations(&url, &migrations_with(SECOND_MIGRATION)).unwrap_err();
    assert!(refused.detail.contains("42501"), "{refused:?}");
    assert!(refused.hint.unwrap().contains("migrate up"));
    run_migrations(&database.url(), &migrations_with(SECOND_MIGRATION)).unwrap();
    run_migrations(&url, &migrations_with(SECOND_MIGRATION)).unwrap();
    database.sql(&format!("DROP OWNED BY {role}"));
}

#[test]
fn a_store_of_format_1_is_refused_unchanged() {
    let (database, _) = store();
    database.sql("DELETE FROM filrouge.store WHERE name = 'format'");
    let store_rows = || {
        format!(
            "{:?}",
            database.sql("SELECT * FROM filrouge.store ORDER BY name")
        )
    };
    let before = store_rows();
    let refused = run_migrations(&database.url(), &migrations_with(SECOND_MIGRATION)).unwrap_err();
    assert!(refused.detail.contains("format 1"), "{refused:?}");
    assert_eq!(store_rows(), before);
}

#[test]
fn a_store_keeps_the_number_of_lanes_with_which_it_was_created() {
    let database = Database::new();
    for setting in [3, 5] {
        let mut options = options(&database.url());
        options.lanes = Lanes::new(setting).unwrap();
        let open = |driver: &Driver, client: &Client| driver.wait(migrate(client, &options));
        assert_eq!(with_client(&options, open).unwrap().lanes.count(), 3);
    }
    let lanes = database.sql("SELECT lane::text FROM filrouge.lane");
    assert_eq!(lanes.len(), 3, "{lanes:?}");
}

#[test]
fn a_row_can_only_be_in_the_lane_of_its_session() {
    let (database, _) = store();
    let insert = |lane: u16| {
        let sql = format!(
            "INSERT INTO filrouge.head (lane, pk, data, updated_at) VALUES ({lane}, 17, '', 0)"
        );
        let run = |driver: &Driver, client: &Client| driver.wait(execute(client, &sql));
        with_client(&options(&database.url()), run)
    };
    // The store has 8 lanes.
    insert(2).unwrap_err();
    insert(1).unwrap();
}
