//! Inserts events, and inserts or updates checkpoints.

use std::collections::BTreeMap;

use filrouge_store::rows::{EventRow, SessionPk, event_key};
use tokio_postgres::Error;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::rows::sql_int;
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
    if rows.is_empty() {
        return Ok(());
    }
    let pks: Vec<i64> = rows.iter().map(|(pk, _)| sql_int(*pk)).collect();
    let numbers: Vec<i64> = rows.iter().map(|(_, row)| sql_int(row.number)).collect();
    let keys = rows.iter().map(|(_, row)| event_key(&row.event.key));
    let keys: Vec<Uuid> = keys.map(Uuid::from_bytes).collect();
    let data: Vec<Vec<u8>> = rows.iter().map(|(_, row)| row.encode()).collect();
    let at: Vec<i64> = rows.iter().map(|(_, r)| r.event.at.as_micros()).collect();
    let params: [Param<'_>; 5] = [&pks, &numbers, &keys, &data, &at];
    session.query(&INSERT_EVENTS, &params).await.map(drop)
}

pub(super) async fn put_checkpoints(
    session: &Session,
    rows: &BTreeMap<(SessionPk, u64), Vec<u8>>,
) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let pks: Vec<i64> = rows.keys().map(|(pk, _)| sql_int(*pk)).collect();
    let seqs: Vec<i64> = rows.keys().map(|(_, seq)| sql_int(*seq)).collect();
    let data: Vec<&[u8]> = rows.values().map(Vec::as_slice).collect();
    session
        .query(&PUT_CHECKPOINTS, &[&pks, &seqs, &data])
        .await
        .map(drop)
}
