//! What a process knows of a generation that it fills from a history, and the changes that it still must write.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use filrouge_types::{SessionId, Timestamp};

use super::Scan;
use super::sums::{GROUPS, GroupSums, group_of};
use crate::state::Filled;

/// A session to write or to remove.
pub(crate) struct Change {
    group: usize,
    pub(crate) session: SessionId,
}

/// The changes that a scan has shown, ordered by group.
pub(crate) struct Pass {
    pub(crate) scan: Arc<Scan>,
    /// The version of the rows that are written; `None` until the note says that the groups are being written.
    pub(crate) version: Option<u64>,
    pub(crate) changes: Vec<Change>,
    /// The number of changes that are done.
    pub(crate) completed: usize,
}

/// The reader of a history for a generation.
pub(crate) struct HistoryFeed {
    pub(crate) generation: u64,
    /// The sums in the note, as this process last read or wrote them.
    noted: GroupSums,
    /// [`Filled::history_stamp`] in the note, as for the sums.
    stamp: u64,
    /// The stamps of the sessions that the generation has, or that are among the dead letters; 0 without a stamp. `None`
    /// before the first scan.
    written: Option<HashMap<SessionId, u64>>,
    pub(crate) scanned_at: Option<Timestamp>,
    pub(crate) pass: Option<Pass>,
}

impl HistoryFeed {
    pub(crate) fn new(filled: &Filled) -> Self {
        Self {
            generation: filled.generation,
            noted: filled.history.clone(),
            stamp: filled.history_stamp,
            written: None,
            scanned_at: None,
            pass: None,
        }
    }

    /// Whether this feed continues from the state in the note: no other process has filled the generation since.
    pub(crate) fn continues(&self, filled: &Filled) -> bool {
        self.generation == filled.generation
            && self.stamp == filled.history_stamp
            && self.noted == filled.history
    }

    /// Whether the generation may have sessions that only the target knows: another process has written them.
    pub(crate) fn needs_sessions_of_target(&self, scan: &Scan) -> bool {
        self.written.is_none() && self.noted != scan.sums
    }

    /// Finds the changes between the generation and a scan. `in_target` are sessions that the target has, `retried`
    /// sessions that are written in any case.
    pub(crate) fn compare(
        &mut self,
        scan: Arc<Scan>,
        in_target: &[SessionId],
        retried: &BTreeSet<SessionId>,
    ) {
        let noted = &self.noted;
        let written = self.written.get_or_insert_with(|| known(&scan, noted));
        let is_changed = |session: &SessionId, stamp: Option<u64>| {
            stamp.is_none() || written.get(session).copied() != stamp
        };
        let listed = scan.sessions.iter();
        let changed = listed.filter(|&(session, listed)| {
            is_changed(session, listed.stamp) || retried.contains(session)
        });
        let others = written.keys().chain(in_target).chain(retried);
        let removed = others.filter(|session| !scan.sessions.contains_key(*session));
        let sessions: BTreeSet<&SessionId> =
            changed.map(|(session, _)| session).chain(removed).collect();
        let changes = sessions.into_iter().map(|session| Change {
            group: group_of(session),
            session: session.clone(),
        });
        let mut changes: Vec<Change> = changes.collect();
        changes.sort_by_key(|change| change.group);
        let has_work = !changes.is_empty() || self.noted != scan.sums;
        self.pass = has_work.then_some(Pass {
            scan,
            version: None,
            changes,
            completed: 0,
        });
    }

    /// Begins to write the changes with this version, under a new stamp. Returns the sums for the note, in which those
    /// of the groups with changes are unknown.
    pub(crate) fn begin(&mut self, version: u64, stamp: u64) -> GroupSums {
        self.stamp = stamp;
        if let Some(pass) = &mut self.pass {
            pass.version = Some(version);
            for change in &pass.changes {
                self.noted.forget(change.group);
            }
        }
        self.noted.clone()
    }

    /// Records that the next `count` changes are done, under a new stamp. Returns the sums for the note.
    pub(crate) fn complete(&mut self, count: usize, stamp: u64) -> GroupSums {
        self.stamp = stamp;
        let Some(pass) = &mut self.pass else {
            return self.noted.clone();
        };
        let written = self.written.get_or_insert_default();
        for change in pass.changes.iter().skip(pass.completed).take(count) {
            let session = change.session.clone();
            match pass.scan.sessions.get(&change.session) {
                Some(listed) => written.insert(session, listed.stamp.unwrap_or(0)),
                None => written.remove(&session),
            };
        }
        pass.completed += count;
        let next = pass.changes.get(pass.completed);
        let end = next.map_or(GROUPS, |change| change.group);
        self.noted.take_over(&pass.scan.sums, end);
        if next.is_none() {
            self.pass = None;
        }
        self.noted.clone()
    }

    /// The number of changes that are left.
    pub(crate) fn lag(&self) -> u64 {
        let pass = self.pass.as_ref();
        pass.map_or(0, |pass| (pass.changes.len() - pass.completed) as u64)
    }
}

/// The sessions that a generation with these sums certainly has.
fn known(scan: &Scan, noted: &GroupSums) -> HashMap<SessionId, u64> {
    let listed = scan.sessions.iter();
    let known = listed.filter(|(session, _)| noted.agrees(&scan.sums, group_of(session)));
    known
        .map(|(session, listed)| (session.clone(), listed.stamp.unwrap_or(0)))
        .collect()
}

/// The number of sessions of groups in which the generation lacks a change: at least as many as it lacks.
pub(crate) fn lag_of(scan: &Scan, filled: &Filled) -> u64 {
    let sessions = scan.sessions.keys();
    let lagging = sessions.filter(|session| !filled.history.agrees(&scan.sums, group_of(session)));
    let gone = (0..GROUPS).any(|group| !filled.history.agrees(&scan.sums, group));
    // The last session of a group may be the one that was removed.
    (lagging.count() as u64).max(u64::from(gone))
}
