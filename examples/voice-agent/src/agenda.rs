//! The appointments: one note of the store, a JSON object of slots and the calls that have them, compared and set. So no slot
//! is given twice, whichever instances book at once, and a call has one slot at most: booking again changes nothing, and
//! booking another one gives the first free. Beside them is the highest fence that each call was heard of under, so that an
//! instance that has lost the call does not book any more.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use filrouge_store::Ledger;
use filrouge_types::{Clock, ErrorCode, Failure, SessionId, TenantId};
use jiff::ToSpan;
use jiff::civil::{Date, DateTime, Time, Weekday, time};
use serde::{Deserialize, Serialize};

use crate::french::day_name;

/// Slots of one day.
const TIMES: [Time; 4] = [
    time(9, 0, 0, 0),
    time(10, 30, 0, 0),
    time(14, 0, 0, 0),
    time(16, 0, 0, 0),
];
/// Days that are offered.
const DAYS: i64 = 14;
/// Slots that are proposed at once.
const PROPOSED: usize = 3;
/// How long fences are kept, in microseconds: what an instance books that was frozen for longer it gives back itself, when
/// its turn is refused.
const KEPT: i64 = 3600 * 1_000_000;
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

/// When an appointment begins, such as `2026-11-24T09:00:00`.
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

/// As it is spoken: `mardi 24 novembre à 9 heures`.
impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.0;
        let (day, month) = (
            day_name(at.weekday()),
            MONTHS[usize::from(at.month().unsigned_abs()) - 1],
        );
        write!(f, "{day} {} {month} à {} heures", at.day(), at.hour())?;
        match at.minute() {
            0 => Ok(()),
            minute => write!(f, " {minute}"),
        }
    }
}

/// Which slots there are, and whose they are.
pub(crate) struct Agenda {
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    note: String,
    /// The first day that is offered; the day after today when not set.
    from: Option<Date>,
}

/// Who has a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    call: String,
    fence: u64,
}

type Booked = BTreeMap<Slot, Holder>;

/// The newest fence of a call, and when it was heard of, in microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Newest {
    fence: u64,
    at: i64,
}

/// The whole note.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Book {
    booked: Booked,
    fences: BTreeMap<String, Newest>,
}

impl Book {
    /// Takes in the fence of whoever changes what a call has.
    ///
    /// # Errors
    /// `stale_fence` when the call was held by somebody else since.
    fn hear(&mut self, call: &SessionId, fence: u64, now: i64) -> Result<(), Failure> {
        let call = call.as_str();
        let newest = self.fences.get(call).map_or(0, |newest| newest.fence);
        if newest > fence {
            let what = format!("call {call:?} is held by somebody else");
            return Err(Failure::new(ErrorCode::StaleFence, what));
        }
        if newest < fence {
            self.fences.retain(|_, newest| newest.at > now - KEPT);
            self.fences
                .insert(call.to_owned(), Newest { fence, at: now });
        }
        Ok(())
    }
}

impl Agenda {
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

    /// The first free slots for a call, other than `except`, on this day of the week if it is named.
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
                (weekday, wanted) => wanted.is_none_or(|wanted| wanted == weekday),
            })
            .collect();
        let free = TIMES
            .iter()
            .flat_map(|time| days.iter().map(|day| Slot(day.to_datetime(*time))));
        let others = |slot: &Slot| {
            booked
                .get(slot)
                .is_some_and(|holder| holder.call != call.as_str())
        };
        Ok(free
            .filter(|slot| !except.contains(slot) && !others(slot))
            .take(PROPOSED)
            .collect())
    }

    /// Gives a slot to a call; `false` when another call has it.
    ///
    /// # Errors
    /// `stale_fence` when the call was held by somebody else since, and the ledger's.
    pub(crate) async fn book(
        &self,
        call: &SessionId,
        fence: u64,
        slot: Slot,
    ) -> Result<bool, Failure> {
        let now = self.clock.now().as_micros();
        self.change(|book| {
            book.hear(call, fence, now)?;
            let call = call.as_str();
            if book.booked.get(&slot).is_some_and(|h| h.call != call) {
                return Ok(false);
            }
            book.booked.retain(|_, holder| holder.call != call);
            let call = call.to_owned();
            book.booked.insert(slot, Holder { call, fence });
            Ok(true)
        })
        .await
    }

    /// Gives free what a call has, unless it was booked under a newer fence; under an older one nothing is booked any more.
    ///
    /// # Errors
    /// The ledger's.
    pub(crate) async fn give_back(&self, call: &SessionId, fence: u64) -> Result<(), Failure> {
        let now = self.clock.now().as_micros();
        self.change(|book| {
            let own = |holder: &Holder| holder.call == call.as_str() && holder.fence <= fence;
            book.booked.retain(|_, holder| !own(holder));
            // Somebody else has the call: theirs stays.
            let _newer = book.hear(call, fence, now);
            Ok(())
        })
        .await
    }

    /// Changes the agenda; again from what somebody else has made of it meanwhile.
    async fn change<R>(
        &self,
        mut change: impl FnMut(&mut Book) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        loop {
            let (mut book, version) = self.book_of_all().await?;
            let before = book.clone();
            let done = change(&mut book)?;
            if book == before {
                return Ok(done);
            }
            let value = serde_json::to_vec(&book).map_err(unreadable)?;
            if self.ledger.put_note(&self.note, version, value).await? {
                return Ok(done);
            }
        }
    }

    /// All that is booked.
    ///
    /// # Errors
    /// The ledger's.
    pub(crate) async fn booked(&self) -> Result<Booked, Failure> {
        Ok(self.book_of_all().await?.0.booked)
    }

    /// The note, and its version.
    async fn book_of_all(&self) -> Result<(Book, u64), Failure> {
        match self.ledger.note(&self.note).await? {
            None => Ok((Book::default(), 0)),
            Some(note) => {
                let book = serde_json::from_slice(&note.value).map_err(unreadable)?;
                Ok((book, note.version))
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
    Failure::new(ErrorCode::Internal, format!("the agenda: {error}"))
}

#[cfg(test)]
mod tests {
    use filrouge_store::memory::MemoryLedger;
    use filrouge_store::{Keyring, OsEntropy};
    use filrouge_types::SystemClock;

    use super::*;

    #[tokio::test]
    async fn under_an_older_fence_nothing_is_booked_nor_given_back() {
        let (keyring, clock) = (Arc::new(Keyring::single([7; 32])), Arc::new(SystemClock));
        let ledger = MemoryLedger::new(keyring, Arc::new(OsEntropy), clock.clone());
        let tenant = TenantId::new("1").unwrap();
        let agenda = Agenda::new(Arc::new(ledger), clock, &tenant, None);
        let (call, other) = (
            SessionId::new("call").unwrap(),
            SessionId::new("other").unwrap(),
        );
        let slots = agenda.free(&call, &[], None).await.unwrap();
        assert!(agenda.book(&call, 5, slots[0]).await.unwrap());
        assert!(!agenda.book(&other, 1, slots[0]).await.unwrap());
        // Whoever has the call now gives it back: the one before cannot book it again.
        agenda.give_back(&call, 6).await.unwrap();
        let refused = agenda.book(&call, 5, slots[0]).await.unwrap_err();
        assert_eq!(refused.code, ErrorCode::StaleFence);
        assert!(agenda.book(&call, 7, slots[1]).await.unwrap());
        agenda.give_back(&call, 6).await.unwrap();
        assert_eq!(agenda.booked().await.unwrap().len(), 1);
        agenda.give_back(&call, 7).await.unwrap();
        assert!(agenda.booked().await.unwrap().is_empty());
    }
}
