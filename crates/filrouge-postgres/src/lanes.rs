//! Runs statements in several lanes of the store.

use filrouge_store::Lane;
use tokio_postgres::{Error, Row};

use crate::rows::sql_lane;
use crate::session::{Param, Session, Sql};

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
