//! What only PostgreSQL does.

use filrouge_projections::tables::{Tables, TablesSettings};
use filrouge_projections::{Target, TargetError};
use filrouge_testbed::{Database, PgBouncer};

use crate::sessions::{key, short_session};
use crate::world::{rows, sorted};

#[tokio::test]
async fn a_reporting_role_reads_the_views_and_nothing_else() {
    let database = Database::new();
    // Roles belong to all databases of the server.
    let role = format!("reporting \"{}\"", database.name());
    let quoted = format!("\"{}\"", role.replace('"', "\"\""));
    database.sql(&format!("CREATE ROLE {quoted}"));
    let settings = TablesSettings {
        reporting_role: Some(role.clone()),
        ..TablesSettings::default()
    };
    let tables = Tables::postgres(&database.url(), None, "reports", settings).unwrap();
    for generation in [1, 2] {
        tables.create(generation).await.unwrap();
        let update = rows(&tables, &short_session(&key("acme", "call"), 5, "words"));
        tables.write(generation, vec![update]).await.unwrap();
        tables.publish(generation).await.unwrap();
        let read = format!("SET ROLE {quoted}; SELECT count(*) FROM reports.turns;");
        assert_eq!(database.sql(&read), [[Some("1".to_owned())]]);
        let name = role.replace('\'', "''");
        let privileges = format!(
            "SELECT has_table_privilege('{name}', 'reports.turns', 'INSERT, UPDATE, DELETE'),
                    has_table_privilege('{name}', 'reports.turns_g{generation}', 'SELECT'),
                    has_schema_privilege('{name}', 'reports', 'CREATE')"
        );
        let none = Some("f".to_owned());
        assert_eq!(
            database.sql(&privileges),
            [[none.clone(), none.clone(), none]]
        );
    }
    database.sql(&format!("DROP OWNED BY {quoted}; DROP ROLE {quoted};"));
}

#[tokio::test]
async fn a_role_that_does_not_exist_is_reported() {
    let database = Database::new();
    let settings = TablesSettings {
        reporting_role: Some("nobody_of_this_name".to_owned()),
        ..TablesSettings::default()
    };
    let tables = Tables::postgres(&database.url(), None, "reports", settings).unwrap();
    tables.create(1).await.unwrap();
    let published = tables.publish(1).await;
    assert!(matches!(published, Err(TargetError::Refused(_))));
    assert_eq!(tables.published().await.unwrap(), None);
}

/// A later version of filrouge may have other columns.
#[tokio::test]
async fn views_with_other_columns_are_replaced() {
    let database = Database::new();
    let settings = TablesSettings::default();
    let tables = Tables::postgres(&database.url(), None, "reports", settings).unwrap();
    tables.create(1).await.unwrap();
    database.sql("CREATE VIEW reports.turns AS SELECT 1 AS another_column");
    tables.publish(1).await.unwrap();
    assert_eq!(tables.published().await.unwrap(), Some(1));
    let seen = database.sql("SELECT count(question_neutral) FROM reports.turns");
    assert_eq!(seen, [[Some("0".to_owned())]]);
}

#[tokio::test]
async fn a_lost_connection_is_opened_again() {
    let database = Database::new();
    let settings = TablesSettings::default();
    let tables = Tables::postgres(&database.url(), None, "reports", settings).unwrap();
    tables.create(1).await.unwrap();
    database.terminate_backends();
    let key = key("acme", "call");
    let update = rows(&tables, &short_session(&key, 5, "words"));
    // The first call may notice only now that the connection is lost.
    if tables.write(1, vec![update.clone()]).await.is_err() {
        tables.write(1, vec![update]).await.unwrap();
    }
    assert_eq!(tables.sessions(1, None, 9).await.unwrap(), [key]);
}

#[tokio::test]
async fn tables_are_written_through_a_pooler() {
    let database = Database::new();
    let pool = PgBouncer::before(&database, 3);
    let url = pool.url(database.name());
    let tables = Tables::postgres(&url, None, "reports", TablesSettings::default()).unwrap();
    let key = key("acme", "call");
    let update = short_session(&key, 5, "words");
    tables.create(1).await.unwrap();
    let written = tables.write(1, vec![rows(&tables, &update)]).await;
    assert_eq!(written.unwrap(), []);
    tables.publish(1).await.unwrap();
    let stored = tables.stored(1, &key).await.unwrap();
    assert_eq!(sorted(stored), sorted(tables.rows(&update)));
    tables.clean(&key, 6).await.unwrap();
    assert_eq!(tables.stored(1, &key).await.unwrap(), []);
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_unavailable() {
    let url = "postgres://u@127.0.0.1:1/d";
    let tables = Tables::postgres(url, None, "reports", TablesSettings::default()).unwrap();
    let published = tables.published().await;
    assert!(matches!(published, Err(TargetError::Unavailable(_))));
}

#[test]
fn schemas_of_others_are_refused() {
    for schema in ["filrouge", "pg_catalog", "", &"a".repeat(64)] {
        let url = "postgres://u@127.0.0.1:1/d";
        assert!(Tables::postgres(url, None, schema, TablesSettings::default()).is_err());
    }
}
