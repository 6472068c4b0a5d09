//! Lets OpenSearch rewrite files with deleted rows, so that they no longer contain what was deleted.
//!
//! OpenSearch keeps deleted rows for copies of a shard that may need them, for up to half a minute, so a merge at once
//! would not leave them out. The old files are deleted when a commit and a refresh have replaced them for readers.

use std::time::Instant;

use filrouge_types::{Failure, lock};
use reqwest::Method;

use super::OpenSearchIndex;
use super::write::{Patience, Plan, Step};
use crate::client::Body;

/// The number of looks at the state during a pause.
const LOOKS: u32 = 10;

impl OpenSearchIndex {
    /// Starts a merge if one is due, or ends the last one.
    pub(super) fn merge_if_due(&self) -> Result<(), Failure> {
        let mut merges = lock(&self.merges);
        let look_pause = merges.pause / LOOKS;
        if merges
            .looked
            .is_some_and(|looked| looked.elapsed() < look_pause)
        {
            return Ok(());
        }
        merges.looked = Some(Instant::now());
        if merges.must_refresh {
            self.refresh()?;
            self.flush()?;
            merges.must_refresh = false;
        }
        let meta = self.read_meta()?.meta;
        let seen = merges.seen;
        match seen {
            _ if !meta.needs_merge => merges.seen = None,
            None => merges.seen = Some((meta.forgotten, Instant::now())),
            Some((forgotten, since)) if since.elapsed() >= merges.pause => {
                // A merge keeps deleted rows that are not in a commit yet. The log of operations ends with the commit.
                self.flush()?;
                let options = "only_expunge_deletes=true&wait_for_completion=false";
                let path = format!("{}/_forcemerge?{options}", self.alias());
                self.request(Method::POST, &path, Body::None)?;
                (merges.seen, merges.must_refresh) = (None, true);
                self.note_merge(forgotten)?;
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Records that no deleted rows are left, unless there was a later removal.
    fn note_merge(&self, forgotten: u64) -> Result<(), Failure> {
        // If the lock is not free, there will be another merge.
        self.locked(Patience::Short, &mut |meta| {
            if meta.forgotten != forgotten {
                return Ok(Step::Nothing(()));
            }
            let mut plan = Plan::new(meta);
            plan.next.needs_merge = false;
            Ok(Step::Change(Box::new(plan), ()))
        })
        .map(drop)
    }

    fn flush(&self) -> Result<(), Failure> {
        let path = format!("{}/_flush", self.alias());
        self.request(Method::POST, &path, Body::None).map(drop)
    }
}
