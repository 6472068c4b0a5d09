//! Reads the tables `session`, `head` and `session_agent`.

use filrouge_store::command::{Erased, Scope, SessionFilter, SessionToken, Viewer};
use filrouge_store::rows::{HeadRow, SessionPk, SessionRow, StoredSession, collect_until_full};
use filrouge_types::{
    Failure, IdError, IdentityId, ProjectId, RawJson, SessionId, SessionStatus, TenantId, Timestamp,
};
use tokio_postgres::types::{FromSql, Type};
use tokio_postgres::{Error, Row};

use super::{Rows, column, read_u64, sql_int};
use crate::error::{failure, malformed};
use crate::session::{Param, Session, Sql};

/// The columns of a session `s` and its head `h`.
pub(crate) const SESSION_COLUMNS: &str =
    "s.pk, s.tenant_id, s.session_id, s.identity_id, s.parent_session_id,
     s.project_id, s.team_id, s.title, s.status, s.state, s.metadata, s.created_at, h.data,
     s.token, s.erased";

macro_rules! select_session {
    ($condition:literal) => {
        concat!(
            "SELECT s.pk, s.tenant_id, s.session_id, s.identity_id, s.parent_session_id,
             s.project_id, s.team_id, s.title, s.status, s.state, s.metadata, s.created_at, h.data,
             s.token, s.erased
             FROM filrouge.session s LEFT JOIN filrouge.head h ON h.pk = s.pk ",
            $condition
        )
    };
}

/// Decodes a row that begins with [`SESSION_COLUMNS`].
pub(crate) fn read_stored(row: &Row) -> Result<StoredSession, Failure> {
    decode(row).map_err(|MalformedRow| match row.try_get::<_, &str>(2) {
        Ok(name) => Failure::integrity(name, None, "its row is malformed"),
        Err(_) => malformed("session"),
    })
}

/// The error for a column whose value filrouge cannot have written.
struct MalformedRow;

impl From<IdError> for MalformedRow {
    fn from(_: IdError) -> Self {
        Self
    }
}

impl From<Failure> for MalformedRow {
    fn from(_: Failure) -> Self {
        Self
    }
}

fn read_column<'r, T: FromSql<'r>>(row: &'r Row, index: usize) -> Result<T, MalformedRow> {
    row.try_get(index).map_err(|_| MalformedRow)
}

/// Decodes a column of free text, which is stored as bytes.
fn read_text(row: &Row, index: usize) -> Result<Option<Box<str>>, MalformedRow> {
    let bytes: Option<&[u8]> = read_column(row, index)?;
    let text = bytes.map(|b| std::str::from_utf8(b).map_err(|_| MalformedRow));
    Ok(text.transpose()?.map(Into::into))
}

fn decode(row: &Row) -> Result<StoredSession, MalformedRow> {
    let id = |i: usize| read_column::<&str>(row, i);
    let optional = |i: usize| read_column::<Option<&str>>(row, i);
    let pk = read_u64(row, 0)?;
    let head = read_column::<Option<&[u8]>>(row, 12)?.and_then(HeadRow::decode);
    let token: Option<&[u8]> = read_column(row, 13)?;
    let erased: Option<&[u8]> = read_column(row, 14)?;
    let status: i16 = read_column(row, 8)?;
    let row = SessionRow {
        tenant_id: TenantId::new(id(1)?)?,
        session_id: SessionId::new(id(2)?)?,
        identity_id: optional(3)?.map(IdentityId::new).transpose()?,
        parent_session_id: optional(4)?.map(SessionId::new).transpose()?,
        project_id: optional(5)?.map(ProjectId::new).transpose()?,
        team_id: read_text(row, 6)?,
        title: read_text(row, 7)?,
        status: u8::try_from(status)
            .ok()
            .and_then(SessionStatus::from_code)
            .ok_or(MalformedRow)?,
        state: read_text(row, 9)?,
        metadata: RawJson::from_checked(read_text(row, 10)?.ok_or(MalformedRow)?),
        created_at: Timestamp::from_micros(read_column(row, 11)?),
        token: match token {
            Some(bytes) => Some(SessionToken(bytes.try_into().map_err(|_| MalformedRow)?)),
            None => None,
        },
        erased: match erased {
            Some(bytes) => Some(Erased::decode(bytes).ok_or(MalformedRow)?),
            None => None,
        },
    };
    Ok(StoredSession { pk, row, head })
}

