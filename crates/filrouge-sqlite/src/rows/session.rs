//! The table `session`.

use std::borrow::Cow;

use filrouge_store::command::{Erased, Scope, SessionFilter, SessionSort, SessionToken, Viewer};
use filrouge_store::rows::{
    AgentRow, AgentsOf, HeadRow, SessionOrder, SessionPk, SessionRow, StoredSession, View,
    collect_until_full,
};
use filrouge_types::{
    Failure, IdError, IdentityId, ProjectId, RawJson, SessionId, SessionStatus, TenantId, Timestamp,
};
use rusqlite::{Row, named_params, params};

use super::{Rows, read_u64, sql_int};
use crate::error::malformed;

/// The time of the last activity, by which lists are ordered: a column of the head of the same tenant.
macro_rules! updated_at {
    () => {
        "CASE WHEN h.tenant_id = s.tenant_id THEN h.updated_at ELSE -1 END"
    };
}

pub(super) const SESSION_COLUMNS: &str = concat!(
    "s.pk, s.tenant_id, s.session_id, s.identity_id, s.parent_session_id,
    s.project_id, s.team_id, s.title, s.status, s.state, s.metadata, s.created_at, h.data,
    s.token, s.erased, ",
    updated_at!()
);

/// Decodes one row of [`SESSION_COLUMNS`]; the inner failure reports a row that filrouge cannot have written.
pub(super) fn read_stored(row: &Row<'_>) -> rusqlite::Result<Result<StoredSession, Failure>> {
    Ok(read(row).map_err(|_| match row.get::<_, String>(2) {
        Ok(name) => Failure::integrity(&name, None, "its row is malformed"),
        Err(_) => malformed("session"),
    }))
}

/// The error for a row with a value that filrouge cannot have written.
struct MalformedRow;

impl From<IdError> for MalformedRow {
    fn from(_: IdError) -> Self {
        Self
    }
}

impl From<rusqlite::Error> for MalformedRow {
    fn from(_: rusqlite::Error) -> Self {
        Self
    }
}

fn read(row: &Row<'_>) -> Result<StoredSession, MalformedRow> {
    let text = |i: usize| row.get::<_, String>(i);
    let optional = |i: usize| row.get::<_, Option<String>>(i);
    let pk = read_u64(row, 0)?;
    let head = row.get_ref(12)?.as_blob().ok().and_then(HeadRow::decode);
    let updated_at = Timestamp::from_micros(row.get(15)?);
    let row = SessionRow {
        tenant_id: TenantId::new(text(1)?)?,
        session_id: SessionId::new(text(2)?)?,
        identity_id: optional(3)?.map(IdentityId::new).transpose()?,
        parent_session_id: optional(4)?.map(SessionId::new).transpose()?,
        project_id: optional(5)?.map(ProjectId::new).transpose()?,
        team_id: optional(6)?.map(Into::into),
        title: optional(7)?.map(Into::into),
        status: SessionStatus::from_code(row.get(8)?).ok_or(MalformedRow)?,
        state: optional(9)?.map(Into::into),
        metadata: RawJson::from_checked(text(10)?),
        created_at: Timestamp::from_micros(row.get(11)?),
        token: row.get::<_, Option<_>>(13)?.map(SessionToken),
        erased: match row.get::<_, Option<Vec<u8>>>(14)? {
            Some(bytes) => Some(Erased::decode(&bytes).ok_or(MalformedRow)?),
            None => None,
        },
    };
    Ok(StoredSession {
        pk,
        row,
        head,
        updated_at,
    })
}

pub(super) fn insert(rows: &Rows<'_>, row: &SessionRow) -> Result<SessionPk, Failure> {
    let sql = "INSERT INTO session (tenant_id, session_id, identity_id, parent_session_id, project_id, team_id,
            title, status, state, metadata, created_at, token, erased)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
    rows.execute(
        sql,
        params![
            row.tenant_id.as_str(),
            row.session_id.as_str(),
            row.identity_id.as_ref().map(IdentityId::as_str),
            row.parent_session_id.as_ref().map(SessionId::as_str),
            row.project_id.as_ref().map(ProjectId::as_str),
            row.team_id.as_deref(),
            row.title.as_deref(),
            row.status.code(),
            row.state.as_deref(),
            row.metadata.as_str(),
            row.created_at.as_micros(),
            row.token.map(|t| t.0),
            row.erased.map(|e| e.encode()),
        ],
    )?;
    Ok(rows.conn.last_insert_rowid().unsigned_abs())
}

