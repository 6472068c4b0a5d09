//! Finds the position in the change feed that corresponds to a time.

use filrouge_types::{ErrorCode, Failure, Timestamp};

use super::{ChangeCursor, LaneCursor};
use crate::lane::Lane;
use crate::read::VerifiedSnapshot;
use crate::rows::{LogRow, View};

impl<V: View + ?Sized> VerifiedSnapshot<'_, V> {
    /// The position after the commits made before `at`, found by binary search in each lane: of a million commits of a
    /// lane, about 20 are examined and verified.
    ///
    /// If the clock was never set back, exactly the commits at or after `at` follow the position. If it was set back by
    /// at most `d`, a reader finds all of them by starting at `at - d` and checking each commit's time.
    ///
    /// # Errors
    /// `integrity_error`, `key_missing`.
    pub fn changes_before(&self, at: Timestamp) -> Result<ChangeCursor, Failure> {
        let mut cursor = ChangeCursor::default();
        for lane in self.view.lanes().iter() {
            cursor.set(
                lane,
                LaneCursor::after_commit(self.newest_commit_before(lane, at)?),
            );
        }
        Ok(cursor)
    }

    /// The number of the newest commit of a lane that was made before `at`; 0 if there is none.
    fn newest_commit_before(&self, lane: Lane, at: Timestamp) -> Result<u64, Failure> {
        // Invariant: commit `before` was made before `at`, or `before` is 0. Commit `not_before` was made at or after
        // `at`, or does not exist.
        let mut before = 0;
        let mut not_before = self.view.newest_log(lane)?.map_or(0, |row| row.commit_no) + 1;
        while not_before - before > 1 {
            let middle = before + (not_before - before) / 2;
            if self.commit(lane, middle)?.at < at {
                before = middle;
            } else {
                not_before = middle;
            }
        }
        Ok(before)
    }

    /// One commit of a lane, verified against the one before it.
    fn commit(&self, lane: Lane, commit_no: u64) -> Result<LogRow, Failure> {
        let mut rows = self.view.log(lane, commit_no.saturating_sub(2), 2)?;
        rows.retain(|row| row.commit_no <= commit_no);
        match rows.pop() {
            Some(row) if row.commit_no == commit_no => {
                self.entries(&row, rows.last())?;
                Ok(row)
            }
            _ => Err(ErrorCode::IntegrityError.failure(format!("commit {commit_no} is missing"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use filrouge_types::{FixedClock, TenantId};

    use super::*;
    use crate::command::{Command, Write};
    use crate::keyring::{Keyring, OsEntropy};
    use crate::ledger::Ledger;
    use crate::memory::MemoryLedger;
    use crate::{NewSession, Scope, Viewer};

    /// A ledger with one commit at each of these times.
    async fn ledger(times: &[i64]) -> MemoryLedger {
        let clock = Arc::new(FixedClock::at(0));
        let keyring = Arc::new(Keyring::single([7; 32]));
        let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), clock.clone());
        let mut now = 0;
        for (n, at) in times.iter().enumerate() {
            clock.advance(at - now);
            now = *at;
            let session = NewSession::with_id(format!("s{n}").parse().unwrap());
            let command = Command {
                scope: Scope::new(TenantId::default_tenant(), Viewer::Operator),
                write: Write::CreateSession(session),
            };
            ledger.write(command).await.unwrap();
        }
        ledger
    }

    async fn newest_commit_before(ledger: &dyn Ledger, at: i64) -> u64 {
        let at = Timestamp::from_micros(at);
        let cursor = ledger
            .query(move |snapshot| snapshot.changes_before(at))
            .await;
        let cursor = cursor.unwrap().lane(Lane::FIRST);
        assert_eq!(cursor.preceding, None);
        cursor.commit_no
    }

    #[tokio::test]
    async fn every_time_is_found_when_the_clock_is_monotonic() {
        for length in [0, 1, 2, 3, 8, 33] {
            // Several commits have the same time.
            let times: Vec<i64> = (0..length).map(|n| 10 + n / 3 * 5).collect();
            let ledger = ledger(&times).await;
            for at in 0..80 {
                let expected = times.iter().filter(|t| **t < at).count() as u64;
                assert_eq!(
                    newest_commit_before(&ledger, at).await,
                    expected,
                    "{length} {at}"
                );
            }
        }
    }

    #[tokio::test]
    async fn a_margin_covers_a_clock_that_was_set_back() {
        let times = [10, 20, 30, 40, 26, 31, 28, 50, 60, 47, 61];
        let ledger = ledger(&times).await;
        let margin = 14;
        for at in 0..70 {
            let start = newest_commit_before(&ledger, at - margin).await;
            let first = times.iter().position(|t| *t >= at);
            let first = first.map_or(u64::MAX, |index| index as u64 + 1);
            assert!(start < first, "{at}: {start} {first}");
        }
    }
}
