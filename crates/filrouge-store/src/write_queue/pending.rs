//! The writes that a writer has taken from the queue. If several servers share a store, a transaction serves the writes
//! whose lanes it can lock; the others stay pending.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use filrouge_types::{ErrorCode, Failure};

use super::{Aborted, GroupResult, GroupSize, QUEUE_MAX, Request, Requests, answer_all};
use crate::lane::{Lane, Lanes};

/// The maximum number of pending writes of a busy lane; further ones are refused.
const LANE_MAX: usize = QUEUE_MAX;

/// How long transactions try to lock a busy lane without waiting. After this time one transaction waits for it.
/// Otherwise the lane's writes could starve.
const PATIENCE: Duration = Duration::from_millis(500);

/// The lanes that were not free for the last transaction.
#[derive(Default)]
pub struct BusyLanes {
    /// When a transaction must wait for each of these lanes.
    wait_at: BTreeMap<Lane, Instant>,
    due: Option<Lane>,
}

impl BusyLanes {
    /// The lane for which the next transaction must wait.
    pub const fn due(&self) -> Option<Lane> {
        self.due
    }

    fn contains(&self, lane: Lane) -> bool {
        self.wait_at.contains_key(&lane)
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
        let due = self.wait_at.iter().filter(|(_, at)| **at <= now);
        let longest = due.min_by_key(|(_, at)| **at);
        self.due = longest.map(|(lane, _)| *lane);
    }

    /// Records that a transaction has left a write of this lane pending.
    fn add(&mut self, lane: Lane, now: Instant) {
        let next = now + PATIENCE;
        let wait_at = self.wait_at.entry(lane).or_insert(next);
        if self.due == Some(lane) {
            *wait_at = next;
        }
    }
}

/// The pending writes, which limit how many more are taken from the queue.
#[derive(Default)]
struct Load {
    /// The writes of free lanes.
    free: GroupSize,
    /// The number of writes of each busy lane.
    busy: BTreeMap<Lane, usize>,
}

impl Load {
    fn add(&mut self, request: &Request, busy: &BusyLanes) {
        if busy.contains(request.lane) {
            *self.busy.entry(request.lane).or_default() += 1;
        } else {
            self.free.add(request);
        }
    }

    /// Whether this lane is busy and accepts no further write.
    fn is_full(&self, lane: Lane) -> bool {
        self.busy
            .get(&lane)
            .is_some_and(|writes| *writes >= LANE_MAX)
    }
}

/// The writes that a writer has taken from the queue and not answered yet, in their order. Writes of one lane never
/// overtake each other.
pub struct PendingWrites {
    lanes: Lanes,
    /// The number of lanes that this writer writes.
    own_lanes: usize,
    writes: VecDeque<Request>,
    /// Each of these lanes has pending writes.
    busy: BusyLanes,
}

impl PendingWrites {
    /// No writes, for a writer of `own_lanes` of the store's lanes.
    #[must_use]
    pub fn new(lanes: Lanes, own_lanes: usize) -> Self {
        Self {
            lanes,
            own_lanes,
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
        let mut load = Load::default();
        for request in &self.writes {
            load.add(request, &self.busy);
        }
        if let Some(first) = first {
            self.push(first, &mut load);
        } else if self.writes.is_empty() {
            return false;
        }
        // Writes of busy lanes take no room, so that they do not delay those of the other lanes. If no lane is free, there
        // are no others.
        for _ in 0..QUEUE_MAX {
            let has_room = self.writes.len() < QUEUE_MAX || self.has_free_lane();
            if !has_room || !load.free.has_room() {
                break;
            }
            let Ok(next) = requests.try_recv() else { break };
            self.push(next, &mut load);
        }
        true
    }

    fn has_free_lane(&self) -> bool {
        self.busy.wait_at.len() < self.own_lanes
    }

    fn push(&mut self, mut request: Request, load: &mut Load) {
        request.lane = request.command.lane(self.lanes);
        if load.is_full(request.lane) {
            let detail = format!("{LANE_MAX} writes already wait for lane {}", request.lane);
            let failure = Failure::new(ErrorCode::Overloaded, detail).with_hint(
                "another server has locked this lane; try again soon, with the same key",
            );
            request.refuse(&failure);
            return;
        }
        load.add(&request, &self.busy);
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
                let left = group.split_off(outcomes.len());
                for request in &group {
                    self.busy.wait_at.remove(&request.lane);
                }
                self.leave(left);
                answer_all(group, outcomes);
            }
            Err(Aborted::Lane(lane, limit, failure)) => {
                self.leave(group);
                self.refuse_overdue(lane, limit, &failure);
            }
            Err(Aborted::Write(_)) if group.len() > 1 => {
                for request in &mut group {
                    request.alone = true;
                }
                self.put_back(group);
            }
            Err(Aborted::Write(failure) | Aborted::Store(failure)) => {
                for request in group {
                    self.busy.wait_at.remove(&request.lane);
                    request.refuse(&failure);
                }
            }
        }
    }

    /// Puts back the writes of the newest group that it has not served, because their lanes were not free.
    fn leave(&mut self, left: Vec<Request>) {
        let (now, due) = (Instant::now(), self.busy.due);
        // A transaction whose wait for a lane has timed out has tried no other one.
        for request in left.iter().filter(|r| due.is_none_or(|due| due == r.lane)) {
            self.busy.add(request.lane, now);
        }
        self.put_back(left);
        for request in &mut self.writes {
            if self.busy.contains(request.lane) {
                request.waits_since.get_or_insert(now);
                drop(request.slot.take());
            }
        }
    }

    /// Refuses all writes of a lane that have waited for it for at least `limit`.
    fn refuse_overdue(&mut self, lane: Lane, limit: Duration, failure: &Failure) {
        let is_overdue = |request: &Request| request.lane == lane && request.waited() >= limit;
        let (overdue, left) = self.writes.drain(..).partition::<Vec<_>, _>(is_overdue);
        self.writes = left.into();
        for request in overdue {
            request.refuse(failure);
        }
        if !self.writes.iter().any(|request| request.lane == lane) {
            self.busy.wait_at.remove(&lane);
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
mod tests;
