//! The statements of both databases.

use filrouge_store::plain::Statement;

use super::definition::{Kind, TABLES, Table, VERSION};
use crate::target::Stamp;

/// A kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Postgres,
    Sqlite,
}

/// The statements of one database and schema.
#[derive(Debug, Clone)]
pub(super) struct Sql {
    pub(super) dialect: Dialect,
    /// The schema, quoted; empty for SQLite.
    schema: String,
}

/// The table of the generations.
const GENERATIONS: &str = "projection_generation";
/// The table of a generation with the sessions that it has, or had.
pub(super) const PROJECTED: &str = "projected_session";
/// The table of a generation with its stamp: one row, or none.
const STAMP: &str = "projected_stamp";

/// A name as an identifier.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as a literal.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

pub(super) fn join(names: &[&str], form: impl Fn(&str) -> String) -> String {
    let forms: Vec<_> = names.iter().map(|name| form(name)).collect();
    forms.join(", ")
}

/// The names of a table's columns, with the version.
pub(super) fn names(table: &Table) -> Vec<&'static str> {
    let columns = table.columns.iter().map(|column| column.name);
    columns.chain([VERSION]).collect()
}

impl Sql {
    pub(super) fn postgres(schema: &str) -> Self {
        Self {
            dialect: Dialect::Postgres,
            schema: quoted(schema),
        }
    }

    pub(super) const fn sqlite() -> Self {
        Self {
            dialect: Dialect::Sqlite,
            schema: String::new(),
        }
    }

    /// A table or view, with its schema.
    fn qualified(&self, name: &str) -> String {
        match self.dialect {
            Dialect::Postgres => format!("{}.{}", self.schema, quoted(name)),
            Dialect::Sqlite => quoted(name),
        }
    }

    pub(super) fn table(&self, name: &str, generation: u64) -> String {
        self.qualified(&format!("{name}_g{generation}"))
    }

    pub(super) fn parameter(&self, number: u8) -> String {
        match self.dialect {
            Dialect::Postgres => format!("${number}"),
            Dialect::Sqlite => format!("?{number}"),
        }
    }