/// Reads a session by its id, if the viewer may see it, with its newest seq (column 15). The query checks the owner
/// only if `$3` is true. The subquery reads the first session at or after the id, so that PostgreSQL can use only one
/// index.
pub(crate) static BY_ID: Sql = Sql::new(
    "SELECT s.pk, s.tenant_id, s.session_id, s.identity_id, s.parent_session_id,
     s.project_id, s.team_id, s.title, s.status, s.state, s.metadata, s.created_at, h.data,
     s.token, s.erased,
         (SELECT LEAST(GREATEST(r.first_seq, 0), 1::bigint << 62) + LEAST(GREATEST(r.count, 1), 1::bigint << 62) - 1
          FROM filrouge.record r WHERE r.session_pk = s.pk
          ORDER BY r.first_seq DESC LIMIT 1)
     FROM (SELECT * FROM filrouge.session s
         WHERE s.tenant_id = $1 AND s.session_id >= $2 ORDER BY s.session_id LIMIT 1) s
     LEFT JOIN filrouge.head h ON h.pk = s.pk
     WHERE s.session_id = $2 AND (NOT $3 OR s.identity_id = $4
         OR s.identity_id IS NULL AND (s.token IS NULL OR s.token = $5))",
    &[Type::TEXT, Type::TEXT, Type::BOOL, Type::TEXT, Type::BYTEA],
);

/// A lookup of a session by its tenant and id.
#[derive(PartialEq, Eq)]
pub(crate) struct SessionLookup {
    tenant: TenantId,
    id: SessionId,
    /// Whether to check the owner: false without a scope, and for the operator, who may see all sessions.
    checks_owner: bool,
    /// The identity of the viewer.
    identity: Option<IdentityId>,
    /// The token of an anonymous session that the viewer has shown.
    token: Option<Vec<u8>>,
}

impl SessionLookup {
    pub(crate) fn new(tenant: &TenantId, id: &SessionId, scope: Option<&Scope>) -> Self {
        Self {
            tenant: tenant.clone(),
            id: id.clone(),
            checks_owner: scope.is_some_and(|s| s.viewer != Viewer::Operator),
            identity: scope.and_then(|s| s.viewer.identity()).cloned(),
            token: scope.and_then(|s| s.token).map(|t| t.0.to_vec()),
        }
    }

    /// Runs [`BY_ID`]. The caller decodes the row with [`read_stored`].
    pub(crate) async fn query(&self, session: &Session) -> Result<Option<Row>, Error> {
        let (tenant, id) = (self.tenant.as_str(), self.id.as_str());
        let identity = self.identity.as_ref().map(IdentityId::as_str);
        let params: [Param<'_>; 5] = [&tenant, &id, &self.checks_owner, &identity, &self.token];
        let fetched = session.query(&BY_ID, &params).await?;
        Ok(fetched.into_iter().next())
    }
}

pub(super) fn by_id(
    rows: &Rows<'_>,
    lookup: &SessionLookup,
) -> Result<Option<StoredSession>, Failure> {
    let query = rows.session.with_answer_timeout(lookup.query(rows.session));
    let fetched = rows.driver.wait(query)?;
    fetched.as_ref().map(read_stored).transpose()
}

/// Reads the sessions with these numbers, in one query.
pub(super) fn by_pks(rows: &Rows<'_>, pks: &[i64]) -> Result<Vec<Row>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT s.pk, s.tenant_id, s.session_id, s.identity_id, s.parent_session_id,
         s.project_id, s.team_id, s.title, s.status, s.state, s.metadata, s.created_at, h.data,
         s.token, s.erased
         FROM unnest($1) AS q (pk) JOIN filrouge.session s ON s.pk = q.pk LEFT JOIN filrouge.head h ON h.pk = s.pk",
        &[Type::INT8_ARRAY],
    );
    rows.query_all(&SQL, &[&pks])
}

