//! Inserts events, and the statements for checkpoints.

use filrouge_store::rows::{EventRow, SessionPk, event_key};
use tokio_postgres::Error;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{key_columns, send_columns};
use crate::session::{Param, Session, Sql};

pub(crate) static INSERT_EVENTS: Sql = Sql::new(
    "INSERT INTO filrouge.event (session_pk, number, key, data, at) SELECT * FROM unnest($1, $2, $3, $4, $5)",
    &[
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::UUID_ARRAY,
        Type::BYTEA_ARRAY,
        Type::INT8_ARRAY,
    ],
);
pub(crate) static PUT_CHECKPOINTS: Sql = Sql::new(
    "INSERT INTO filrouge.checkpoint (session_pk, seq, data) SELECT * FROM unnest($1, $2, $3)
     ON CONFLICT (session_pk, seq) DO UPDATE SET data = EXCLUDED.data",
    &[Type::INT8_ARRAY, Type::INT8_ARRAY, Type::BYTEA_ARRAY],
);
pub(crate) static DELETE_CHECKPOINTS: Sql = Sql::new(
    "DELETE FROM filrouge.checkpoint c USING unnest($1, $2) AS gone (session_pk, seq)
     WHERE c.session_pk = gone.session_pk AND c.seq = gone.seq",
    &[Type::INT8_ARRAY, Type::INT8_ARRAY],
);

pub(super) async fn insert_events(
    session: &Session,
    rows: &[(SessionPk, EventRow)],
) -> Result<(), Error> {
    let (pks, numbers) = key_columns(rows.iter().map(|(pk, row)| (*pk, row.number)));
    let keys = rows.iter().map(|(_, row)| event_key(&row.event.key));
    let keys: Vec<Uuid> = keys.map(Uuid::from_bytes).collect();
    let data: Vec<Vec<u8>> = rows.iter().map(|(_, row)| row.encode()).collect();
    let at: Vec<i64> = rows.iter().map(|(_, r)| r.event.at.as_micros()).collect();
    let params: [Param<'_>; 5] = [&pks, &numbers, &keys, &data, &at];
    send_columns(session, &INSERT_EVENTS, pks.len(), &params).await
}
