//! Slots for work that all callers share, such as building large responses. Callers that wait take turns.
//!
//! A caller is an API key and the end user that it acts for. A key can name any number of end users, so turns are taken
//! by keys first, and by the end users of a key in its turn.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, Mutex};

use filrouge_types::lock;
use tokio::sync::{Notify, oneshot};

#[cfg(test)]
mod tests;

/// The size of work that needs a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkSize {
    /// It may use any slot.
    Small,
    /// It may not use the slots that are reserved for small work.
    Large,
}

/// The numbers of slots. A number below 1 counts as 1, except `reserve`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotBounds {
    /// All slots.
    pub total: usize,
    /// The slots that one caller may hold.
    pub share: usize,
    /// The slots that only small work may use.
    pub reserve: usize,
}

impl SlotBounds {
    /// Slots of which one caller may hold all while no other caller waits.
    #[must_use]
    pub const fn without_shares(total: usize) -> Self {
        Self {
            total,
            share: total,
            reserve: 0,
        }
    }
}

/// A limited number of slots. A released slot goes to the caller whose turn it is, however many slots other callers
/// wait for. Clones share the slots. Its methods take a caller as its key and its end user.
#[derive(Debug, Clone)]
pub struct FairSlots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    bounds: SlotBounds,
    /// Keys and end users are identified by 64-bit hashes, keyed with a secret of this process.
    hasher: RandomState,
    /// A panic while the lock is held could lose a slot, but not give out too many.
    usage: Mutex<Usage>,
    /// Notified when the last slot is released.
    all_released: Notify,
}

/// Who holds slots, and who waits. Whoever waits cannot be served: it has its share, or no slot for its size is free.
#[derive(Debug, Default)]
struct Usage {
    held: usize,
    held_by_large: usize,
    callers: HashMap<CallerId, CallerUsage>,
    /// The keys of the callers that wait, in the order of their turns.
    turns: VecDeque<KeyTurn>,
    newest_ticket: u64,
    is_closed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct CallerId {
    key: u64,
    end_user: u64,
}

#[derive(Debug)]
struct KeyTurn {
    key: u64,
    /// The end users of the key that wait, in the order of their turns; never empty.
    end_users: VecDeque<u64>,
}

#[derive(Debug, Default)]
struct CallerUsage {
    held: usize,
    /// The waiting requests of each size, by their tickets, which ascend.
    small: BTreeMap<u64, oneshot::Sender<()>>,
    large: BTreeMap<u64, oneshot::Sender<()>>,
}

impl CallerUsage {
    const fn waiting(&mut self, size: WorkSize) -> &mut BTreeMap<u64, oneshot::Sender<()>> {
        match size {
            WorkSize::Small => &mut self.small,
            WorkSize::Large => &mut self.large,
        }
    }

    fn waits(&self) -> bool {
        !self.small.is_empty() || !self.large.is_empty()
    }
}

impl FairSlots {
    /// Creates the slots; all are free.
    #[must_use]
    pub fn new(bounds: SlotBounds) -> Self {
        let total = bounds.total.max(1);
        Self(Arc::new(Shared {
            bounds: SlotBounds {
                total,
                share: bounds.share.max(1),
                reserve: bounds.reserve.min(total - 1),
            },
            hasher: RandomState::new(),
            usage: Mutex::default(),
            all_released: Notify::new(),
        }))
    }

    /// Waits for a slot. `None` if the slots are closed.
    pub async fn acquire(&self, caller: &(impl Hash, impl Hash), size: WorkSize) -> Option<Slot> {
        let caller = self.0.id_of(caller);
        let mut request = {
            let mut usage = lock(&self.0.usage);
            if usage.is_closed {
                return None;
            }
            if usage.has_room(&self.0.bounds, caller, size) {
                return Some(self.take(&mut usage, caller, size));
            }
            let (granted, receiver) = oneshot::channel();
            WaitingRequest {
                shared: &self.0,
                caller,
                size,
                ticket: usage.enqueue(caller, size, granted),
                receiver,
            }
        };
        // The sender is dropped when the slots are closed.
        (&mut request.receiver).await.ok()?;
        Some(self.slot(caller, size))
    }