/// Writes all columns of a session's row that can change.
pub(super) fn update(rows: &Rows<'_>, pk: SessionPk, row: &SessionRow) -> Result<(), Failure> {
    let sql = "UPDATE session SET identity_id = ?2, parent_session_id = ?3, project_id = ?4, team_id = ?5,
            title = ?6, status = ?7, state = ?8, metadata = ?9, token = ?10, erased = ?11
         WHERE pk = ?1";
    rows.execute(
        sql,
        params![
            sql_int(pk),
            row.identity_id.as_ref().map(IdentityId::as_str),
            row.parent_session_id.as_ref().map(SessionId::as_str),
            row.project_id.as_ref().map(ProjectId::as_str),
            row.team_id.as_deref(),
            row.title.as_deref(),
            row.status.code(),
            row.state.as_deref(),
            row.metadata.as_str(),
            row.token.map(|t| t.0),
            row.erased.map(|e| e.encode()),
        ],
    )
}

/// Returns the SQL of a list. It contains every parameter, whichever filters are set, so that all can be bound. A
/// condition for which an index exists contains no OR, because SQLite would then not use the index.
fn list_sql(scope: &Scope, filter: &SessionFilter) -> String {
    let owner = match &scope.viewer {
        Viewer::Operator => "(:viewer IS NULL OR true) AND (:token IS NULL OR true)",
        Viewer::EndUser(Some(_)) => "s.identity_id = :viewer AND (:token IS NULL OR true)",
        Viewer::EndUser(None) => "s.identity_id IS :viewer AND s.token IS :token",
    };
    let agent = match &filter.agent {
        Some(agent) if agent.contains('*') => {
            "s.pk IN (SELECT session_pk FROM session_agent WHERE agent GLOB :agent)"
        }
        Some(_) => "s.pk IN (SELECT session_pk FROM session_agent WHERE agent = :agent)",
        None => ":agent IS NULL",
    };
    let identity = match &filter.identity_id {
        Some(_) => "s.identity_id = :identity",
        None => ":identity IS NULL",
    };
    let parent = match &filter.parent_session_id {
        Some(_) => "s.parent_session_id = :parent",
        None => ":parent IS NULL",
    };
    // Sessions of an agent are found by its own list, not by one of the tenant's sessions.
    let tenant = match &filter.agent {
        Some(_) => "+s.tenant_id = :tenant",
        None => "s.tenant_id = :tenant",
    };
    // By last activity, the tenant's heads are read in order. Where few sessions are listed, they are found by their own
    // index, and sorted.
    let lists_few = filter.agent.is_some()
        || filter.identity_id.is_some()
        || filter.parent_session_id.is_some()
        || scope.viewer.identity().is_some()
        || scope.viewer != Viewer::Operator && scope.token.is_some();
    let (tables, tenant, at, pk) = match filter.order {
        SessionSort::Created => ("session s", tenant, "s.created_at", "s.pk"),
        SessionSort::Updated if lists_few => {
            let tables = "session s LEFT JOIN head h ON h.pk = s.pk";
            (tables, tenant, updated_at!(), "s.pk")
        }
        SessionSort::Updated => {
            let tables = "head h CROSS JOIN session s ON s.pk = h.pk";
            let tenant = "h.tenant_id = :tenant AND +s.tenant_id = :tenant";
            (tables, tenant, "h.updated_at", "h.pk")
        }
    };
    // Selects numbers only: if SQLite has to sort, it sorts no rows with metadata.
    format!(
        "SELECT s.pk FROM {tables}
         WHERE {tenant} AND {owner} AND ({at}, {pk}) < (:before_time, :before_pk)
         AND s.erased IS NULL AND {agent} AND {parent} AND {identity}
         AND (:project IS NULL OR s.project_id = :project)
         AND (:team IS NULL OR s.team_id = :team)
         AND (:status IS NULL OR s.status = :status)
         AND (:since IS NULL OR s.created_at >= :since)
         AND (:until IS NULL OR s.created_at < :until)
         AND (:title IS NULL OR instr(lower(coalesce(s.title, '')), lower(:title)) > 0)
         ORDER BY {at} DESC, {pk} DESC LIMIT :limit"
    )
}

/// An agent's name; if it has `*`, a pattern for GLOB in which all other characters mean themselves.
fn agent_or_glob(agent: &str) -> Cow<'_, str> {
    match agent.contains('*') {
        true => Cow::Owned(agent.replace('[', "[[]").replace('?', "[?]")),
        false => Cow::Borrowed(agent),
    }
}

