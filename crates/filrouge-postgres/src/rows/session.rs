//! Reads the tables `session`, `head` and `session_agent`.

use std::collections::BTreeMap;

use filrouge_store::command::{Erased, Scope, SessionFilter, SessionSort, SessionToken, Viewer};
use filrouge_store::rows::{
    AgentRow, AgentsOf, HeadRow, SessionOrder, SessionPk, SessionRow, StoredSession,
    collect_until_full,
};
use filrouge_store::{Lane, Lanes};
use filrouge_types::{
    Failure, IdentityId, ProjectId, RawJson, Result, SessionId, SessionStatus, TenantId, Timestamp,
};
use tokio_postgres::types::{FromSql, Type};
use tokio_postgres::{Error, Row};

use super::{Rows, by_lane, bytes, column, read_u64, sql_int, sql_lane};
use crate::error::malformed;
use crate::session::{Param, Session, Sql};

/// A query for sessions `s` of lane `$1`, which `$sessions` selects, with their heads `h`. A head is read by a subquery
/// with a limit: for a mere join, PostgreSQL may decide to read all heads of the lane.
macro_rules! select_sessions {
    ($sessions:literal) => {
        concat!(
            "SELECT s.pk, s.tenant_id, s.session_id, s.identity_id, s.parent_session_id,
             s.project_id, s.team_id, s.title, s.status, s.state, s.metadata, s.created_at, h.data,
             s.token, s.erased, h.updated_at
             FROM ",
            $sessions,
            " LEFT JOIN LATERAL (SELECT h.data, h.updated_at FROM filrouge.head h
                 WHERE h.lane = $1 AND h.pk = s.pk LIMIT 1) h ON true"
        )
    };
}

/// Decodes a row that begins with the columns of `select_sessions`.
pub(crate) fn read_stored(row: &Row) -> Result<StoredSession> {
    decode(row).ok_or_else(|| match row.try_get::<_, &str>(2) {
        Ok(name) => Failure::integrity(name, None, "its row is malformed"),
        Err(_) => malformed("session"),
    })
}

fn read_column<'r, T: FromSql<'r>>(row: &'r Row, index: usize) -> Option<T> {
    row.try_get(index).ok()
}

/// Decodes a column of free text, which is stored as bytes.
fn read_text(row: &Row, index: usize) -> Option<Option<Box<str>>> {
    let bytes: Option<&[u8]> = read_column(row, index)?;
    let text = bytes.map(std::str::from_utf8).transpose().ok()?;
    Some(text.map(Into::into))
}

/// Decodes a row; `None` when a column has a value that filrouge cannot have written.
fn decode(row: &Row) -> Option<StoredSession> {
    let id = |i: usize| read_column::<&str>(row, i);
    let optional = |i: usize| read_column::<Option<&str>>(row, i);
    let pk = read_u64(row, 0).ok()?;
    let head = read_column::<Option<&[u8]>>(row, 12)?.and_then(HeadRow::decode);
    let token: Option<&[u8]> = read_column(row, 13)?;
    let erased: Option<&[u8]> = read_column(row, 14)?;
    let updated_at: Option<i64> = read_column(row, 15)?;
    let status: i16 = read_column(row, 8)?;
    let row = SessionRow {
        tenant_id: TenantId::new(id(1)?).ok()?,
        session_id: SessionId::new(id(2)?).ok()?,
        identity_id: optional(3)?.map(IdentityId::new).transpose().ok()?,
        parent_session_id: optional(4)?.map(SessionId::new).transpose().ok()?,
        project_id: optional(5)?.map(ProjectId::new).transpose().ok()?,
        team_id: read_text(row, 6)?,
        title: read_text(row, 7)?,
        status: SessionStatus::from_code(u8::try_from(status).ok()?)?,
        state: read_text(row, 9)?,
        metadata: RawJson::from_checked(read_text(row, 10)??),
        created_at: Timestamp::from_micros(read_column(row, 11)?),
        token: match token {
            Some(bytes) => Some(SessionToken(bytes.try_into().ok()?)),
            None => None,
        },
        erased: match erased {
            Some(bytes) => Some(Erased::decode(bytes)?),
            None => None,
        },
    };
    Some(StoredSession {
        pk,
        row,
        head,
        updated_at: updated_at.map_or(StoredSession::UNKNOWN_TIME, Timestamp::from_micros),
    })
}