    /// Takes a slot if one is free for the caller. `None` if not, or if the slots are closed.
    #[must_use]
    pub fn try_acquire(&self, caller: &(impl Hash, impl Hash), size: WorkSize) -> Option<Slot> {
        let caller = self.0.id_of(caller);
        let mut usage = lock(&self.0.usage);
        let is_free = !usage.is_closed && usage.has_room(&self.0.bounds, caller, size);
        is_free.then(|| self.take(&mut usage, caller, size))
    }

    fn take(&self, usage: &mut Usage, caller: CallerId, size: WorkSize) -> Slot {
        usage.take(caller, size);
        self.slot(caller, size)
    }

    fn slot(&self, caller: CallerId, size: WorkSize) -> Slot {
        Slot {
            shared: self.0.clone(),
            caller,
            size,
        }
    }

    /// Gives out no more slots. Everyone who waits gets none.
    pub fn close(&self) {
        let mut usage = lock(&self.0.usage);
        usage.is_closed = true;
        usage.turns.clear();
        for caller in usage.callers.values_mut() {
            caller.small.clear();
            caller.large.clear();
        }
        usage.callers.retain(|_, caller| caller.held > 0);
    }

    /// Waits until no slot is held. If slots are taken afterwards, it does not wait for them.
    pub async fn wait_until_all_released(&self) {
        // It is created before the check, so that it receives a notification after the check.
        let released = self.0.all_released.notified();
        if self.held() > 0 {
            released.await;
        }
    }

    /// The number of held slots.
    pub fn held(&self) -> usize {
        lock(&self.0.usage).held
    }
}

impl Shared {
    fn id_of(&self, (key, end_user): &(impl Hash, impl Hash)) -> CallerId {
        CallerId {
            key: self.hasher.hash_one(key),
            end_user: self.hasher.hash_one(end_user),
        }
    }

    fn release(&self, usage: &mut Usage, caller: CallerId, size: WorkSize) {
        usage.release(caller, size);
        usage.grant(&self.bounds);
        if usage.held == 0 {
            self.all_released.notify_waiters();
        }
    }
}

impl Usage {
    /// Whether the caller can get a slot now.
    fn has_room(&self, bounds: &SlotBounds, caller: CallerId, size: WorkSize) -> bool {
        let of_caller = self.callers.get(&caller).map_or(0, |usage| usage.held);
        let has_slot = match size {
            WorkSize::Small => true,
            WorkSize::Large => self.held_by_large < bounds.total - bounds.reserve,
        };
        has_slot && self.held < bounds.total && of_caller < bounds.share
    }

    fn take(&mut self, caller: CallerId, size: WorkSize) {
        self.held += 1;
        self.held_by_large += usize::from(size == WorkSize::Large);
        self.callers.entry(caller).or_default().held += 1;
    }

    fn release(&mut self, caller: CallerId, size: WorkSize) {
        self.held -= 1;
        self.held_by_large -= usize::from(size == WorkSize::Large);
        if let Some(usage) = self.callers.get_mut(&caller) {
            usage.held -= 1;
        }
        self.forget_if_idle(caller);
    }

    /// Adds a request to those of its caller, and returns its ticket.
    fn enqueue(&mut self, caller: CallerId, size: WorkSize, granted: oneshot::Sender<()>) -> u64 {
        self.newest_ticket += 1;
        let usage = self.callers.entry(caller).or_default();
        if !usage.waits() {
            match self.turns.iter_mut().find(|turn| turn.key == caller.key) {
                Some(turn) => turn.end_users.push_back(caller.end_user),
                None => self.turns.push_back(KeyTurn {
                    key: caller.key,
                    end_users: VecDeque::from([caller.end_user]),
                }),
            }
        }
        usage.waiting(size).insert(self.newest_ticket, granted);
        self.newest_ticket
    }