/// The sessions that `scope` and `filter` select, in the filter's order, after the position `before`; ends like
/// [`collect_until_full`].
pub(super) fn list(
    rows: &Rows<'_>,
    scope: &Scope,
    filter: &SessionFilter,
    before: Option<SessionOrder>,
    limit: usize,
) -> Result<Vec<StoredSession>, Failure> {
    let numbers: Vec<SessionPk> = rows.query_all(
        &list_sql(scope, filter),
        named_params! {
            ":tenant": scope.tenant.as_str(),
            ":viewer": scope.viewer.identity().map(|i| i.as_str()),
            ":token": scope.token.map(|t| t.0),
            ":before_time": before.map_or(i64::MAX, |(at, _)| at.as_micros()),
            ":before_pk": before.map_or(i64::MAX, |(_, pk)| sql_int(pk)),
            ":agent": filter.agent.as_deref().map(agent_or_glob),
            ":project": filter.project_id.as_ref().map(|p| p.as_str()),
            ":team": filter.team_id.as_deref(),
            ":identity": filter.identity_id.as_ref().map(|i| i.as_str()),
            ":status": filter.status.map(|s| s.code()),
            ":since": filter.since.map(Timestamp::as_micros),
            ":until": filter.until.map(Timestamp::as_micros),
            ":parent": filter.parent_session_id.as_ref().map(|p| p.as_str()),
            ":title": filter.title.as_deref(),
            ":limit": sql_int(limit as u64),
        },
        |row| read_u64(row, 0),
    )?;
    let stored = |pk| {
        let stored = rows.session_by_pk(pk)?;
        stored.ok_or_else(|| malformed("session"))
    };
    collect_until_full(numbers.into_iter().map(stored), |s| s.row.content_len())
}

/// The agents of these sessions.
pub(super) fn agents(rows: &Rows<'_>, pks: &[SessionPk]) -> Result<AgentsOf, Failure> {
    let numbers: Vec<String> = pks.iter().map(u64::to_string).collect();
    let numbers = format!("[{}]", numbers.join(","));
    let sql = "SELECT session_pk, agent, data FROM session_agent
         WHERE session_pk IN (SELECT value FROM json_each(?1))";
    let found = rows.query_all(sql, [numbers], |row| {
        let agent = match (row.get_ref(1)?.as_str(), row.get_ref(2)?.as_blob()) {
            (Ok(agent), Ok(data)) => AgentRow::decode(agent, data),
            _ => None,
        };
        Ok((read_u64(row, 0)?, agent))
    })?;
    let mut agents = AgentsOf::new();
    for (pk, agent) in found {
        agents.entry(pk).or_default().push(agent);
    }
    Ok(agents)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// SQLite's query plan for a list; it does not depend on bound values.
    fn plan(conn: &Connection, viewer: Viewer, filter: &SessionFilter) -> String {
        let scope = Scope::new(TenantId::default_tenant(), viewer);
        let sql = format!("EXPLAIN QUERY PLAN {}", list_sql(&scope, filter));
        let mut statement = conn.prepare(&sql).unwrap();
        // Nothing is bound: the plan is the same for all values.
        let (mut rows, mut lines) = (statement.raw_query(), Vec::<String>::new());
        while let Some(row) = rows.next().unwrap() {
            lines.push(row.get(3).unwrap());
        }
        lines.join("; ")
    }

    #[test]
    fn lists_use_their_indexes() {
        let folder = tempfile::tempdir().unwrap();
        let mut conn = crate::open::writer(
            &folder.path().join("f.db"),
            std::time::Duration::from_secs(1),
        )
        .unwrap();
        crate::migrate::migrate(&mut conn, || Ok("store".to_owned())).unwrap();
        let none = SessionFilter::default();
        let filter_by = |parent: Option<&str>, agent: Option<&str>| SessionFilter {
            parent_session_id: parent.map(|p| SessionId::new(p).unwrap()),
            agent: agent.map(Into::into),
            ..SessionFilter::default()
        };
        let ann = || Viewer::EndUser(IdentityId::new("ann").ok());
        let ann_filter = SessionFilter {
            identity_id: IdentityId::new("ann").ok(),
            ..SessionFilter::default()
        };
        let updated = |filter: SessionFilter| SessionFilter {
            order: SessionSort::Updated,
            ..filter
        };
        let by_heads = plan(&conn, Viewer::Operator, &updated(none.clone()));
        assert!(
            by_heads.contains("head_updated") && !by_heads.contains("ORDER BY"),
            "{by_heads}"
        );
        let by_owner = plan(&conn, ann(), &updated(none.clone()));
        assert!(by_owner.contains("session_owner"), "{by_owner}");
        for (viewer, filter, index) in [
            (ann(), none.clone(), "session_owner"),
            (Viewer::EndUser(None), none, "session_owner"),
            (
                Viewer::Operator,
                filter_by(Some("p"), None),
                "session_parent",
            ),
            (Viewer::Operator, filter_by(None, Some("a")), "agent=?"),
            (Viewer::Operator, ann_filter, "session_owner"),
            (Viewer::Operator, filter_by(None, None), "session_tenant"),
        ] {
            let query_plan = plan(&conn, viewer.clone(), &filter);
            assert!(
                query_plan.contains(index),
                "{viewer:?} {filter:?}: {query_plan}"
            );
            // Only the sessions of one agent are sorted: each index of sessions has the order of lists.
            assert_eq!(
                query_plan.contains("ORDER BY"),
                filter.agent.is_some(),
                "{viewer:?} {filter:?}: {query_plan}"
            );
        }
    }
}
