//! Inserts new sessions, and updates changed ones.

use std::collections::BTreeMap;

use filrouge_store::rows::{SessionPk, SessionRow};
use filrouge_types::{IdentityId, ProjectId, SessionId};
use tokio_postgres::Error;
use tokio_postgres::types::Type;

use super::Pending;
use crate::session::{Column, Session, Sql};

macro_rules! insert_sessions {
    ($on_conflict:literal) => {
        concat!(
            "INSERT INTO filrouge.session (lane, pk, tenant_id, session_id, identity_id, parent_session_id, project_id,
                 team_id, title, status, state, metadata, created_at, token, erased)
             SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
            $on_conflict
        )
    };
}

pub(crate) static INSERT_SESSIONS: Sql = Sql::new(insert_sessions!(""), SESSION_TYPES);
/// Updates all columns except those that never change. It names the rows by their key, as an insert: to join them for an
/// `UPDATE`, PostgreSQL may decide to read all sessions of a lane.
pub(crate) static UPDATE_SESSIONS: Sql = Sql::new(
    insert_sessions!(
        " ON CONFLICT (lane, pk) DO UPDATE SET identity_id = EXCLUDED.identity_id,
             parent_session_id = EXCLUDED.parent_session_id, project_id = EXCLUDED.project_id,
             team_id = EXCLUDED.team_id, title = EXCLUDED.title, status = EXCLUDED.status, state = EXCLUDED.state,
             metadata = EXCLUDED.metadata, token = EXCLUDED.token, erased = EXCLUDED.erased"
    ),
    SESSION_TYPES,
);
const SESSION_TYPES: &[Type] = &[
    Type::INT2_ARRAY,
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
];

impl Pending {
    /// Runs [`INSERT_SESSIONS`] or [`UPDATE_SESSIONS`].
    pub(super) async fn send_sessions(
        &self,
        session: &Session,
        sql: &'static Sql,
        rows: &BTreeMap<SessionPk, SessionRow>,
    ) -> Result<(), Error> {
        let columns = Columns::from_rows(rows.values());
        let columns: [&dyn Column; 13] = [
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
        self.send_columns(session, sql, rows.keys().copied(), &columns)
            .await
    }
}

/// The values of sessions, one vector for each column except lane and pk.
#[derive(Default)]
struct Columns<'r> {
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
    fn from_rows(rows: impl Iterator<Item = &'r SessionRow>) -> Self {
        let mut columns = Self::default();
        for row in rows {
            columns.add(row);
        }
        columns
    }

    fn add(&mut self, row: &'r SessionRow) {
        fn bytes(text: Option<&str>) -> Option<&[u8]> {
            text.map(str::as_bytes)
        }
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