    /// Removes a waiting request. Returns whether it was waiting.
    fn remove(&mut self, request: &WaitingRequest<'_>) -> bool {
        let Some(usage) = self.callers.get_mut(&request.caller) else {
            return false;
        };
        let was_waiting = usage.waiting(request.size).remove(&request.ticket);
        if was_waiting.is_some() && !usage.waits() {
            let CallerId { key, end_user } = request.caller;
            if let Some(turn) = self.turns.iter_mut().find(|turn| turn.key == key) {
                turn.end_users.retain(|waiting| *waiting != end_user);
            }
            self.turns.retain(|turn| !turn.end_users.is_empty());
        }
        self.forget_if_idle(request.caller);
        was_waiting.is_some()
    }

    fn forget_if_idle(&mut self, caller: CallerId) {
        let usage = self.callers.get(&caller);
        if usage.is_some_and(|usage| usage.held == 0 && !usage.waits()) {
            self.callers.remove(&caller);
        }
    }

    /// Gives the free slots to waiting callers, one to each in turn. A caller that cannot use one keeps its turn.
    fn grant(&mut self, bounds: &SlotBounds) {
        while self.held < bounds.total
            && let Some((caller, size, granted)) = self.next_request(bounds)
        {
            // The receiver exists: a dropped request is removed under the same lock.
            if granted.send(()).is_ok() {
                self.take(caller, size);
            }
        }
    }

    /// Removes and returns the next request that can be served. Its caller, and the caller's key, are next again after
    /// all others.
    fn next_request(
        &mut self,
        bounds: &SlotBounds,
    ) -> Option<(CallerId, WorkSize, oneshot::Sender<()>)> {
        for key_index in 0..self.turns.len() {
            let mut index = 0;
            while let Some(turn) = self.turns.get(key_index)
                && let Some(end_user) = turn.end_users.get(index).copied()
            {
                let key = turn.key;
                let caller = CallerId { key, end_user };
                if let Some((size, granted)) = self.request_of(bounds, caller) {
                    self.end_turn(key_index, index);
                    return Some((caller, size, granted));
                }
                index += 1;
            }
        }
        None
    }

    /// Removes and returns the caller's oldest request that can be served.
    fn request_of(
        &mut self,
        bounds: &SlotBounds,
        caller: CallerId,
    ) -> Option<(WorkSize, oneshot::Sender<()>)> {
        let has_room = |size: &WorkSize| self.has_room(bounds, caller, *size);
        let sizes = [WorkSize::Small, WorkSize::Large].map(|size| Some(size).filter(has_room));
        let usage = self.callers.get_mut(&caller)?;
        let oldest = sizes.into_iter().flatten().min_by_key(|size| {
            let oldest = usage.waiting(*size).first_key_value();
            oldest.map_or(u64::MAX, |(ticket, _)| *ticket)
        })?;
        let (_, granted) = usage.waiting(oldest).pop_first()?;
        Some((oldest, granted))
    }

    /// Moves a key, and an end user of it, behind all others that wait. An end user who waits no more leaves.
    fn end_turn(&mut self, key_index: usize, index: usize) {
        let Some(mut turn) = self.turns.remove(key_index) else {
            return;
        };
        let key = turn.key;
        if let Some(end_user) = turn.end_users.remove(index)
            && let Some(usage) = self.callers.get(&CallerId { key, end_user })
            && usage.waits()
        {
            turn.end_users.push_back(end_user);
        }
        if !turn.end_users.is_empty() {
            self.turns.push_back(turn);
        }
    }
}

/// A request that waits for a slot. If it is dropped, it leaves the queue, or releases the slot that it was given.
struct WaitingRequest<'a> {
    shared: &'a Shared,
    caller: CallerId,
    size: WorkSize,
    ticket: u64,
    receiver: oneshot::Receiver<()>,
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        let mut usage = lock(&self.shared.usage);
        // After `acquire` has received the grant, the channel is empty.
        if !usage.remove(self) && self.receiver.try_recv().is_ok() {
            self.shared.release(&mut usage, self.caller, self.size);
        }
    }
}

/// A slot; it is released when dropped.
#[derive(Debug)]
#[must_use = "the slot is released when it is dropped"]
pub struct Slot {
    shared: Arc<Shared>,
    caller: CallerId,
    size: WorkSize,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut usage = lock(&self.shared.usage);
        self.shared.release(&mut usage, self.caller, self.size);
    }
}
