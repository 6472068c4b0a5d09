//! The session table.

use filrouge_store::rows::{HeadRow, SessionPk, SessionRow, Stored};
use filrouge_types::{
    Failure, IdError, IdentityId, ProjectId, RawJson, SessionId, SessionStatus, TenantId, Timestamp,
};
use rusqlite::{Row, params};

use super::{Rows, uint};
use crate::error::malformed;

pub(super) const SESSION_COLUMNS: &str =
    "s.pk, s.tenant_id, s.session_id, s.identity_id, s.parent_session_id,
    s.project_id, s.team_id, s.title, s.status, s.state, s.metadata, s.created_at, h.data";

/// One row of [`SESSION_COLUMNS`]; the inner failure is a row that no filrouge wrote.
pub(super) fn read_stored(row: &Row<'_>) -> rusqlite::Result<Result<Stored, Failure>> {
    let optional = |i: usize| row.get::<_, Option<String>>(i);
    let (pk, tenant, session): (u64, String, String) = (uint(row, 0)?, row.get(1)?, row.get(2)?);
    let (identity, parent, project) = (optional(3)?, optional(4)?, optional(5)?);
    let (team, title, state) = (optional(6)?, optional(7)?, optional(9)?);
    let status: u8 = row.get(8)?;
    let metadata: String = row.get(10)?;
    let created_at = Timestamp::from_micros(row.get(11)?);
    let head = match row.get_ref(12)?.as_blob_or_null()? {
        Some(data) => HeadRow::decode(data),
        None => None,
    };
    let read = || -> Result<SessionRow, IdError> {
        Ok(SessionRow {
            tenant_id: TenantId::new(tenant)?,
            session_id: SessionId::new(session)?,
            identity_id: identity.map(IdentityId::new).transpose()?,
            parent_session_id: parent.map(SessionId::new).transpose()?,
            project_id: project.map(ProjectId::new).transpose()?,
            team_id: team.map(Into::into),
            title: title.map(Into::into),
            status: SessionStatus::from_code(status).unwrap_or(SessionStatus::Active),
            state: state.map(Into::into),
            metadata: RawJson::from_checked(metadata),
            created_at,
        })
    };
    Ok(match read() {
        Ok(row) => Ok(Stored { pk, row, head }),
        Err(_) => Err(malformed("session")),
    })
}

pub(super) fn insert(rows: &Rows<'_>, row: &SessionRow) -> Result<SessionPk, Failure> {
    let sql = "INSERT INTO session (tenant_id, session_id, identity_id, parent_session_id, project_id, team_id,
            title, status, state, metadata, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    rows.run(
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
        ],
    )?;
    Ok(rows.0.last_insert_rowid().unsigned_abs())
}
