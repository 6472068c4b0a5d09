//! The writes that a writer has taken from the queue. If several servers share a store, a transaction serves the writes
//! whose lanes it can lock; the others stay pending.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use super::{Aborted, GroupResult, GroupSize, QUEUE_MAX, Request, Requests, answer_all};
use crate::lane::{Lane, Lanes};

/// How long transactions try to lock a busy lane without waiting. After this time one transaction waits for it.
/// Otherwise the lane's writes could starve.
const PATIENCE: Duration = Duration::from_millis(500);

/// A lane whose writes the last transaction left pending.
struct BusyLane {
    /// Since when transactions have left its writes.
    since: Instant,
    /// When a transaction must wait for it.
    wait_at: Instant,
}

/// The lanes that were not free for the last transaction.
#[derive(Default)]
pub struct BusyLanes {
    lanes: BTreeMap<Lane, BusyLane>,
    due: Option<Lane>,
}

impl BusyLanes {
    /// The lane for which the next transaction must wait.
    #[must_use]
    pub const fn due(&self) -> Option<Lane> {
        self.due
    }

    /// How long the lane's writes have waited for it.
    #[must_use]
    pub fn waited_for(&self, lane: Lane) -> Duration {
        let busy = self.lanes.get(&lane);
        busy.map_or(Duration::ZERO, |busy| busy.since.elapsed())
    }

    fn contains(&self, lane: Lane) -> bool {
        self.lanes.contains_key(&lane)
    }

    /// The place of a lane's writes in a group: first the lane that is due, then the free ones, then the busy ones.
    fn rank(&self, lane: Lane) -> u8 {
        if self.due == Some(lane) {
            0
        } else {
            1 + u8::from(self.contains(lane))
        }
    }

    fn set_due(&mut self, now: Instant) {
        // After a transaction that has waited for one lane, the next one tries all lanes.
        if self.due.take().is_some() {
            return;
        }
        let due = self.lanes.iter().filter(|(_, busy)| busy.wait_at <= now);
        let longest = due.min_by_key(|(_, busy)| busy.wait_at);
        self.due = longest.map(|(lane, _)| *lane);
    }

    /// Records that a transaction has left a write of this lane pending.
    fn add(&mut self, lane: Lane, now: Instant) {
        let wait_at = now + PATIENCE;
        let busy = self.lanes.entry(lane).or_insert(BusyLane {
            since: now,
            wait_at,
        });
        if self.due == Some(lane) {
            busy.wait_at = wait_at;
        }
    }
}

/// The writes that a writer has taken from the queue and not answered yet, in their order. Writes of one lane never
/// overtake each other.
pub struct PendingWrites {
    lanes: Lanes,
    writes: VecDeque<Request>,
    /// Each of these lanes has pending writes.
    busy: BusyLanes,
}

impl PendingWrites {
    /// No writes, for a store with these lanes.
    #[must_use]
    pub fn new(lanes: Lanes) -> Self {
        Self {
            lanes,
            writes: VecDeque::new(),
            busy: BusyLanes::default(),
        }
    }

    /// Waits for a write if none is pending, and takes as many from the queue as one transaction accepts. Returns false
    /// once the queue is closed and no write is pending.
    pub async fn receive(&mut self, requests: &mut Requests) -> bool {
        let first = match self.writes.is_empty() {
            true => requests.recv().await,
            false => None,
        };
        self.take_from(requests, first)
    }

    /// As [`Self::receive`], on a thread without an async runtime.
    pub fn receive_blocking(&mut self, requests: &mut Requests) -> bool {
        let first = match self.writes.is_empty() {
            true => requests.blocking_recv(),
            false => None,
        };
        self.take_from(requests, first)
    }

    fn take_from(&mut self, requests: &mut Requests, first: Option<Request>) -> bool {
        // Writes of busy lanes take no room, so that they do not delay those of the other lanes.
        let mut size = GroupSize::default();
        let of_free_lanes = self.writes.iter().filter(|w| !self.busy.contains(w.lane));
        of_free_lanes.for_each(|request| size.add(request));
        if let Some(first) = first {
            self.push(first, &mut size);
        } else if self.writes.is_empty() {
            return false;
        }
        while size.has_room() && self.writes.len() < QUEUE_MAX {
            let Ok(next) = requests.try_recv() else { break };
            self.push(next, &mut size);
        }
        true
    }

    fn push(&mut self, mut request: Request, size: &mut GroupSize) {
        request.lane = request.command.lane(self.lanes);
        if !self.busy.contains(request.lane) {
            size.add(&request);
        }
        self.writes.push_back(request);
    }

