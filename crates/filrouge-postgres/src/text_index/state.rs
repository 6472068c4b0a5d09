//! Reads the state of the index: its position in the ledger, the indexed sessions, and counts.

use filrouge_store::text_index::{
    IndexScope, IndexStatus, IndexVersion, IndexedSession, Member, SealedRow, SessionEntry,
    SessionSelection, Shard,
};
use filrouge_types::Failure;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::connections::Transaction;
use super::statement::StatementBuilder;
use crate::error::malformed;
use crate::rows::{bytes, column, read_u64, sql_int};
use crate::session::Sql;

macro_rules! select_sessions {
    ($rest:literal) => {
        concat!(
            "SELECT s.no, o.realm, o.owner, s.key, s.stamp_0, s.stamp_1, s.updated, s.project, s.shard, s.seal,
                 o.realm_no
             FROM filrouge.search_session s JOIN filrouge.search_shard o ON o.no = s.shard ",
            $rest
        )
    };
}

pub(super) fn decode_text(bytes: &[u8]) -> Result<Box<str>, Failure> {
    let text = std::str::from_utf8(bytes);
    text.map(Into::into).map_err(|_| malformed("text"))
}

fn read_session(row: &Row) -> Result<IndexedSession, Failure> {
    let project: Option<Vec<u8>> = column(row, 7)?;
    let stamp = |index| Ok::<_, Failure>(column::<i64>(row, index)?.cast_unsigned());
    Ok(IndexedSession {
        no: read_u64(row, 0)?,
        shard: Shard {
            realm: bytes(row, 1)?.into(),
            owner: bytes(row, 2)?.into(),
        },
        entry: SessionEntry {
            key: decode_text(bytes(row, 3)?)?,
            stamp: [stamp(4)?, stamp(5)?],
            updated: column(row, 6)?,
            project: project.as_deref().map(decode_text).transpose()?,
        },
    })
}

/// A session's row, with the numbers of its shard and realm, and its seal.
pub(super) struct StoredSession {
    pub(super) session: IndexedSession,
    pub(super) shard: i64,
    pub(super) realm_no: i64,
    pub(super) seal: Option<Vec<u8>>,
}

impl StoredSession {
    fn read(row: &Row) -> Result<Self, Failure> {
        Ok(Self {
            session: read_session(row)?,
            shard: column(row, 8)?,
            realm_no: column(row, 10)?,
            seal: column(row, 9)?,
        })
    }

    pub(super) const fn no(&self) -> i64 {
        self.session.no.cast_signed()
    }

    /// Whether the session was forgotten, and not read again since.
    pub(super) fn is_forgotten(&self) -> bool {
        self.session.entry.stamp == [0, 0]
    }

    /// The row, for its seal.
    pub(super) const fn sealed_row(&self) -> SealedRow<'_> {
        let session = &self.session;
        SealedRow::Session(session.no, &session.shard, &session.entry)
    }

    /// The row as a member of its shard.
    pub(super) fn member(&self) -> Member<'_> {
        let seal = self.seal.as_deref().unwrap_or_default();
        let session = &self.session;
        Member::Session(
            self.shard.cast_unsigned(),
            session.no,
            &session.entry.key,
            seal,
        )
    }
}

/// A session's row; `None` if the session is not indexed.
pub(super) fn find_session(
    tx: &Transaction<'_>,
    realm: &[u8],
    key: &str,
) -> Result<Option<StoredSession>, Failure> {
    static SQL: Sql = Sql::new(
        select_sessions!("WHERE s.realm = $1 AND s.key = $2"),
        &[Type::BYTEA, Type::BYTEA],
    );
    let row = tx.query_opt(&SQL, &[&realm, &key.as_bytes()])?;
    row.as_ref().map(StoredSession::read).transpose()
}

/// The rows of all sessions of a scope that belong to the realm of their shard.
pub(super) fn stored_sessions(
    tx: &Transaction<'_>,
    scope: &IndexScope,
) -> Result<Vec<StoredSession>, Failure> {
    let mut statement = StatementBuilder::default();
    let within = statement.within(scope, "s.shard", "o.realm_no");
    let text = format!(
        "{} WHERE {within} AND s.realm = o.realm",
        select_sessions!("")
    );
    let rows = tx.query_text(&text, statement.types(), &statement.params())?;
    rows.iter().map(StoredSession::read).collect()
}

/// Reads the position in the ledger up to which the index is built, and the counter of removals.
pub(super) fn read_version(tx: &Transaction<'_>) -> Result<IndexVersion, Failure> {
    static SQL: Sql = Sql::new("SELECT position, forgotten FROM filrouge.search_state", &[]);
    let row = tx.query_opt(&SQL, &[])?;
    let row = row.ok_or_else(|| malformed("state of the search index"))?;
    let position: Option<Vec<u8>> = column(&row, 0)?;
    Ok(IndexVersion {
        position: position.map(Into::into),
        forgotten: read_u64(&row, 1)?,
    })
}

