//! Inserts new sessions, and updates changed ones.

use std::collections::BTreeMap;

use filrouge_store::rows::{SessionPk, SessionRow};
use filrouge_types::{IdentityId, ProjectId, SessionId};
use tokio_postgres::Error;
use tokio_postgres::types::Type;

use super::send_columns;
use crate::rows::sql_int;
use crate::session::{Param, Session, Sql};

pub(crate) static INSERT_SESSIONS: Sql = Sql::new(
    "INSERT INTO filrouge.session (pk, tenant_id, session_id, identity_id, parent_session_id, project_id, team_id,
         title, status, state, metadata, created_at, token, erased)
     SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
    &[
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::INT2_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::INT8_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
    ],
);

/// Updates all columns except those that never change.
pub(crate) static UPDATE_SESSIONS: Sql = Sql::new(
    "UPDATE filrouge.session s SET identity_id = q.identity_id, parent_session_id = q.parent_session_id,
         project_id = q.project_id, team_id = q.team_id, title = q.title, status = q.status, state = q.state,
         metadata = q.metadata, token = q.token, erased = q.erased
     FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) AS q (pk, identity_id, parent_session_id, project_id,
         team_id, title, status, state, metadata, token, erased)
     WHERE s.pk = q.pk",
    &[
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::INT2_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
    ],
);

pub(super) async fn insert(
    session: &Session,
    rows: &[(SessionPk, SessionRow)],
) -> Result<(), Error> {
    let columns = Columns::from_rows(rows.iter().map(|(pk, row)| (*pk, row)));
    let params: [Param<'_>; 14] = [
        &columns.pks,
        &columns.tenants,
        &columns.names,
        &columns.identities,
        &columns.parents,
        &columns.projects,
        &columns.teams,
        &columns.titles,
        &columns.statuses,
        &columns.states,
        &columns.metadata,
        &columns.created,
        &columns.tokens,
        &columns.erased,
    ];
    send_columns(session, &INSERT_SESSIONS, rows.len(), &params).await
}

pub(super) async fn update(
    session: &Session,
    rows: &BTreeMap<SessionPk, SessionRow>,
) -> Result<(), Error> {
    let columns = Columns::from_rows(rows.iter().map(|(pk, row)| (*pk, row)));
    let params: [Param<'_>; 11] = [
        &columns.pks,
        &columns.identities,
        &columns.parents,
        &columns.projects,
        &columns.teams,
        &columns.titles,
        &columns.statuses,
        &columns.states,
        &columns.metadata,
        &columns.tokens,
        &columns.erased,
    ];
    send_columns(session, &UPDATE_SESSIONS, rows.len(), &params).await
}

/// The values of sessions, one vector for each column.
#[derive(Default)]
struct Columns<'r> {
    pks: Vec<i64>,
    tenants: Vec<&'r str>,
    names: Vec<&'r str>,
    identities: Vec<Option<&'r str>>,
    parents: Vec<Option<&'r str>>,
    projects: Vec<Option<&'r str>>,
    teams: Vec<Option<&'r [u8]>>,
    titles: Vec<Option<&'r [u8]>>,
    statuses: Vec<i16>,
    states: Vec<Option<&'r [u8]>>,
    metadata: Vec<&'r [u8]>,
    created: Vec<i64>,
    tokens: Vec<Option<&'r [u8]>>,
    erased: Vec<Option<Vec<u8>>>,
}

impl<'r> Columns<'r> {
    fn from_rows(rows: impl Iterator<Item = (SessionPk, &'r SessionRow)>) -> Self {
        let mut columns = Self::default();
        for (pk, row) in rows {
            columns.add(pk, row);
        }
        columns
    }

    fn add(&mut self, pk: SessionPk, row: &'r SessionRow) {
        fn bytes(text: Option<&str>) -> Option<&[u8]> {
            text.map(str::as_bytes)
        }
        self.pks.push(sql_int(pk));
        self.tenants.push(row.tenant_id.as_str());
        self.names.push(row.session_id.as_str());
        let identity = row.identity_id.as_ref().map(IdentityId::as_str);
        self.identities.push(identity);
        let parent = row.parent_session_id.as_ref().map(SessionId::as_str);
        self.parents.push(parent);
        let project = row.project_id.as_ref().map(ProjectId::as_str);
        self.projects.push(project);
        self.teams.push(bytes(row.team_id.as_deref()));
        self.titles.push(bytes(row.title.as_deref()));
        self.statuses.push(i16::from(row.status.code()));
        self.states.push(bytes(row.state.as_deref()));
        self.metadata.push(row.metadata.as_str().as_bytes());
        self.created.push(row.created_at.as_micros());
        self.tokens.push(row.token.as_ref().map(|t| t.0.as_slice()));
        self.erased.push(row.erased.map(|e| e.encode()));
    }
}