/// Reads a session by its id, if the viewer may see it, with its newest seq (column 16). The query checks the owner
/// only if `$4` is true. The subquery reads the first session at or after the id, so that PostgreSQL can use only one
/// index.
pub(crate) static BY_ID: Sql = Sql::new(
    "SELECT s.pk, s.tenant_id, s.session_id, s.identity_id, s.parent_session_id,
     s.project_id, s.team_id, s.title, s.status, s.state, s.metadata, s.created_at, h.data,
     s.token, s.erased, h.updated_at,
         (SELECT LEAST(GREATEST(r.first_seq, 0), 1::bigint << 62) + LEAST(GREATEST(r.count, 1), 1::bigint << 62) - 1
          FROM filrouge.record r WHERE r.lane = $1 AND r.session_pk = s.pk
          ORDER BY r.first_seq DESC LIMIT 1)
     FROM (SELECT * FROM filrouge.session s
         WHERE s.lane = $1 AND s.tenant_id = $2 AND s.session_id >= $3 ORDER BY s.session_id LIMIT 1) s
     LEFT JOIN LATERAL (SELECT h.data, h.updated_at FROM filrouge.head h
         WHERE h.lane = $1 AND h.pk = s.pk LIMIT 1) h ON true
     WHERE s.session_id = $3 AND (NOT $4 OR s.identity_id = $5
         OR s.identity_id IS NULL AND (s.token IS NULL OR s.token = $6))",
    &[
        Type::INT2,
        Type::TEXT,
        Type::TEXT,
        Type::BOOL,
        Type::TEXT,
        Type::BYTEA,
    ],
);

/// A lookup of a session by its tenant and id.
#[derive(PartialEq, Eq)]
pub(crate) struct SessionLookup {
    /// The session's lane.
    lane: Lane,
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
    pub(crate) fn new(
        lanes: Lanes,
        tenant: &TenantId,
        id: &SessionId,
        scope: Option<&Scope>,
    ) -> Self {
        Self {
            lane: lanes.of_session(tenant, id),
            tenant: tenant.clone(),
            id: id.clone(),
            checks_owner: scope.is_some_and(|s| s.viewer != Viewer::Operator),
            identity: scope.and_then(|s| s.viewer.identity()).cloned(),
            token: scope.and_then(|s| s.token).map(|t| t.0.to_vec()),
        }
    }

    /// Runs [`BY_ID`]. The caller decodes the row with [`read_stored`].
    pub(crate) async fn query(&self, session: &Session) -> Result<Option<Row>, Error> {
        let (lane, tenant, id) = (sql_lane(self.lane), self.tenant.as_str(), self.id.as_str());
        let identity = self.identity.as_ref().map(IdentityId::as_str);
        let params: [Param<'_>; 6] = [
            &lane,
            &tenant,
            &id,
            &self.checks_owner,
            &identity,
            &self.token,
        ];
        let fetched = session.query(&BY_ID, &params).await?;
        Ok(fetched.into_iter().next())
    }
}

pub(super) fn by_id(rows: &Rows<'_>, lookup: &SessionLookup) -> Result<Option<StoredSession>> {
    let query = rows.session.with_answer_timeout(lookup.query(rows.session));
    let fetched = rows.driver.wait(query)?;
    fetched.as_ref().map(read_stored).transpose()
}

