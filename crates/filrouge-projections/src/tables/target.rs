//! The tables as a target.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::slice;
use std::sync::Mutex;

use async_trait::async_trait;
use filrouge_postgres::PlainServer;
use filrouge_sqlite::PlainFile;
use filrouge_store::plain::{PlainDatabase, PlainError, PlainRows, Statement};
use filrouge_types::{ErrorCode, Failure, Result, SessionId, TenantId, lock};
use serde_json::{Map, Value};

use super::definition::{TABLES, Table};
use super::rows::{row_id, rows};
use super::sql::{Dialect, Sql};
use super::updates::{parts, statements};
use super::values::stored;
use crate::{Cleaned, Refused, Row, SessionKey, SessionUpdate, Stamp, Target, TargetError, Update};

/// The longest name of a schema, in bytes; PostgreSQL cuts longer ones.
const SCHEMA_MAX: usize = 63;

/// What the tables contain, and who may read them.
#[derive(Debug, Clone, Default)]
pub struct TablesSettings {
    /// The number of each tenant in the column `tenant_id` of the voice design's tables. A tenant without a number has
    /// no rows in them.
    pub tenant_ids: BTreeMap<TenantId, i32>,
    /// PostgreSQL: a role that may read the views, and nothing else.
    pub reporting_role: Option<String>,
}

/// Plain SQL tables.
pub struct Tables {
    database: Box<dyn PlainDatabase>,
    sql: Sql,
    settings: TablesSettings,
    /// The tenants that have sessions, and no number although other tenants have one.
    without_number: Mutex<BTreeSet<TenantId>>,
}

impl Tables {
    /// Tables in the SQLite file at `path`, which is opened when a method is first called, and created if it is missing.
    ///
    /// # Errors
    /// `invalid` if two tenants have the same number.
    pub fn sqlite(path: &Path, settings: TablesSettings) -> Result<Self> {
        Self::new(Box::new(PlainFile::new(path)), Sql::sqlite(), settings)
    }

    /// Tables in `schema` of the PostgreSQL database at `url`, which has the form of a store's (docs/postgresql.md).
    /// `password` applies if the URL contains none. Connects when a method is first called.
    ///
    /// # Errors
    /// `invalid` if the URL or the schema's name is not acceptable, or two tenants have the same number.
    pub fn postgres(
        url: &str,
        password: Option<&str>,
        schema: &str,
        settings: TablesSettings,
    ) -> Result<Self> {
        let is_reserved = schema == "filrouge" || schema.starts_with("pg_");
        if schema.is_empty() || schema.len() > SCHEMA_MAX || schema.contains('\0') || is_reserved {
            let detail = format!("the tables cannot be in the schema {schema:?}");
            return Err(Failure::new(ErrorCode::Invalid, detail).with_hint(
                "use a schema of its own, such as filrouge_tables, with at most 63 bytes",
            ));
        }
        let server = PlainServer::new(url, password)?;
        Self::new(Box::new(server), Sql::postgres(schema), settings)
    }

    fn new(database: Box<dyn PlainDatabase>, sql: Sql, settings: TablesSettings) -> Result<Self> {
        let numbers: BTreeSet<_> = settings.tenant_ids.values().collect();
        if numbers.len() < settings.tenant_ids.len() {
            let detail = "tenant_ids has the same number for two tenants";
            return Err(Failure::new(ErrorCode::Invalid, detail));
        }
        Ok(Self {
            database,
            sql,
            settings,
            without_number: Mutex::default(),
        })
    }

    /// The tenants without rows in the voice design's tables: [`TablesSettings::tenant_ids`] has numbers, but not
    /// theirs. Only tenants of sessions that this process has converted.
    #[must_use]
    pub fn tenants_without_number(&self) -> Vec<TenantId> {
        lock(&self.without_number).iter().cloned().collect()
    }

    async fn run(&self, statements: Vec<Statement>) -> Result<Vec<PlainRows>, TargetError> {
        self.database.run(statements).await.map_err(target_error)
    }

    async fn query(&self, statement: Statement) -> Result<PlainRows, TargetError> {
        let rows = self.run(vec![statement]).await?;
        Ok(rows.into_iter().next().unwrap_or_default())
    }

