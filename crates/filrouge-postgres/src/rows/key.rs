//! Reads the table `item_key`: the idempotency keys of items and requests.

use filrouge_store::rows::SessionPk;
use filrouge_types::Failure;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{Rows, read_u64, sql_int};
use crate::session::Sql;

pub(super) fn seq(rows: &Rows<'_>, pk: SessionPk, key: [u8; 16]) -> Result<Option<u64>, Failure> {
    static SQL: Sql = Sql::new(
        "SELECT seq FROM filrouge.item_key WHERE lane = $1 AND session_pk = $2 AND key = $3",
        &[Type::INT2, Type::INT8, Type::UUID],
    );
    let (lane, key) = (rows.lane_of(pk), Uuid::from_bytes(key));
    let row = rows.query_opt(&SQL, &[&lane, &sql_int(pk), &key])?;
    row.map(|row| read_u64(&row, 0)).transpose()
}