/// Reads the sessions with these numbers, which are grouped by the lane, in one round trip. The subquery reads the first
/// session at or after a number, so that PostgreSQL can use only one index.
pub(super) fn by_pks(rows: &Rows<'_>, pks: &BTreeMap<i16, Vec<i64>>) -> Result<Vec<Row>> {
    static SQL: Sql = Sql::new(
        select_sessions!(
            "unnest($2) AS q (pk) JOIN LATERAL (SELECT * FROM filrouge.session s
                 WHERE s.lane = $1 AND s.pk >= q.pk ORDER BY s.pk LIMIT 1) s ON s.pk = q.pk"
        ),
        &[Type::INT2, Type::INT8_ARRAY],
    );
    let executions: Vec<Vec<Param<'_>>> = pks
        .iter()
        .map(|(lane, pks)| vec![lane as Param<'_>, pks])
        .collect();
    let fetched = rows.wait(rows.session.query_each(&SQL, &executions))?;
    Ok(fetched.into_iter().flatten().collect())
}

pub(super) fn by_pk(rows: &Rows<'_>, pk: SessionPk) -> Result<Option<StoredSession>> {
    let found = by_pks(rows, &by_lane(rows.lanes, std::iter::once(pk)))?;
    found.first().map(read_stored).transpose()
}

/// The maximum number of sessions that one query of [`for_each`] reads.
const SESSIONS_PER_QUERY: usize = 1000;

pub(super) fn for_each(
    rows: &Rows<'_>,
    visit: &mut dyn FnMut(SessionPk, Option<StoredSession>),
) -> Result<()> {
    static ALL: Sql = Sql::new(
        select_sessions!(
            "(SELECT * FROM filrouge.session s WHERE s.lane = $1 AND s.pk > $2 ORDER BY s.pk LIMIT $3) s"
        ),
        &[Type::INT2, Type::INT8, Type::INT8],
    );
    // The heads without a session.
    static HEADS: Sql = Sql::new(
        "SELECT h.pk FROM filrouge.head h LEFT JOIN LATERAL (SELECT s.pk FROM filrouge.session s
             WHERE s.lane = $1 AND s.pk >= h.pk ORDER BY s.pk LIMIT 1) s ON true
         WHERE h.lane = $1 AND h.pk > $2 AND s.pk IS DISTINCT FROM h.pk ORDER BY h.pk LIMIT $3",
        &[Type::INT2, Type::INT8, Type::INT8],
    );
    let queries = rows.lanes.iter().map(sql_lane);
    let queries = queries.flat_map(|lane| [(lane, &ALL, true), (lane, &HEADS, false)]);
    for (lane, sql, has_row) in queries {
        let mut after = i64::MIN;
        loop {
            let max_rows = sql_int(SESSIONS_PER_QUERY as u64);
            let fetched = rows.query_all(sql, &[&lane, &after, &max_rows])?;
            for row in &fetched {
                let stored = if has_row { read_stored(row).ok() } else { None };
                let pk: i64 = column(row, 0)?;
                after = after.max(pk);
                // filrouge assigns no negative session numbers. The cast turns a negative number into one that no
                // session has.
                visit(pk.cast_unsigned(), stored);
            }
            if fetched.len() < SESSIONS_PER_QUERY {
                break;
            }
        }
    }
    Ok(())
}

/// SQL for a session's title with ASCII letters in lower case. The title is stored as bytes, because it may contain NUL
/// characters, which a text column cannot.
const LOWER_TITLE: &str =
    "decode(lower(encode(coalesce(s.title, ''), 'escape') COLLATE \"C\"), 'escape')";

/// The SQL conditions of a list in lane `$1`, with the types and values of the parameters after the lane.
#[derive(Default)]
struct Conditions<'a> {
    text: String,
    types: Vec<Type>,
    params: Vec<Param<'a>>,
}

impl<'a> Conditions<'a> {
    /// Adds a condition. Each `?` in it becomes the placeholder of `value`.
    fn add(&mut self, condition: &str, kind: Type, value: Param<'a>) {
        let placeholder = self.bind(kind, value);
        self.text.push_str(" AND ");
        self.text.push_str(&condition.replace('?', &placeholder));
    }

