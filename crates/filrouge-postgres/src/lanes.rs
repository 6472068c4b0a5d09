//! The writers of the lanes, and statements that run in several lanes.

use filrouge_store::{Lane, Lanes};
use tokio_postgres::{Error, Row};

use crate::rows::sql_lane;
use crate::session::{Param, Session, Sql};

/// The maximum number of writers. Each has its own connection and its own share of the lanes, so that PostgreSQL applies
/// the transaction of one while the other prepares its next transaction or waits for a flush.
pub(crate) const WRITERS: usize = 2;

/// The number of the writer that writes a lane.
pub(crate) fn writer_of(lane: Lane, lanes: Lanes) -> usize {
    lane.index() % WRITERS.min(lanes.count().into())
}

/// Runs a statement whose only parameter is the lane in each of `lanes`, without waiting in between. Returns the rows
/// of each lane, in the order of `lanes`.
pub(crate) async fn query_lanes(
    session: &Session,
    sql: &'static Sql,
    lanes: impl IntoIterator<Item = Lane>,
) -> Result<Vec<Vec<Row>>, Error> {
    let lanes: Vec<i16> = lanes.into_iter().map(sql_lane).collect();
    let executions: Vec<Vec<Param<'_>>> =
        lanes.iter().map(|lane| vec![lane as Param<'_>]).collect();
    session.query_each(sql, &executions).await
}
