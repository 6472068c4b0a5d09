//! Creates stores whose tables are distributed over several database servers with Citus (docs/scaling.md).

use filrouge_types::{ErrorCode, Failure};
use tokio_postgres::Client;

use crate::error::failure;

/// The oldest supported version of Citus. Before 11.2, reads on the workers ignored the isolation level of the
/// transaction, so that an intact store would seem damaged.
const CITUS_MIN: i32 = 12;

/// The hint for a role that may not create a distributed store.
pub(super) const PRIVILEGE_HINT: &str =
    "run `filrouge migrate up` with a role that may create schemas in the database of each node";

/// The statements before those that create the tables. Without the sequential mode, Citus creates no function in a
/// transaction that has filled a table on several nodes.
const BEFORE: &str = "SET LOCAL filrouge.distribute = 'citus';
SET LOCAL citus.multi_shard_modify_mode TO 'sequential';
";
/// The statements that distribute the tables.
const AFTER: &str = include_str!("distribute.sql");

/// Returns the statements that create a distributed store, to run in one transaction; `sql` are those of the
/// migrations, which create the tables.
pub fn distributed_sql(sql: &str) -> String {
    format!("{BEFORE}{sql}{AFTER}")
}

/// Refuses a database in which no distributed store can be created.
pub(super) async fn check_citus(client: &Client) -> Result<(), Failure> {
    let sql = "SELECT to_regproc('pg_catalog.create_distributed_table') IS NOT NULL";
    let row = client.query_typed_one(sql, &[]).await;
    if !row.map_err(|e| failure(&e))?.get::<_, bool>(0) {
        return Err(refused("this database has no extension citus").with_hint(
            "CREATE EXTENSION citus in it and in the database of each worker, add the workers with citus_add_node \
             (docs/scaling.md), or set `distribute` to `off`",
        ));
    }
    let sql = "SELECT substring(citus_version() from '[0-9]+')::integer,
                      EXISTS (SELECT FROM pg_dist_local_group WHERE groupid <> 0)";
    let row = client.query_typed_one(sql, &[]).await;
    let row = row.map_err(|e| failure(&e))?;
    if row.get::<_, Option<i32>>(0).unwrap_or_default() < CITUS_MIN {
        let detail = format!("the extension citus is too old, {CITUS_MIN} is needed");
        return Err(refused(&detail).with_hint("update the extension on all nodes"));
    }
    if row.get(1) {
        return Err(
            refused("the URL names a worker of Citus").with_hint("name the coordinator in --store")
        );
    }
    Ok(())
}

/// The failure for a store that should be distributed, but was created without that.
pub(super) fn not_distributed() -> Failure {
    refused("the store in this database is not distributed, and cannot be made so").with_hint(
        "set `distribute` to `off`, or copy the store into another database (docs/scaling.md)",
    )
}

fn refused(detail: &str) -> Failure {
    Failure::new(ErrorCode::Invalid, format!("distribute: {detail}"))
}
