//! Inserts events, and the statements for checkpoints.

use filrouge_store::rows::event_key;
use tokio_postgres::Error;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Pending;
use crate::rows::sql_int;
use crate::session::{Column, Session, Sql};

pub(crate) static INSERT_EVENTS: Sql = Sql::new(
    "INSERT INTO filrouge.event (lane, session_pk, number, key, data, at)
     SELECT * FROM unnest($1, $2, $3, $4, $5, $6)",
    &[
        Type::INT2_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::UUID_ARRAY,
        Type::BYTEA_ARRAY,
        Type::INT8_ARRAY,
    ],
);
pub(crate) static PUT_CHECKPOINTS: Sql = Sql::new(
    "INSERT INTO filrouge.checkpoint (lane, session_pk, seq, data) SELECT * FROM unnest($1, $2, $3, $4)
     ON CONFLICT (lane, session_pk, seq) DO UPDATE SET data = EXCLUDED.data",
    &[
        Type::INT2_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::BYTEA_ARRAY,
    ],
);
/// Deletes checkpoints, as [`super::DELETE_DRAFTS`] deletes drafts.
pub(crate) static DELETE_CHECKPOINTS: Sql = Sql::new(
    "DELETE FROM filrouge.checkpoint c USING unnest($1, $2, $3) AS q (lane, pk, number)
     WHERE c.lane = ANY (ARRAY[q.lane]) AND c.session_pk = q.pk AND c.seq = q.number",
    super::KEY_TYPES,
);

impl Pending {
    pub(super) async fn send_events(&self, session: &Session) -> Result<(), Error> {
        let rows = || self.events.iter().map(|(_, row)| row);
        let numbers: Vec<i64> = rows().map(|row| sql_int(row.number)).collect();
        let keys = rows().map(|row| event_key(&row.event.key));
        let keys: Vec<Uuid> = keys.map(Uuid::from_bytes).collect();
        let data: Vec<Vec<u8>> = rows().map(|row| row.encode()).collect();
        let at: Vec<i64> = rows().map(|row| row.event.at.as_micros()).collect();
        let columns: [&dyn Column; 4] = [&numbers, &keys, &data, &at];
        let pks = self.events.iter().map(|(pk, _)| *pk);
        self.send_columns(session, &INSERT_EVENTS, pks, &columns)
            .await
    }
}
