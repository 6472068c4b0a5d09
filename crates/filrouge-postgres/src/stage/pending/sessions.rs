//! New sessions.

use filrouge_store::rows::{SessionPk, SessionRow};
use filrouge_types::{IdentityId, ProjectId, SessionId};
use tokio_postgres::Error;
use tokio_postgres::types::Type;

use crate::rows::int;
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

pub(super) async fn insert(
    session: &Session,
    rows: &[(SessionPk, SessionRow)],
) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let pks: Vec<i64> = rows.iter().map(|(pk, _)| int(*pk)).collect();
    let tenants = each(rows, |r| r.tenant_id.as_str());
    let names = each(rows, |r| r.session_id.as_str());
    let identities = each(rows, |r| r.identity_id.as_ref().map(IdentityId::as_str));
    let parents = each(rows, |r| {
        r.parent_session_id.as_ref().map(SessionId::as_str)
    });
    let projects = each(rows, |r| r.project_id.as_ref().map(ProjectId::as_str));
    let teams = each(rows, |r| r.team_id.as_deref().map(str::as_bytes));
    let titles = each(rows, |r| r.title.as_deref().map(str::as_bytes));
    let statuses = each(rows, |r| i16::from(r.status.code()));
    let states = each(rows, |r| r.state.as_deref().map(str::as_bytes));
    let metadata = each(rows, |r| r.metadata.as_str().as_bytes());
    let created = each(rows, |r| r.created_at.as_micros());
    let tokens = each(rows, |r| r.token.as_ref().map(|t| t.0.as_slice()));
    let erased = each(rows, |r| r.erased.map(|e| e.encode()));
    let params: [Param<'_>; 14] = [
        &pks,
        &tenants,
        &names,
        &identities,
        &parents,
        &projects,
        &teams,
        &titles,
        &statuses,
        &states,
        &metadata,
        &created,
        &tokens,
        &erased,
    ];
    session.query(&INSERT_SESSIONS, &params).await.map(drop)
}

fn each<'r, T>(
    rows: &'r [(SessionPk, SessionRow)],
    column: impl Fn(&'r SessionRow) -> T,
) -> Vec<T> {
    rows.iter().map(|(_, row)| column(row)).collect()
}