    /// Runs one transaction with `transact`, and answers the requests that it has served. `transact` moves the writes
    /// that it serves to the front of the group, keeps the order of the writes of each lane, and returns their
    /// outcomes; it serves all of a lane's writes in the group, or none. If one write makes the transaction fail, each
    /// write of the group gets its own transaction.
    pub fn serve(&mut self, transact: &mut dyn FnMut(&mut [Request], &BusyLanes) -> GroupResult) {
        self.busy.set_due(Instant::now());
        let mut group = self.take_group();
        match transact(&mut group, &self.busy) {
            Ok(outcomes) => {
                let (now, left) = (Instant::now(), group.split_off(outcomes.len()));
                for request in &group {
                    self.busy.lanes.remove(&request.lane);
                }
                // A transaction that waits for a lane tries no other one.
                let due = self.busy.due;
                for request in left.iter().filter(|r| due.is_none_or(|due| due == r.lane)) {
                    self.busy.add(request.lane, now);
                }
                self.put_back(left);
                answer_all(group, outcomes);
            }
            Err(Aborted::Write(_)) if group.len() > 1 => {
                for request in &mut group {
                    request.alone = true;
                }
                self.put_back(group);
            }
            Err(Aborted::Write(failure) | Aborted::Store(failure)) => {
                for request in group {
                    self.busy.lanes.remove(&request.lane);
                    request.refuse(&failure);
                }
            }
        }
    }

    /// Takes the writes of the next transaction.
    fn take_group(&mut self) -> Vec<Request> {
        let chosen = self.choose_group();
        let (mut group, mut left) = (Vec::new(), VecDeque::new());
        for (request, is_chosen) in self.writes.drain(..).zip(chosen) {
            match is_chosen {
                true => group.push(request),
                false => left.push_back(request),
            }
        }
        self.writes = left;
        group
    }

    /// Determines, for each pending write, whether it belongs to the next transaction.
    fn choose_group(&self) -> Vec<bool> {
        let mut size = GroupSize::default();
        let mut chosen = vec![false; self.writes.len()];
        for rank in 0..=2 {
            for (n, request) in self.writes.iter().enumerate() {
                if self.busy.rank(request.lane) != rank {
                    continue;
                }
                if !size.has_room() || request.alone && size.writes > 0 {
                    return chosen;
                }
                size.add(request);
                chosen[n] = true;
                if request.alone {
                    return chosen;
                }
            }
        }
        chosen
    }