    /// All generations; none if there are no tables yet.
    async fn generations(&self) -> Result<Vec<Generation>, TargetError> {
        if self.query(self.sql.find_generations()).await?.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.query(self.sql.read_generations()).await?;
        let parsed = rows.into_iter().map(Generation::parse);
        let parsed: Option<_> = parsed.collect();
        parsed.ok_or_else(|| altered("the table of the generations has other columns"))
    }

    /// Creates the schema and the table of the generations if they are missing.
    async fn prepare(&self) -> Result<(), TargetError> {
        if !self.query(self.sql.find_generations()).await?.is_empty() {
            return Ok(());
        }
        let mut create = vec![self.sql.create_generations()];
        if let Some(find) = self.sql.find_schema()
            && self.query(find).await?.is_empty()
        {
            create.insert(0, self.sql.create_schema());
        } else if !self.query(self.sql.find_table()).await?.is_empty() {
            let detail = "the schema or file has tables of another program";
            return Err(TargetError::Refused(detail.to_owned()));
        }
        self.run(create).await.map(drop)
    }

    /// Applies updates of different sessions in one transaction.
    async fn apply(&self, generation: u64, updates: &[Update]) -> Result<(), PlainError> {
        let statements = statements(&self.sql, generation, updates);
        self.database.run(statements).await.map(drop)
    }
}

/// A generation, as the database describes it.
struct Generation {
    number: u64,
    structure: String,
    is_published: bool,
}

impl Generation {
    fn parse(row: Vec<Option<String>>) -> Option<Self> {
        let [number, structure, published] = <[Option<String>; 3]>::try_from(row).ok()?;
        Some(Self {
            number: number?.parse().ok()?,
            structure: structure?,
            is_published: published? == "1",
        })
    }
}

fn target_error(error: PlainError) -> TargetError {
    match error {
        PlainError::Altered(detail) => TargetError::Altered(detail),
        PlainError::Unavailable(detail) => TargetError::Unavailable(detail),
        PlainError::Data(detail) | PlainError::Refused(detail) => TargetError::Refused(detail),
    }
}

fn altered(detail: &str) -> TargetError {
    TargetError::Altered(detail.to_owned())
}

/// The session of a row with its tenant and its id.
fn session_key(row: Vec<Option<String>>) -> Option<SessionKey> {
    let [tenant, session] = <[Option<String>; 2]>::try_from(row).ok()?;
    Some(SessionKey {
        tenant: TenantId::new(tenant?).ok()?,
        session: SessionId::new(session?).ok()?,
    })
}

fn parsed_stamp(row: Vec<Option<String>>) -> Option<Stamp> {
    let [commits, position] = <[Option<String>; 2]>::try_from(row).ok()?;
    Some(Stamp {
        commits: commits?.parse().ok()?,
        position: position?,
    })
}

/// A row of a table from the texts of its columns.
fn stored_row(table: &Table, texts: Vec<Option<String>>) -> Option<Row> {
    let columns = table.columns.iter().zip(texts);
    let values =
        columns.map(|(column, text)| Some((column.name.to_owned(), stored(column.kind, text)?)));
    let content: Map<String, Value> = values.collect::<Option<_>>()?;
    Some(Row {
        table: table.name,
        id: row_id(table, &content),
        content,
    })
}

#[async_trait]
impl Target for Tables {
    fn rows(&self, update: &SessionUpdate) -> Vec<Row> {
        let (tenant, numbers) = (&update.key.tenant, &self.settings.tenant_ids);
        let number = numbers.get(tenant).copied();
        if number.is_none()
            && !numbers.is_empty()
            && lock(&self.without_number).insert(tenant.clone())
        {
            tracing::warn!(
                %tenant,
                "tenant_ids has no number for the tenant: its sessions are not in the tables of calls"
            );
        }
        rows(update, number)
    }

    async fn published(&self) -> Result<Option<u64>, TargetError> {
        let generations = self.generations().await?;
        let published = generations.iter().find(|g| g.is_published);
        Ok(published.map(|generation| generation.number))
    }

