//! Locks the lanes of a transaction, and fetches the rows that the rules need.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use filrouge_store::Lane;
use filrouge_store::rows::LogRow;
use filrouge_store::write_queue::{Aborted, Request};
use filrouge_types::Failure;
use tokio::try_join;

use super::{BEGIN, LaneChoice, NotCommitted, begin, classify, lane_missing};
use crate::connect::Connection;
use crate::error::{failure, is_locked, unavailable};
use crate::rows::sql_lane;
use crate::session::{Param, Session};
use crate::stage::{Fetched, LOCK_LANE_WAIT, LOCK_LANES, Prefetch};
use crate::writer::Writer;

/// How long a transaction waits for a lane. It is short, because writes to other lanes may be queued meanwhile.
const LANE_WAIT: Duration = Duration::from_millis(100);

impl Writer {
    /// Begins the transaction, locks the lanes of the group that are free, and fetches the rows that the rules need, in
    /// one round trip. If one lane is due, or none is free, first waits for this lane, unless `choice` forbids this.
    pub(super) fn lock_lanes(
        &self,
        connection: &Connection,
        group: &[Request],
        choice: LaneChoice,
        verified: &[Option<Arc<LogRow>>],
    ) -> Result<(Prefetch, Fetched), NotCommitted> {
        let begin_sql = format!("{BEGIN}{}", connection.transaction_settings);
        let session = &connection.session;
        let first_commit = |lane: Lane| {
            let verified = verified[lane.index()].as_ref();
            verified.map_or(0, |row| row.commit_no)
        };
        session.record_begin();
        if let LaneChoice::Due(lane) = choice {
            let begin_sql = format!("{begin_sql}; ");
            return self.wait_for_lane(session, group, &begin_sql, lane, first_commit);
        }
        let tried: BTreeSet<Lane> = group.iter().map(|request| request.lane).collect();
        let prefetch = self.prefetch(group, &tried);
        let lanes: Vec<i16> = tried.iter().copied().map(sql_lane).collect();
        let fetched = self.wait_for_transaction(async |begun| {
            let lock = async {
                let ((), locked) = try_join!(
                    biased;
                    begin(session, &begin_sql, begun),
                    session.query_columns(&LOCK_LANES, &lanes, &[], &[])
                )?;
                Ok(locked)
            };
            prefetch.fetch(session, lock, first_commit).await
        });
        let fetched = fetched.map_err(|f| NotCommitted::lost(f, None))?;
        let fetched = fetched.map_err(|e| classify(&e))?.map_err(Aborted::Write)?;
        // Another writer of this server never locks these lanes.
        let mut watched = tried.iter().filter(|lane| self.is_only_writer_of(**lane));
        if watched.any(|lane| !fetched.lanes.contains_key(lane)) {
            self.store_state.record_contention();
        }
        if !fetched.lanes.is_empty() {
            return Ok((prefetch, fetched));
        }
        let oldest = group.first().map_or(Lane::FIRST, |request| request.lane);
        if let LaneChoice::FreeNow = choice {
            return Err(NotCommitted::Busy(oldest, Box::new(lane_locked())));
        }
        self.wait_for_lane(session, group, "", oldest, first_commit)
    }

    /// Waits for a lane in a transaction that has locked none, locks the other lanes of the group that are then free, and
    /// fetches the rows that the rules need, in one round trip. Whoever had locked the lane has often released others with
    /// it. `begin_sql` begins the transaction; it is empty if the transaction has begun.
    fn wait_for_lane(
        &self,
        session: &Session,
        group: &[Request],
        begin_sql: &str,
        lane: Lane,
        first_commit: impl Fn(Lane) -> u64,
    ) -> Result<(Prefetch, Fetched), NotCommitted> {
        let tried = group.iter().map(|request| request.lane);
        let tried: BTreeSet<Lane> = tried.chain([lane]).collect();
        let prefetch = self.prefetch(group, &tried);
        let lanes: Vec<i16> = tried.into_iter().map(sql_lane).collect();
        let usual_limit = self.connector.lock_timeout();
        let set_limit = |limit: Duration| format!("SET LOCAL lock_timeout = {}", limit.as_millis());
        let (limit, unlimit) = (
            begin_sql.to_owned() + &set_limit(LANE_WAIT.min(usual_limit)),
            set_limit(usual_limit),
        );
        let lane_param = sql_lane(lane);
        let params: [Param<'_>; 1] = [&lane_param];
        let fetched = self.wait_for_transaction(async |begun| {
            let lock = async {
                let ((), _, (), locked) = try_join!(
                    biased;
                    begin(session, &limit, begun),
                    session.query(&LOCK_LANE_WAIT, &params),
                    session.run(&unlimit),
                    session.query_columns(&LOCK_LANES, &lanes, &[], &[])
                )?;
                Ok(locked)
            };
            prefetch.fetch(session, lock, &first_commit).await
        });
        match fetched {
            Ok(Ok(fetched)) => {
                let fetched = fetched.map_err(Aborted::Write)?;
                if !fetched.lanes.contains_key(&lane) {
                    return Err(Aborted::Store(lane_missing(lane)).into());
                }
                Ok((prefetch, fetched))
            }
            Ok(Err(error)) if is_locked(&error) => {
                Err(NotCommitted::Busy(lane, Box::new(failure(&error))))
            }
            Ok(Err(error)) => Err(classify(&error)),
            Err(failure) => Err(NotCommitted::lost(failure, None)),
        }
    }

    /// Determines the rows that the group's writes to `lanes` will need.
    fn prefetch(&self, group: &[Request], lanes: &BTreeSet<Lane>) -> Prefetch {
        let requests = group.iter().filter(|request| lanes.contains(&request.lane));
        Prefetch::for_requests(self.store_state.log.lanes(), requests, &self.keyring)
    }
}

/// The failure of writes to a lane that another server has locked.
fn lane_locked() -> Failure {
    unavailable("another server has locked the lane").with_hint("try again soon, with the same key")
}