    /// Puts writes of the newest group back before all others.
    fn put_back(&mut self, writes: Vec<Request>) {
        for request in writes.into_iter().rev() {
            self.writes.push_front(request);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use filrouge_types::{ErrorCode, Failure, TenantId};
    use tokio::sync::oneshot;

    use super::super::GROUP_MAX;
    use super::*;
    use crate::command::{Command, Outcome, PutNote, Scope, Viewer, Write};

    type Answer = oneshot::Receiver<Result<Outcome, Failure>>;

    /// A pending write with this name, and its answer.
    fn write(lane: u16, name: &str) -> (Request, Answer) {
        let (reply, answer) = oneshot::channel();
        let note = PutNote {
            name: name.into(),
            expected: 0,
            value: Vec::new(),
        };
        let scope = Scope::new(TenantId::default_tenant(), Viewer::Operator);
        let write = Write::PutNote(note);
        let request = Request {
            command: Command { scope, write },
            lane: Lane::new(lane),
            alone: false,
            reply,
        };
        (request, answer)
    }

    fn pending(writes: &[(u16, &str)]) -> (PendingWrites, Vec<Answer>) {
        let mut pending = PendingWrites::new(Lanes::new(4).unwrap());
        let writes = writes.iter().map(|(lane, name)| write(*lane, name));
        let (requests, answers): (Vec<_>, _) = writes.unzip();
        pending.writes.extend(requests);
        (pending, answers)
    }

    fn names(group: &[Request]) -> Vec<String> {
        let name = |request: &Request| match &request.command.write {
            Write::PutNote(note) => note.name.to_string(),
            other => panic!("{other:?}"),
        };
        group.iter().map(name).collect()
    }

    /// Runs a transaction that can lock all lanes but `locked`. Returns the names of the writes that it served.
    fn serve_except(pending: &mut PendingWrites, locked: &[u16]) -> Vec<String> {
        let mut served = Vec::new();
        pending.serve(&mut |group, _| {
            let is_locked = |request: &Request| locked.contains(&request.lane.number());
            group.sort_by_key(is_locked);
            let count = group.iter().filter(|request| !is_locked(request)).count();
            served = names(&group[..count]);
            Ok((0..count).map(|_| Ok(Outcome::Drafted)).collect())
        });
        served
    }

    #[test]
    fn writes_of_lanes_that_are_not_free_stay_pending_in_their_order() {
        let (mut pending, mut answers) = pending(&[(1, "a"), (2, "b"), (1, "c"), (3, "d")]);
        assert_eq!(serve_except(&mut pending, &[1]), ["b", "d"]);
        assert!(answers[0].try_recv().is_err() && answers[2].try_recv().is_err());
        assert!(answers[1].try_recv().is_ok() && answers[3].try_recv().is_ok());
        pending.writes.extend([write(1, "e").0, write(3, "f").0]);
        assert_eq!(serve_except(&mut pending, &[]), ["a", "c", "e", "f"]);
        assert!(pending.writes.is_empty() && pending.busy.lanes.is_empty());
    }

    #[test]
    fn a_busy_lane_leaves_room_for_the_others() {
        let (mut pending, _answers) = pending(&[(1, "busy"); GROUP_MAX + 1]);
        assert!(serve_except(&mut pending, &[1]).is_empty());
        pending.writes.push_back(write(2, "free").0);
        assert_eq!(serve_except(&mut pending, &[1]), ["free"]);
        assert_eq!(serve_except(&mut pending, &[]).len(), GROUP_MAX);
        assert_eq!(serve_except(&mut pending, &[]).len(), 1);
    }

    #[tokio::test]
    async fn writes_of_busy_lanes_do_not_keep_others_in_the_queue() {
        let (mut pending, _answers) = pending(&[(1, "busy"); GROUP_MAX]);
        assert!(serve_except(&mut pending, &[1]).is_empty());
        let (sender, mut requests) = tokio::sync::mpsc::channel(4);
        let (note, _answer) = write(0, "note");
        assert!(sender.send(note).await.is_ok());
        assert!(pending.receive(&mut requests).await);
        assert_eq!(serve_except(&mut pending, &[1]), ["note"]);
        drop(sender);
        assert!(pending.receive(&mut requests).await, "writes are pending");
        assert_eq!(serve_except(&mut pending, &[]).len(), GROUP_MAX);
        assert!(!pending.receive(&mut requests).await);
    }

    #[test]
    fn a_lane_that_stays_busy_becomes_due() {
        let (mut pending, _answers) = pending(&[(1, "a"), (2, "b")]);
        let due = |pending: &mut PendingWrites| {
            let mut due = None;
            pending.serve(&mut |_, busy| {
                due = busy.due();
                Ok(Vec::new())
            });
            due
        };
        assert_eq!(due(&mut pending), None);
        let busy = pending.busy.lanes.get_mut(&Lane::new(2)).unwrap();
        busy.wait_at = busy.since;
        assert_eq!(due(&mut pending), Some(Lane::new(2)));
        // The transaction has waited in vain, so the next one waits for no lane.
        assert_eq!(due(&mut pending), None);
        assert_eq!(serve_except(&mut pending, &[]), ["a", "b"]);
    }

    #[test]
    fn many_lanes_that_are_due_do_not_starve_a_free_one() {
        let held = [0, 1, 2];
        let (mut pending, _answers) = pending(&[(0, "a"), (1, "b"), (2, "c")]);
        assert!(serve_except(&mut pending, &held).is_empty());
        let mut due = BTreeSet::new();
        for round in 0..6 {
            // All held lanes have been due since before.
            for busy in pending.busy.lanes.values_mut() {
                busy.wait_at = busy.wait_at.min(busy.since);
            }
            pending.writes.push_back(write(3, "free").0);
            let mut served = Vec::new();
            pending.serve(&mut |group, busy| {
                due.extend(busy.due());
                let is_served = |request: &Request| {
                    busy.due().is_none() && !held.contains(&request.lane.number())
                };
                group.sort_by_key(|request| !is_served(request));
                let count = group.iter().filter(|request| is_served(request)).count();
                served = names(&group[..count]);
                Ok((0..count).map(|_| Ok(Outcome::Drafted)).collect())
            });
            assert_eq!(served.is_empty(), round % 2 == 0, "{round}");
        }
        assert!(!due.is_empty());
    }

    #[test]
    fn a_write_that_fails_is_refused_alone() {
        let (mut pending, mut answers) = pending(&[(1, "a"), (2, "bad"), (1, "c")]);
        let mut groups = Vec::new();
        while !pending.writes.is_empty() {
            pending.serve(&mut |group, _| {
                let group_names = names(group);
                let fails = group_names.iter().any(|name| name == "bad");
                groups.push(group_names);
                match fails {
                    true => Err(Aborted::Write(Failure::new(ErrorCode::Internal, "bad"))),
                    false => Ok(group.iter().map(|_| Ok(Outcome::Drafted)).collect()),
                }
            });
        }
        assert_eq!(groups.concat(), ["a", "bad", "c", "a", "bad", "c"]);
        assert_eq!(groups.len(), 4);
        let results = answers.iter_mut().map(|answer| answer.try_recv().unwrap());
        let accepted: Vec<bool> = results.map(|result| result.is_ok()).collect();
        assert_eq!(accepted, [true, false, true]);
    }
}
