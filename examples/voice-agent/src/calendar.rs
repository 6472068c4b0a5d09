//! The appointments: a note of the store lists each booked slot with its call, and is changed by compare-and-set.
//!
//! No slot is booked twice, even if several instances book at once. A call holds at most one slot: repeating a booking
//! changes nothing, and booking another slot releases the first. The note also stores each call's highest fence: an
//! instance whose lease of a call was acquired by another can no longer book for that call.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use filrouge_store::Ledger;
use filrouge_types::{Clock, ErrorCode, Failure, SessionId, TenantId};
use jiff::ToSpan;
use jiff::civil::{Date, DateTime, Time, Weekday, time};
use serde::{Deserialize, Serialize};

use crate::french::day_name;

/// The times of a day's slots.
const TIMES: [Time; 4] = [
    time(9, 0, 0, 0),
    time(10, 30, 0, 0),
    time(14, 0, 0, 0),
    time(16, 0, 0, 0),
];
/// The number of days, from the first one, on which slots are offered.
const DAYS: i64 = 14;
/// The number of slots in a proposal.
const PROPOSED_SLOTS: usize = 3;
/// The time for which a fence is kept, in microseconds. An instance that was frozen for longer can still book, but
/// releases the slot when the store refuses its turn.
const KEEP_FENCES_MICROS: i64 = 3600 * 1_000_000;
const MONTHS: [&str; 12] = [
    "janvier",
    "février",
    "mars",
    "avril",
    "mai",
    "juin",
    "juillet",
    "août",
    "septembre",
    "octobre",
    "novembre",
    "décembre",
];

/// The start of an appointment, such as `2026-11-24T09:00:00`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Slot(DateTime);

impl Slot {
    pub(crate) fn weekday(self) -> Weekday {
        self.0.weekday()
    }
}

impl From<Slot> for String {
    fn from(slot: Slot) -> Self {
        slot.0.to_string()
    }
}

impl TryFrom<String> for Slot {
    type Error = jiff::Error;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Ok(Self(text.parse()?))
    }
}

/// The spoken form: `mardi 24 novembre à 9 heures`.
impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = self.0;
        let (day, month) = (
            day_name(start.weekday()),
            MONTHS[usize::from(start.month().unsigned_abs()) - 1],
        );
        write!(f, "{day} {} {month} à {} heures", start.day(), start.hour())?;
        match start.minute() {
            0 => Ok(()),
            minute => write!(f, " {minute}"),
        }
    }
}

/// The appointments of one tenant: slots and their holders.
pub(crate) struct Calendar {
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    note: String,
    /// The first day that is offered; `None`: tomorrow.
    from: Option<Date>,
}

/// The call that holds a slot, and the fence under which it was booked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    call: String,
    fence: u64,
}

type BookedSlots = BTreeMap<Slot, Holder>;

/// A call's newest fence, and the time at which the calendar first received it, in microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct NewestFence {
    fence: u64,
    at: i64,
}

/// The content of the note.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct CalendarNote {
    booked: BookedSlots,
    fences: BTreeMap<String, NewestFence>,
}

impl CalendarNote {
    /// Checks the fence of an instance that books for a call, and stores the fence if it is new.
    ///
    /// # Errors
    /// `stale_fence` if another process has held the call since.
    fn check_fence(&mut self, call: &SessionId, fence: u64, now: i64) -> Result<(), Failure> {
        let call = call.as_str();
        let newest = self.fences.get(call).map_or(0, |newest| newest.fence);
        if newest > fence {
            let detail = format!("call {call:?} is held by another process");
            return Err(Failure::new(ErrorCode::StaleFence, detail));
        }
        if newest < fence {
            self.fences
                .retain(|_, newest| newest.at > now - KEEP_FENCES_MICROS);
            self.fences
                .insert(call.to_owned(), NewestFence { fence, at: now });
        }
        Ok(())
    }
}

impl Calendar {
    pub(crate) fn new(
        ledger: Arc<dyn Ledger>,
        clock: Arc<dyn Clock>,
        tenant: &TenantId,
        from: Option<Date>,
    ) -> Self {
        Self {
            ledger,
            clock,
            note: format!("voice-agent/agenda/{tenant}"),
            from,
        }
    }

    /// Returns the first slots that are free for a call, except those in `except`; with `day`, only on that weekday.
    pub(crate) async fn free(
        &self,
        call: &SessionId,
        except: &[Slot],
        day: Option<Weekday>,
    ) -> Result<Vec<Slot>, Failure> {
        let booked = self.booked().await?;
        let first = self.first_day();
        let days = (0..DAYS).filter_map(|n| first.checked_add(n.days()).ok());
        let days: Vec<Date> = days
            .filter(|date| match (date.weekday(), day) {
                (Weekday::Saturday | Weekday::Sunday, _) => false,
                (weekday, requested) => requested.is_none_or(|day| day == weekday),
            })
            .collect();
        let free = TIMES
            .iter()
            .flat_map(|time| days.iter().map(|day| Slot(day.to_datetime(*time))));
        let is_taken = |slot: &Slot| {
            booked
                .get(slot)
                .is_some_and(|holder| holder.call != call.as_str())
        };
        Ok(free
            .filter(|slot| !except.contains(slot) && !is_taken(slot))
            .take(PROPOSED_SLOTS)
            .collect())
    }

