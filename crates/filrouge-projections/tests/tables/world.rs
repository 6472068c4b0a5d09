//! An empty database, and tables in it.

use std::collections::BTreeMap;

use filrouge_projections::tables::{Tables, TablesSettings};
use filrouge_projections::{Row, SessionKey, SessionUpdate, Target, Update};
use filrouge_sqlite::PlainFile;
use filrouge_store::plain::{PlainDatabase, Statement};
use filrouge_testbed::Database;
use filrouge_types::TenantId;

/// The schema of the tables in PostgreSQL. Its name needs quotes.
pub(crate) const SCHEMA: &str = "Tables \"1\"";

pub(crate) enum Place {
    Sqlite(tempfile::TempDir),
    Postgres(Database),
}

pub(crate) struct World {
    pub(crate) place: Place,
    pub(crate) tables: Tables,
}

/// The tenant `acme` has the number 7 in the voice design's tables.
pub(crate) fn settings() -> TablesSettings {
    TablesSettings {
        tenant_ids: BTreeMap::from([(TenantId::new("acme").unwrap(), 7)]),
        reporting_role: None,
    }
}

impl Place {
    pub(crate) fn open(&self, settings: TablesSettings) -> Tables {
        match self {
            Self::Sqlite(folder) => Tables::sqlite(&folder.path().join("tables.db"), settings),
            Self::Postgres(database) => Tables::postgres(&database.url(), None, SCHEMA, settings),
        }
        .unwrap()
    }
}

impl World {
    pub(crate) fn on_sqlite() -> Self {
        Self::at(Place::Sqlite(tempfile::tempdir().unwrap()))
    }

    pub(crate) fn on_postgres() -> Self {
        Self::at(Place::Postgres(Database::new()))
    }

    fn at(place: Place) -> Self {
        let tables = place.open(settings());
        Self { place, tables }
    }

    /// The value that a query returns, as text. Tables and views have no schema in it.
    pub(crate) async fn value(&self, query: &str) -> String {
        match &self.place {
            Place::Sqlite(folder) => {
                let file = PlainFile::new(&folder.path().join("tables.db"));
                let statement = Statement::new(format!("SELECT CAST(({query}) AS text)"));
                let rows = file.run(vec![statement]).await.unwrap();
                rows[0][0][0].clone().unwrap_or_default()
            }
            Place::Postgres(database) => {
                let schema = SCHEMA.replace('"', "\"\"");
                let rows = database.sql(&format!("SET search_path = \"{schema}\"; {query};"));
                rows[0][0].clone().unwrap_or_default()
            }
        }
    }

    /// Runs a statement that changes tables.
    pub(crate) async fn change(&self, statement: &str) {
        match &self.place {
            Place::Sqlite(folder) => {
                let file = PlainFile::new(&folder.path().join("tables.db"));
                file.run(vec![Statement::new(statement)]).await.unwrap();
            }
            Place::Postgres(database) => {
                let schema = SCHEMA.replace('"', "\"\"");
                database.sql(&format!("SET search_path = \"{schema}\"; {statement};"));
            }
        }
    }

    /// Writes a session into generation 1; nothing is refused.
    pub(crate) async fn write(&self, update: &SessionUpdate) {
        self.apply(vec![rows(&self.tables, update)]).await;
    }

    /// Applies updates to generation 1; nothing is refused.
    pub(crate) async fn apply(&self, updates: Vec<Update>) {
        let refused = self.tables.write(1, updates).await.unwrap();
        assert_eq!(refused, []);
    }

    /// The rows of a session in generation 1, sorted.
    pub(crate) async fn stored(&self, key: &SessionKey) -> Vec<Row> {
        sorted(self.tables.stored(1, key).await.unwrap())
    }

    /// The texts of a session's turns in generation 1.
    pub(crate) async fn questions(&self, key: &SessionKey) -> Vec<String> {
        let rows = self.stored(key).await.into_iter();
        let turns = rows.filter(|row| row.table == "turns");
        let questions =
            turns.map(|row| row.content["question_neutral"].as_str().unwrap().to_owned());
        questions.collect()
    }
}

/// A session as an update of rows.
pub(crate) fn rows(tables: &Tables, update: &SessionUpdate) -> Update {
    Update::Rows {
        key: update.key.clone(),
        version: update.version,
        is_entire: update.is_entire,
        rows: tables.rows(update),
    }
}

pub(crate) fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by(|a, b| (a.table, &a.id).cmp(&(b.table, &b.id)));
    rows
}