pub(super) fn by_pk(rows: &Rows<'_>, pk: SessionPk) -> Result<Option<StoredSession>, Failure> {
    static SQL: Sql = Sql::new(select_session!("WHERE s.pk = $1"), &[Type::INT8]);
    rows.query_opt(&SQL, &[&sql_int(pk)])?
        .as_ref()
        .map(read_stored)
        .transpose()
}

/// The maximum number of sessions that one query of [`for_each`] reads.
const SESSIONS_PER_QUERY: usize = 1000;

pub(super) fn for_each(
    rows: &Rows<'_>,
    visit: &mut dyn FnMut(SessionPk, Option<StoredSession>),
) -> Result<(), Failure> {
    static ALL: Sql = Sql::new(
        select_session!("WHERE s.pk > $1 ORDER BY s.pk LIMIT $2"),
        &[Type::INT8, Type::INT8],
    );
    static HEADS: Sql = Sql::new(
        "SELECT h.pk FROM filrouge.head h LEFT JOIN filrouge.session s ON s.pk = h.pk
         WHERE h.pk > $1 AND s.pk IS NULL ORDER BY h.pk LIMIT $2",
        &[Type::INT8, Type::INT8],
    );
    for (sql, has_row) in [(&ALL, true), (&HEADS, false)] {
        let mut after = i64::MIN;
        loop {
            let fetched = rows.query_all(sql, &[&after, &sql_int(SESSIONS_PER_QUERY as u64)])?;
            for row in &fetched {
                let stored = if has_row { read_stored(row).ok() } else { None };
                after = column(row, 0)?;
                // filrouge assigns no negative session numbers. The cast turns a negative number into one that no
                // session has.
                visit(after.cast_unsigned(), stored);
            }
            if fetched.len() < SESSIONS_PER_QUERY {
                break;
            }
        }
    }
    Ok(())
}

/// Reads the agents of a session, ordered by their bytes.
pub(super) fn agents(rows: &Rows<'_>, pk: SessionPk) -> Result<Vec<Box<str>>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT agent FROM filrouge.session_agent WHERE session_pk = $1 ORDER BY agent",
        &[Type::INT8],
    );
    let fetched = rows.query_all(&SQL, &[&sql_int(pk)])?;
    let read = |row: &Row| match read_text(row, 0) {
        Ok(Some(agent)) => Ok(agent),
        _ => Err(malformed("agent")),
    };
    fetched.iter().map(read).collect()
}

/// SQL for a session's title with ASCII letters in lower case. The title is stored as bytes, because it may contain NUL
/// characters, which a text column cannot.
const LOWER_TITLE: &str =
    "decode(lower(encode(coalesce(s.title, ''), 'escape') COLLATE \"C\"), 'escape')";

/// The SQL conditions of a list, with the types and values of their parameters.
#[derive(Default)]
struct Conditions<'a> {
    text: String,
    types: Vec<Type>,
    params: Vec<Param<'a>>,
}

impl<'a> Conditions<'a> {
    /// Adds a condition. Each `?` in it becomes the placeholder of `value`.
    fn add(&mut self, condition: &str, kind: Type, value: Param<'a>) {
        let placeholder = format!("${}", self.params.len() + 1);
        self.text.push_str(" AND ");
        self.text.push_str(&condition.replace('?', &placeholder));
        self.types.push(kind);
        self.params.push(value);
    }

    /// Adds a condition if there is a value.
    fn add_if<T: tokio_postgres::types::ToSql + Sync>(
        &mut self,
        condition: &str,
        kind: Type,
        value: &'a Option<T>,
    ) {
        if let Some(value) = value {
            self.add(condition, kind, value);
        }
    }
}

