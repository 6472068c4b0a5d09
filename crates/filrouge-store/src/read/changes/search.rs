//! A moment's place in the feed.

use filrouge_types::{ErrorCode, Failure, Timestamp};

use super::ChangeCursor;
use crate::read::Sight;
use crate::rows::{LogRow, View};

impl<V: View + ?Sized> Sight<'_, V> {
    /// A place that nearly all commits made before `at` are behind, found by halving: about 20 of a million commits
    /// are looked at, each verified.
    ///
    /// No commit at or after `at` is behind it as long as the clock was never set back. A clock that was, by at most
    /// `d`, hides none either from who asks for `at - d` and looks at each commit's time.
    ///
    /// # Errors
    /// `integrity_error`, `key_missing`.
    pub fn changes_before(&self, at: Timestamp) -> Result<ChangeCursor, Failure> {
        // All up to `before` are; `behind` is not, or not there.
        let mut before = 0;
        let mut behind = self.view.newest_log()?.map_or(0, |row| row.commit_no) + 1;
        while behind - before > 1 {
            let middle = before + (behind - before) / 2;
            if self.commit(middle)?.at < at {
                before = middle;
            } else {
                behind = middle;
            }
        }
        Ok(ChangeCursor::behind(before))
    }

    /// One commit, verified against the one before it.
    fn commit(&self, commit_no: u64) -> Result<LogRow, Failure> {
        let mut rows = self.view.log(commit_no.saturating_sub(2), 2)?;
        rows.retain(|row| row.commit_no <= commit_no);
        match rows.pop() {
            Some(row) if row.commit_no == commit_no => {
                self.entries(&row, rows.last())?;
                Ok(row)
            }
            _ => {
                let what = format!("commit {commit_no} is missing");
                Err(Failure::new(ErrorCode::IntegrityError, what))
            }
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
            let session = NewSession::bare(format!("s{n}").parse().unwrap());
            let command = Command {
                scope: Scope::new(TenantId::default_tenant(), Viewer::Operator),
                write: Write::CreateSession(session),
            };
            ledger.write(command).await.unwrap();
        }
        ledger
    }

    async fn before(ledger: &dyn Ledger, at: i64) -> u64 {
        let at = Timestamp::from_micros(at);
        let found = ledger.ask(move |sight| sight.changes_before(at)).await;
        let found = found.unwrap();
        assert_eq!(found.taken, None);
        found.commit_no
    }

    #[tokio::test]
    async fn every_moment_of_a_log_whose_clock_goes_on() {
        for length in [0, 1, 2, 3, 8, 33] {
            // Several commits have the same time.
            let times: Vec<i64> = (0..length).map(|n| 10 + n / 3 * 5).collect();
            let ledger = ledger(&times).await;
            for at in 0..80 {
                let expected = times.iter().filter(|t| **t < at).count() as u64;
                assert_eq!(before(&ledger, at).await, expected, "{length} {at}");
            }
        }
    }

    #[tokio::test]
    async fn a_clock_that_was_set_back_hides_nothing_from_who_leaves_it_room() {
        let times = [10, 20, 30, 40, 26, 31, 28, 50, 60, 47, 61];
        let ledger = ledger(&times).await;
        let back = 14;
        for at in 0..70 {
            let place = before(&ledger, at - back).await;
            let first = times.iter().position(|t| *t >= at);
            let first = first.map_or(u64::MAX, |index| index as u64 + 1);
            assert!(place < first, "{at}: {place} {first}");
        }
    }
}
