//! `filrouge migrate status|up|--dry-run`

use std::io::{self, Write};
use std::sync::Arc;

use filrouge_postgres::{LANES_SETTING, distributed_sql};
use filrouge_sqlite::Options;
use filrouge_store::OsEntropy;
use filrouge_store::schema::{Migration, Schema};
use filrouge_types::SystemClock;
use serde_json::{Value, json};

use crate::cli::{Migrate, MigrateCommand};
use crate::config::{Config, StoreUrl};
use crate::exit::Usage;
use crate::open::{
    BUSY_TIMEOUT, holds_data, keyring, missing_store, refuse_distribution, refuse_unverified,
    store_exists, with_url,
};
use crate::output::show;

pub(super) fn run(config: &Config, args: &Migrate) -> anyhow::Result<()> {
    match &args.command {
        Some(MigrateCommand::Status) => status(config, &schema(config)?),
        Some(MigrateCommand::Up { dry_run: false }) => up(config, &migrate(config)?),
        Some(MigrateCommand::Up { dry_run: true }) | None => plan(config, &schema(config)?),
    }
}

fn in_memory() -> anyhow::Error {
    Usage::new("a store in memory has no schema").into()
}

/// Reads the store's schema without changing it.
fn schema(config: &Config) -> anyhow::Result<Schema> {
    match &config.store {
        StoreUrl::Memory => Err(in_memory()),
        StoreUrl::Sqlite(path) if !path.exists() => Err(missing_store(path.display()).into()),
        StoreUrl::Sqlite(path) => Ok(filrouge_sqlite::schema(path, BUSY_TIMEOUT)?),
        StoreUrl::Postgres(url) => Ok(filrouge_postgres::schema(&url.options_without_keyring()?)
            .map_err(|f| with_url(url, f))?),
    }
}

/// Runs the pending migrations; returns the previous schema.
fn migrate(config: &Config) -> anyhow::Result<Schema> {
    refuse_unverified(config)?;
    match &config.store {
        StoreUrl::Memory => Err(in_memory()),
        StoreUrl::Sqlite(path) if !path.exists() => Err(missing_store(path.display()).into()),
        StoreUrl::Sqlite(path) => {
            refuse_distribution(config)?;
            // Reading the schema refuses a newer schema, or another program's file, before a keyring is created.
            filrouge_sqlite::schema(path, BUSY_TIMEOUT)?;
            let keyring = Arc::new(keyring(config, holds_data(path))?);
            let mut options =
                Options::new(path, keyring, Arc::new(OsEntropy), Arc::new(SystemClock));
            options.busy_timeout = BUSY_TIMEOUT;
            Ok(filrouge_sqlite::migrate_up(&options)?)
        }
        StoreUrl::Postgres(url) => {
            let keyring = Arc::new(keyring(config, store_exists(config)?)?);
            let mut options = url.options(keyring)?;
            options.lanes = config.lanes;
            options.distribute = config.distribute;
            Ok(filrouge_postgres::migrate_up(&options).map_err(|f| with_url(url, f))?)
        }
    }
}

const fn state(migration: &Migration) -> &'static str {
    if migration.applied {
        "applied"
    } else {
        "pending"
    }
}

fn status(config: &Config, schema: &Schema) -> anyhow::Result<()> {
    let (version, newest) = (schema.version, schema.known);
    let steps = schema.steps.iter();
    let steps: Vec<_> = steps
        .map(|s| json!({ "number": s.number, "name": s.name, "state": state(s) }))
        .collect();
    let output = json!({ "schema": version, "known": newest, "migrations": steps });
    show(config.json, &output, |out| {
        writeln!(out, "schema {version}; this filrouge writes {newest}")?;
        (schema.steps.iter()).try_for_each(|step| {
            writeln!(out, "{:04}  {:<10} {}", step.number, step.name, state(step))
        })
    })
}

fn plan(config: &Config, schema: &Schema) -> anyhow::Result<()> {
    let step = |s: &Migration| json!({ "number": s.number, "name": s.name, "sql": sql(config, s) });
    pending(config, schema, ("pending", step), |out, step| {
        writeln!(out, "-- {:04} {}", step.number, step.name)?;
        writeln!(out, "{}", sql(config, step).trim_end())
    })
}

/// The statements of a migration. That which creates a PostgreSQL store reads a setting, and may distribute the store.
fn sql(config: &Config, migration: &Migration) -> String {
    match (&config.store, migration.number) {
        (StoreUrl::Postgres(_), 1) => {
            let sql = match config.distribute {
                true => distributed_sql(migration.sql),
                false => migration.sql.to_owned(),
            };
            format!("SET {LANES_SETTING} = {};\n{sql}", config.lanes)
        }
        _ => migration.sql.to_owned(),
    }
}

fn up(config: &Config, before: &Schema) -> anyhow::Result<()> {
    let step = |s: &Migration| json!({ "number": s.number, "name": s.name });
    pending(config, before, ("applied", step), |out, step| {
        writeln!(out, "applied {:04} {}", step.number, step.name)
    })
}

/// Shows the migrations that `schema` lacks: as the member `name` of a JSON document, where `step` gives each
/// migration's form; or as text, where `line` writes each migration.
fn pending(
    config: &Config,
    schema: &Schema,
    (name, step): (&str, impl Fn(&Migration) -> Value),
    line: impl Fn(&mut Vec<u8>, &Migration) -> io::Result<()>,
) -> anyhow::Result<()> {
    let (version, newest) = (schema.version, schema.known);
    let steps: Vec<_> = schema.pending().map(step).collect();
    show(
        config.json,
        &json!({ "from": version, "to": newest, name: steps }),
        |out| {
            if steps.is_empty() {
                writeln!(out, "up to date: schema {version}")?;
            }
            schema.pending().try_for_each(|step| line(out, step))
        },
    )
}