/// Reads a page of the sessions that `scope` lists, newest first. The page ends early if its rows are large.
pub(super) fn list(
    rows: &Rows<'_>,
    scope: &Scope,
    filter: &SessionFilter,
    before: Option<SessionPk>,
    limit: usize,
) -> Result<Vec<StoredSession>, Failure> {
    let before = before.map_or(i64::MAX, sql_int);
    let limit = sql_int(limit as u64);
    let tenant = scope.tenant.as_str();
    let viewer = scope.viewer.identity().map(IdentityId::as_str);
    let token = scope.token.map(|t| t.0.to_vec());
    let agent = filter.agent.as_deref().map(str::as_bytes);
    let project = filter.project_id.as_ref().map(ProjectId::as_str);
    let team = filter.team_id.as_deref().map(str::as_bytes);
    let identity = filter.identity_id.as_ref().map(IdentityId::as_str);
    let status = filter.status.map(|s| i16::from(s.code()));
    let since = filter.since.map(Timestamp::as_micros);
    let until = filter.until.map(Timestamp::as_micros);
    let parent = filter.parent_session_id.as_ref().map(SessionId::as_str);
    let title = filter.title.as_deref().map(str::to_ascii_lowercase);
    let title = title.as_deref().map(str::as_bytes);
    let mut conditions = Conditions::default();
    conditions.add("s.pk < ?", Type::INT8, &before);
    conditions.add("s.tenant_id = ?", Type::TEXT, &tenant);
    match &scope.viewer {
        Viewer::Operator => {}
        Viewer::EndUser(Some(_)) => conditions.add_if("s.identity_id = ?", Type::TEXT, &viewer),
        Viewer::EndUser(None) => match &token {
            Some(token) => {
                conditions.add("s.identity_id IS NULL AND s.token = ?", Type::BYTEA, token);
            }
            None => conditions
                .text
                .push_str(" AND s.identity_id IS NULL AND s.token IS NULL"),
        },
    }
    let agent_condition = "s.pk IN (SELECT session_pk FROM filrouge.session_agent WHERE sha256(agent) = sha256(?) AND agent = ?)";
    conditions.add_if(agent_condition, Type::BYTEA, &agent);
    conditions.add_if("s.parent_session_id = ?", Type::TEXT, &parent);
    conditions.add_if("s.identity_id = ?", Type::TEXT, &identity);
    conditions.add_if("s.project_id = ?", Type::TEXT, &project);
    conditions.add_if("s.team_id = ?", Type::BYTEA, &team);
    conditions.add_if("s.status = ?", Type::INT2, &status);
    conditions.add_if("s.created_at >= ?", Type::INT8, &since);
    conditions.add_if("s.created_at < ?", Type::INT8, &until);
    conditions.add_if(
        &format!("position(? IN {LOWER_TITLE}) > 0"),
        Type::BYTEA,
        &title,
    );
    let Conditions {
        text,
        mut types,
        mut params,
    } = conditions;
    types.push(Type::INT8);
    params.push(&limit);
    // The subquery selects only numbers: if PostgreSQL must sort them, it does not sort entire rows with their
    // metadata.
    let sql = format!(
        "SELECT {SESSION_COLUMNS} FROM filrouge.session s LEFT JOIN filrouge.head h ON h.pk = s.pk
         WHERE s.pk IN (SELECT s.pk FROM filrouge.session s WHERE s.erased IS NULL{text}
                        ORDER BY s.pk DESC LIMIT ${})
         ORDER BY s.pk DESC",
        params.len()
    );
    page(rows, &sql, &types, &params)
}

fn page(
    rows: &Rows<'_>,
    sql: &str,
    types: &[Type],
    params: &[Param<'_>],
) -> Result<Vec<StoredSession>, Failure> {
    let query = rows.session.query_text(sql, types, params);
    let fetched = rows.driver.wait(query).map_err(|e| failure(&e))?;
    collect_until_full(fetched.iter().map(read_stored), |s| s.row.content_len())
}