    pub(super) const fn type_of(&self, kind: Kind) -> &'static str {
        match (self.dialect, kind) {
            (Dialect::Postgres, Kind::Text) => "text",
            (Dialect::Postgres, Kind::Integer) => "bigint",
            (Dialect::Postgres, Kind::Small) => "integer",
            (Dialect::Postgres, Kind::Boolean) => "boolean",
            (Dialect::Postgres, Kind::Time) => "timestamptz",
            (Dialect::Postgres, Kind::Json) => "jsonb",
            (Dialect::Postgres, Kind::Uuid) => "uuid",
            (Dialect::Sqlite, Kind::Integer | Kind::Small | Kind::Boolean) => "INTEGER",
            (Dialect::Sqlite, Kind::Text | Kind::Time | Kind::Json | Kind::Uuid) => "TEXT",
        }
    }

    /// Reads whether the schema exists.
    pub(super) fn find_schema(&self) -> Option<Statement> {
        match self.dialect {
            Dialect::Postgres => Some(Statement::new(format!(
                "SELECT nspname::text FROM pg_namespace WHERE nspname = {}",
                literal(&self.schema_name())
            ))),
            Dialect::Sqlite => None,
        }
    }

    /// The schema's name without quotes.
    fn schema_name(&self) -> String {
        self.schema[1..self.schema.len() - 1].replace("\"\"", "\"")
    }

    pub(super) fn create_schema(&self) -> Statement {
        Statement::new(format!("CREATE SCHEMA {}", self.schema))
    }

    /// Reads whether the table of the generations exists.
    pub(super) fn find_generations(&self) -> Statement {
        let name = literal(GENERATIONS);
        Statement::new(match self.dialect {
            Dialect::Postgres => format!(
                "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                 WHERE c.relname = {name} AND n.nspname = {}",
                literal(&self.schema_name())
            ),
            Dialect::Sqlite => format!("SELECT name FROM sqlite_schema WHERE name = {name}"),
        })
    }

    /// Reads the name of any table of the schema, or of the file.
    pub(super) fn find_table(&self) -> Statement {
        Statement::new(match self.dialect {
            Dialect::Postgres => format!(
                "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                 WHERE n.nspname = {} LIMIT 1",
                literal(&self.schema_name())
            ),
            Dialect::Sqlite => "SELECT name FROM sqlite_schema LIMIT 1".to_owned(),
        })
    }

    pub(super) fn create_generations(&self) -> Statement {
        Statement::new(format!(
            "CREATE TABLE {} (\"generation\" {} PRIMARY KEY, \"structure\" {} NOT NULL, \"published\" {} NOT NULL)",
            self.qualified(GENERATIONS),
            self.type_of(Kind::Integer),
            self.type_of(Kind::Text),
            self.type_of(Kind::Boolean),
        ))
    }

    /// Reads the number and the structure of each generation, and whether it is published: `1`, or `0`.
    pub(super) fn read_generations(&self) -> Statement {
        Statement::new(format!(
            "SELECT CAST(\"generation\" AS text), \"structure\", CASE WHEN \"published\" THEN '1' ELSE '0' END
             FROM {} ORDER BY \"generation\"",
            self.qualified(GENERATIONS)
        ))
    }

    pub(super) fn insert_generation(&self, generation: u64) -> Statement {
        let text = format!(
            "INSERT INTO {} VALUES ({generation}, {}, false)",
            self.qualified(GENERATIONS),
            self.parameter(1)
        );
        Statement::with(text, [self.structure(generation)])
    }

    /// The text by which a generation of another structure is noticed.
    pub(super) fn structure(&self, generation: u64) -> String {
        let statements = self.create_tables(generation);
        let texts: Vec<_> = statements.into_iter().map(|s| s.text).collect();
        texts.join(";\n")
    }

    /// Creates the tables of a generation.
    pub(super) fn create_tables(&self, generation: u64) -> Vec<Statement> {
        let mut statements = self.create_projected(generation);
        statements.push(self.create_stamp(generation));
        for table in TABLES {
            let columns = table.columns.iter().map(|column| {
                let is_key = table.key.contains(&column.name);
                let constraint = if is_key { " NOT NULL" } else { "" };
                let kind = self.type_of(column.kind);
                format!("{} {kind}{constraint}", quoted(column.name))
            });
            let version = format!(
                "{} {} NOT NULL",
                quoted(VERSION),
                self.type_of(Kind::Integer)
            );
            let key = format!("PRIMARY KEY ({})", join(table.key, quoted));
            let columns: Vec<_> = columns.chain([version, key]).collect();
            let name = self.table(table.name, generation);
            let create = format!(
                "CREATE TABLE {name} ({}){}",
                columns.join(", "),
                self.options()
            );
            statements.push(Statement::new(create));
            for columns in table.indexes {
                let on = self.index(table.name, generation, columns);
                statements.push(Statement::new(format!("{on} ({})", join(columns, quoted))));
            }
        }
        statements
    }

    fn create_projected(&self, generation: u64) -> Vec<Statement> {
        let create = format!(
            "CREATE TABLE {} (\"tenant\" {text} NOT NULL, \"session_id\" {text} NOT NULL, \"version\" {integer} NOT NULL,
             \"gone\" {boolean} NOT NULL, PRIMARY KEY (\"tenant\", \"session_id\")){options}",
            self.table(PROJECTED, generation),
            text = self.type_of(Kind::Text),
            integer = self.type_of(Kind::Integer),
            boolean = self.type_of(Kind::Boolean),
            options = self.options(),
        );
        let order = ["tenant", "session_id"];
        let index = format!(
            "{} ({})",
            self.index(PROJECTED, generation, &order),
            join(&order, |name| self.by_bytes(name))
        );
        vec![Statement::new(create), Statement::new(index)]
    }

    fn create_stamp(&self, generation: u64) -> Statement {
        Statement::new(format!(
            "CREATE TABLE {} (\"commits\" {} NOT NULL, \"position\" {} NOT NULL){}",
            self.table(STAMP, generation),
            self.type_of(Kind::Integer),
            self.type_of(Kind::Text),
            self.options(),
        ))
    }

    /// Reads the stamp of a generation: its number of commits, and its position.
    pub(super) fn read_stamp(&self, generation: u64) -> Statement {
        Statement::new(format!(
            "SELECT CAST(\"commits\" AS text), \"position\" FROM {} ORDER BY \"commits\" DESC LIMIT 1",
            self.table(STAMP, generation)
        ))
    }

    /// Replaces the stamp of a generation, unless it has more commits.
    pub(super) fn write_stamp(&self, generation: u64, stamp: &Stamp) -> Vec<Statement> {
        let (table, commits) = (self.table(STAMP, generation), stamp.commits);
        let delete = format!("DELETE FROM {table} WHERE \"commits\" <= {commits}");
        let insert = format!(
            "INSERT INTO {table} SELECT {commits}, CAST({} AS text) WHERE NOT EXISTS (SELECT 1 FROM {table})",
            self.parameter(1)
        );
        vec![
            Statement::new(delete),
            Statement::with(insert, [stamp.position.clone()]),
        ]
    }

    /// The end of the statement that creates a table. SQLite otherwise stores a value of any type in any column.
    const fn options(&self) -> &'static str {
        match self.dialect {
            Dialect::Postgres => "",
            Dialect::Sqlite => " STRICT",
        }
    }

    /// The beginning of the statement that creates an index.
    fn index(&self, table: &str, generation: u64, columns: &[&str]) -> String {
        let name = format!("{table}_g{generation}_{}", columns.join("_"));
        let table = self.table(table, generation);
        format!("CREATE INDEX {} ON {table}", quoted(&name))
    }

    /// A column in the order of its bytes.
    pub(super) fn by_bytes(&self, name: &str) -> String {
        match self.dialect {
            Dialect::Postgres => format!("{} COLLATE \"C\"", quoted(name)),
            Dialect::Sqlite => quoted(name),
        }
    }

    /// Makes the views, and with them queries, use a generation. With `drop`, the views are created anew, so that their
    /// columns may change.
    pub(super) fn publish(
        &self,
        generation: u64,
        role: Option<&str>,
        drop: bool,
    ) -> Vec<Statement> {
        let mut statements = Vec::new();
        for table in TABLES {
            let view = self.qualified(table.name);
            if drop || self.dialect == Dialect::Sqlite {
                statements.push(Statement::new(format!("DROP VIEW IF EXISTS {view}")));
            }
            let create = match self.dialect {
                Dialect::Postgres => "CREATE OR REPLACE VIEW",
                Dialect::Sqlite => "CREATE VIEW",
            };
            statements.push(Statement::new(format!(
                "{create} {view} AS SELECT {} FROM {}",
                join(&names(table), quoted),
                self.table(table.name, generation)
            )));
        }
        statements.push(Statement::new(format!(
            "UPDATE {} SET \"published\" = (\"generation\" = {generation})",
            self.qualified(GENERATIONS)
        )));
        if let Some(role) = role.filter(|_| self.dialect == Dialect::Postgres) {
            let views: Vec<_> = TABLES.iter().map(|t| self.qualified(t.name)).collect();
            let role = quoted(role);
            let usage = format!("GRANT USAGE ON SCHEMA {} TO {role}", self.schema);
            let select = format!("GRANT SELECT ON {} TO {role}", views.join(", "));
            statements.extend([Statement::new(usage), Statement::new(select)]);
        }
        statements
    }

    /// Drops a generation that is not published.
    pub(super) fn drop_generation(&self, generation: u64) -> Vec<Statement> {
        let drop = |table: String| Statement::new(format!("DROP TABLE IF EXISTS {table}"));
        let mut statements: Vec<_> = self.tables(generation).into_iter().map(drop).collect();
        statements.push(Statement::new(format!(
            "DELETE FROM {} WHERE \"generation\" = {generation}",
            self.qualified(GENERATIONS)
        )));
        statements
    }

    /// All tables of a generation, with their schema.
    pub(super) fn tables(&self, generation: u64) -> Vec<String> {
        let names = TABLES.iter().map(|table| table.name);
        let names = names.chain([PROJECTED, STAMP]);
        names.map(|name| self.table(name, generation)).collect()
    }
}