    /// Adds a parameter, and returns its placeholder.
    fn bind(&mut self, kind: Type, value: Param<'a>) -> String {
        self.types.push(kind);
        self.params.push(value);
        format!("${}", self.params.len() + 1)
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
    before: Option<SessionOrder>,
    limit: usize,
) -> Result<Vec<StoredSession>> {
    let (before_at, before_pk) = before.map_or((i64::MAX, i64::MAX), |(at, pk)| {
        (at.as_micros(), sql_int(pk))
    });
    let max_rows = sql_int(limit as u64);
    let tenant = scope.tenant.as_str();
    let viewer = scope.viewer.identity().map(IdentityId::as_str);
    let token = scope.token.map(|t| t.0.to_vec());
    let agent = filter.agent.as_deref();
    let is_pattern = |agent: &&str| agent.contains('*');
    let pattern = agent.filter(is_pattern).map(like_pattern);
    let pattern = pattern.as_deref().map(str::as_bytes);
    let agent = agent.filter(|agent| !is_pattern(agent)).map(str::as_bytes);
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
    conditions.add("s.tenant_id = ?", Type::TEXT, &tenant);
    let (heads, at, pk) = match filter.order {
        SessionSort::Created => ("", "s.created_at", "s.pk"),
        SessionSort::Updated => {
            let heads = " JOIN filrouge.head h ON h.lane = $1 AND h.pk = s.pk";
            (heads, "h.updated_at", "h.pk")
        }
    };
    let pk_param = conditions.bind(Type::INT8, &before_pk);
    let before_condition = format!("({at}, {pk}) < (?, {pk_param})");
    conditions.add(&before_condition, Type::INT8, &before_at);
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
    let agent_condition = "s.pk IN (SELECT session_pk FROM filrouge.session_agent
         WHERE lane = $1 AND sha256(agent) = sha256(?) AND agent = ?)";
    conditions.add_if(agent_condition, Type::BYTEA, &agent);
    let pattern_condition =
        "s.pk IN (SELECT session_pk FROM filrouge.session_agent WHERE lane = $1 AND agent LIKE ?)";
    conditions.add_if(pattern_condition, Type::BYTEA, &pattern);
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
    let limit_param = conditions.bind(Type::INT8, &max_rows);
    let Conditions {
        text,
        types,
        params,
    } = conditions;
    // Only positions are read from each lane, so that no more entire rows are read, or sorted, than the page has.
    let sql = format!(
        "SELECT {at}, s.pk, s.lane FROM filrouge.session s{heads} WHERE s.lane = $1 AND s.erased IS NULL{text}
         ORDER BY {at} DESC, {pk} DESC LIMIT {limit_param}"
    );
    let fetched = rows.query_lanes_text(&sql, &types, &params)?;
    let position =
        |row: &Row| Ok::<_, Failure>((column(row, 0)?, column(row, 1)?, column(row, 2)?));
    let positions = fetched.iter().flatten().map(position);
    let mut found: Vec<(i64, i64, i16)> = positions.collect::<Result<_, _>>()?;
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.truncate(limit);
    page(rows, &found)
}

/// The pattern for LIKE in which each `*` is any text, and all other characters mean themselves.
fn like_pattern(pattern: &str) -> String {
    let escaped = pattern.replace('\\', "\\\\").replace('%', "\\%");
    escaped.replace('_', "\\_").replace('*', "%")
}

/// Reads the agents of these sessions in one round trip.
pub(super) fn agents(rows: &Rows<'_>, pks: &[SessionPk]) -> Result<AgentsOf> {
    static SQL: Sql = Sql::new(
        "SELECT session_pk, agent, data FROM filrouge.session_agent WHERE lane = $1 AND session_pk = ANY($2)",
        &[Type::INT2, Type::INT8_ARRAY],
    );
    let pks = by_lane(rows.lanes, pks.iter().copied());
    let executions: Vec<Vec<Param<'_>>> = pks
        .iter()
        .map(|(lane, pks)| vec![lane as Param<'_>, pks])
        .collect();
    let fetched = rows.wait(rows.session.query_each(&SQL, &executions))?;
    let mut agents = AgentsOf::new();
    for row in fetched.iter().flatten() {
        let (agent, data) = (std::str::from_utf8(bytes(row, 1)?), bytes(row, 2)?);
        let agent = agent.ok().and_then(|agent| AgentRow::decode(agent, data));
        agents.entry(read_u64(row, 0)?).or_default().push(agent);
    }
    Ok(agents)
}

/// Reads the sessions at these positions, which are a time, the number and the lane, in their order.
fn page(rows: &Rows<'_>, positions: &[(i64, i64, i16)]) -> Result<Vec<StoredSession>> {
    let mut pks = BTreeMap::<i16, Vec<i64>>::new();
    for (_, pk, lane) in positions {
        pks.entry(*lane).or_default().push(*pk);
    }
    let mut sessions = BTreeMap::<i64, Row>::new();
    for row in by_pks(rows, &pks)? {
        sessions.insert(column(&row, 0)?, row);
    }
    let sessions = positions.iter().filter_map(|(_, pk, _)| sessions.get(pk));
    collect_until_full(sessions.map(read_stored), |s| s.row.content_len())
}