    async fn create(&self, generation: u64) -> Result<(), TargetError> {
        self.prepare().await?;
        let generations = self.generations().await?;
        let existing = generations.iter().find(|g| g.number == generation);
        match existing {
            Some(existing) if existing.structure == self.sql.structure(generation) => Ok(()),
            Some(_) => Err(altered(
                "another version of filrouge created the tables of this generation",
            )),
            None => {
                let mut statements = self.sql.create_tables(generation);
                statements.push(self.sql.insert_generation(generation));
                self.run(statements).await.map(drop)
            }
        }
    }

    async fn write(
        &self,
        generation: u64,
        updates: Vec<Update>,
    ) -> Result<Vec<Refused>, TargetError> {
        let mut refused = Vec::new();
        for part in parts(updates) {
            match self.apply(generation, &part).await {
                Ok(()) => continue,
                Err(PlainError::Data(_)) => {}
                Err(error) => return Err(target_error(error)),
            }
            // One of the updates is not acceptable: without it, the others are.
            for update in &part {
                match self.apply(generation, slice::from_ref(update)).await {
                    Ok(()) => {}
                    Err(PlainError::Data(reason)) => refused.push(Refused {
                        key: update.key().clone(),
                        reason,
                    }),
                    Err(error) => return Err(target_error(error)),
                }
            }
        }
        Ok(refused)
    }

    async fn stamp(&self, generation: u64) -> Result<Option<Stamp>, TargetError> {
        let rows = self.query(self.sql.read_stamp(generation)).await?;
        Ok(rows.into_iter().next().and_then(parsed_stamp))
    }

    async fn set_stamp(&self, generation: u64, stamp: &Stamp) -> Result<(), TargetError> {
        let statements = self.sql.write_stamp(generation, stamp);
        self.run(statements).await.map(drop)
    }

    async fn publish(&self, generation: u64) -> Result<(), TargetError> {
        let generations = self.generations().await?;
        if !generations.iter().any(|g| g.number == generation) {
            return Err(altered("the generation does not exist"));
        }
        let role = self.settings.reporting_role.as_deref();
        let published = self.database.run(self.sql.publish(generation, role, false));
        match published.await {
            // The views have other columns in this version of filrouge.
            Err(PlainError::Altered(_)) if self.sql.dialect == Dialect::Postgres => {
                self.run(self.sql.publish(generation, role, true)).await?;
            }
            done => drop(done.map_err(target_error)?),
        }
        for other in generations.iter().filter(|g| g.number != generation) {
            self.run(self.sql.drop_generation(other.number)).await?;
        }
        Ok(())
    }

    async fn clean(&self, key: &SessionKey, version: u64) -> Result<Cleaned, TargetError> {
        let removed = Update::Removed {
            key: key.clone(),
            version,
        };
        let mut tables = Vec::new();
        for generation in self.generations().await? {
            let applied = self.apply(generation.number, slice::from_ref(&removed));
            applied.await.map_err(target_error)?;
            tables.extend(self.sql.tables(generation.number));
        }
        let remains = match tables.is_empty() {
            true => None,
            false => {
                let erased = self.database.erase_deleted(&tables).await;
                erased.map_err(target_error)?
            }
        };
        Ok(Cleaned { remains })
    }

    async fn sessions(
        &self,
        generation: u64,
        after: Option<&SessionKey>,
        limit: usize,
    ) -> Result<Vec<SessionKey>, TargetError> {
        // Ids are never empty.
        let after = after.map_or_else(Default::default, |key| {
            [key.tenant.as_str(), key.session.as_str()].map(str::to_owned)
        });
        let rows = self.query(self.sql.sessions(generation, after, limit));
        let keys: Option<_> = rows.await?.into_iter().map(session_key).collect();
        keys.ok_or_else(|| altered("the table of the sessions has an invalid id"))
    }

    async fn stored(&self, generation: u64, key: &SessionKey) -> Result<Vec<Row>, TargetError> {
        let session = [key.tenant.as_str(), key.session.as_str()].map(str::to_owned);
        let tables = TABLES.iter();
        let queries = tables.map(|table| self.sql.stored(generation, table, session.clone()));
        let answers = self.run(queries.collect()).await?;
        let mut rows = Vec::new();
        for (table, answer) in TABLES.iter().zip(answers) {
            for texts in answer {
                let row = stored_row(table, texts);
                rows.push(row.ok_or_else(|| altered("a row has a value of another type"))?);
            }
        }
        Ok(rows)
    }
}