pub(super) fn read_sessions(
    tx: &Transaction<'_>,
    selection: SessionSelection<'_>,
) -> Result<Vec<IndexedSession>, Failure> {
    static NUMBERS: Sql = Sql::new(
        select_sessions!("WHERE s.no = ANY($1) ORDER BY s.no"),
        &[Type::INT8_ARRAY],
    );
    static NAMED: Sql = Sql::new(
        select_sessions!(
            "JOIN unnest($1, $2) AS q (realm, key) ON q.realm = s.realm AND q.key = s.key"
        ),
        &[Type::BYTEA_ARRAY, Type::BYTEA_ARRAY],
    );
    static UNREAD: Sql = Sql::new(
        select_sessions!("WHERE s.stamp_0 = 0 AND s.stamp_1 = 0 ORDER BY s.no LIMIT $1"),
        &[Type::INT8],
    );
    static STAMPED: Sql = Sql::new(select_sessions!("WHERE s.stamp_1 = $1"), &[Type::INT8]);
    let fetched = match selection {
        SessionSelection::Within(reach) => {
            let mut statement = StatementBuilder::default();
            let within = statement.within(reach, "s.shard", "o.realm_no");
            let text = format!("{} WHERE {within} ORDER BY s.no", select_sessions!(""));
            tx.query_text(&text, statement.types(), &statement.params())?
        }
        SessionSelection::Numbers(_, numbers) => {
            let numbers: Vec<i64> = numbers.iter().map(|no| sql_int(*no)).collect();
            tx.query_all(&NUMBERS, &[&numbers])?
        }
        SessionSelection::Named(keys) => {
            let realms: Vec<&[u8]> = keys.iter().map(|(realm, _)| &**realm).collect();
            let keys: Vec<&[u8]> = keys.iter().map(|(_, key)| key.as_bytes()).collect();
            tx.query_all(&NAMED, &[&realms, &keys])?
        }
        SessionSelection::Unread(limit) => tx.query_all(&UNREAD, &[&sql_int(limit as u64)])?,
        SessionSelection::Stamped(second) => tx.query_all(&STAMPED, &[&second.cast_signed()])?,
    };
    fetched.iter().map(read_session).collect()
}

/// Counts the rows of the index. This takes some milliseconds for every ten thousand documents.
pub(super) fn read_status(tx: &Transaction<'_>) -> Result<IndexStatus, Failure> {
    static COUNTS: Sql = Sql::new(
        "SELECT (SELECT format::bigint FROM filrouge.search_state), (SELECT count(*) FROM filrouge.search_session),
             count(*), coalesce(sum(bytes), 0)::bigint,
             (SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c
              WHERE c.relnamespace = 'filrouge'::regnamespace AND c.relkind = 'r' AND starts_with(c.relname, 'search_'))
         FROM filrouge.search_document",
        &[],
    );
    static VECTORS: Sql = Sql::new(
        "SELECT embedder, count(*) FROM filrouge.search_vector GROUP BY embedder ORDER BY embedder",
        &[],
    );
    let row = tx.query_opt(&COUNTS, &[])?;
    let row = row.ok_or_else(|| malformed("state of the search index"))?;
    let vectors = tx.query_all(&VECTORS, &[])?;
    let vectors = vectors
        .iter()
        .map(|row| Ok((decode_text(bytes(row, 0)?)?, read_u64(row, 1)?)));
    Ok(IndexStatus {
        format: u32::try_from(read_u64(&row, 0)?).map_err(|_| malformed("format"))?,
        sessions: read_u64(&row, 1)?,
        documents: read_u64(&row, 2)?,
        text_bytes: read_u64(&row, 3)?,
        bytes: read_u64(&row, 4)?,
        pending: 0,
        vectors: vectors.collect::<Result<_, Failure>>()?,
    })
}

/// Makes PostgreSQL analyze the tables when they contain documents for the first time, if this role owns them. Without
/// statistics, the planner assumes that every shard is small, and scans it. After later changes autovacuum analyzes the
/// tables.
pub(super) fn analyze_if_new(tx: &Transaction<'_>) -> Result<(), Failure> {
    static IS_NEW: Sql = Sql::new(
        "SELECT reltuples < 0 AND pg_has_role(relowner, 'USAGE') AND EXISTS (SELECT FROM filrouge.search_document)
         FROM pg_class WHERE oid = 'filrouge.search_document'::regclass",
        &[],
    );
    let row = tx.query_opt(&IS_NEW, &[])?;
    if column(&row.ok_or_else(|| malformed("table"))?, 0)? {
        tx.run(
            "ANALYZE filrouge.search_document, filrouge.search_session, filrouge.search_vector",
        )?;
    }
    Ok(())
}