    /// Books a slot for a call; `false` if another call holds it.
    ///
    /// # Errors
    /// `stale_fence` if another process has held the call since, and the ledger's errors.
    pub(crate) async fn book(
        &self,
        call: &SessionId,
        fence: u64,
        slot: Slot,
    ) -> Result<bool, Failure> {
        let now = self.clock.now().as_micros();
        self.change(|note| {
            note.check_fence(call, fence, now)?;
            let call = call.as_str();
            if note.booked.get(&slot).is_some_and(|h| h.call != call) {
                return Ok(false);
            }
            note.booked.retain(|_, holder| holder.call != call);
            let call = call.to_owned();
            note.booked.insert(slot, Holder { call, fence });
            Ok(true)
        })
        .await
    }

    /// Releases the slot that a call has booked, unless it was booked under a newer fence. Afterwards the call cannot
    /// book under an older fence.
    ///
    /// # Errors
    /// The ledger's.
    pub(crate) async fn release_slot(&self, call: &SessionId, fence: u64) -> Result<(), Failure> {
        let now = self.clock.now().as_micros();
        self.change(|note| {
            let is_own = |holder: &Holder| holder.call == call.as_str() && holder.fence <= fence;
            note.booked.retain(|_, holder| !is_own(holder));
            // Fails if another process holds the call under a newer fence, whose slot stays.
            let _stale_fence = note.check_fence(call, fence, now);
            Ok(())
        })
        .await
    }

    /// Changes the note by compare-and-set; retries on the new state if another process has changed it meanwhile.
    async fn change<R>(
        &self,
        mut change: impl FnMut(&mut CalendarNote) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        loop {
            let (mut note, version) = self.read_note().await?;
            let previous = note.clone();
            let result = change(&mut note)?;
            if note == previous {
                return Ok(result);
            }
            let value = serde_json::to_vec(&note).map_err(unreadable)?;
            if self.ledger.put_note(&self.note, version, value).await? {
                return Ok(result);
            }
        }
    }

    /// All booked slots.
    ///
    /// # Errors
    /// The ledger's.
    pub(crate) async fn booked(&self) -> Result<BookedSlots, Failure> {
        Ok(self.read_note().await?.0.booked)
    }

    /// The note's content and version.
    async fn read_note(&self) -> Result<(CalendarNote, u64), Failure> {
        match self.ledger.note(&self.note).await? {
            None => Ok((CalendarNote::default(), 0)),
            Some(note) => {
                let content = serde_json::from_slice(&note.value).map_err(unreadable)?;
                Ok((content, note.version))
            }
        }
    }

    fn first_day(&self) -> Date {
        let today = || {
            let now = jiff::Timestamp::from_microsecond(self.clock.now().as_micros());
            let now = now.unwrap_or(jiff::Timestamp::UNIX_EPOCH);
            now.to_zoned(jiff::tz::TimeZone::UTC).date()
        };
        self.from.unwrap_or_else(|| today().saturating_add(1.day()))
    }
}

fn unreadable(error: serde_json::Error) -> Failure {
    Failure::new(ErrorCode::Internal, format!("the calendar: {error}"))
}

#[cfg(test)]
mod tests {
    use filrouge_store::memory::MemoryLedger;
    use filrouge_store::{Keyring, OsEntropy};
    use filrouge_types::SystemClock;

    use super::*;

    #[tokio::test]
    async fn an_older_fence_neither_books_nor_releases_a_slot() {
        let (keyring, clock) = (Arc::new(Keyring::single([7; 32])), Arc::new(SystemClock));
        let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), clock.clone());
        let tenant = TenantId::new("1").unwrap();
        let calendar = Calendar::new(Arc::new(ledger), clock, &tenant, None);
        let (call, other) = (
            SessionId::new("call").unwrap(),
            SessionId::new("other").unwrap(),
        );
        let slots = calendar.free(&call, &[], None).await.unwrap();
        assert!(calendar.book(&call, 5, slots[0]).await.unwrap());
        assert!(!calendar.book(&other, 1, slots[0]).await.unwrap());
        // The current holder of the call releases the slot: the previous holder cannot book it again.
        calendar.release_slot(&call, 6).await.unwrap();
        let refused = calendar.book(&call, 5, slots[0]).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::StaleFence);
        assert!(calendar.book(&call, 7, slots[1]).await.unwrap());
        calendar.release_slot(&call, 6).await.unwrap();
        assert_eq!(calendar.booked().await.unwrap().len(), 1);
        calendar.release_slot(&call, 7).await.unwrap();
        assert!(calendar.booked().await.unwrap().is_empty());
    }
}
