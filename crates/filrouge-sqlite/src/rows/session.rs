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
    Ok(read(row).map_err(|_| match row.get::<_, String>(2) {
        Ok(name) => Failure::integrity(&name, None, "its row is malformed"),
        Err(_) => malformed("session"),
    }))
}

/// A column that holds what no filrouge wrote.
struct Foreign;

impl From<IdError> for Foreign {
    fn from(_: IdError) -> Self {
        Self
    }
}

impl From<rusqlite::Error> for Foreign {
    fn from(_: rusqlite::Error) -> Self {
        Self
    }
}

fn read(row: &Row<'_>) -> Result<Stored, Foreign> {
    let text = |i: usize| row.get::<_, String>(i);
    let optional = |i: usize| row.get::<_, Option<String>>(i);
    let pk = uint(row, 0)?;
    let head = row.get_ref(12)?.as_blob().ok().and_then(HeadRow::decode);
    let row = SessionRow {
        tenant_id: TenantId::new(text(1)?)?,
        session_id: SessionId::new(text(2)?)?,
        identity_id: optional(3)?.map(IdentityId::new).transpose()?,
        parent_session_id: optional(4)?.map(SessionId::new).transpose()?,
        project_id: optional(5)?.map(ProjectId::new).transpose()?,
        team_id: optional(6)?.map(Into::into),
        title: optional(7)?.map(Into::into),
        status: SessionStatus::from_code(row.get(8)?).ok_or(Foreign)?,
        state: optional(9)?.map(Into::into),
        metadata: RawJson::from_checked(text(10)?),
        created_at: Timestamp::from_micros(row.get(11)?),
    };
    Ok(Stored { pk, row, head })
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
