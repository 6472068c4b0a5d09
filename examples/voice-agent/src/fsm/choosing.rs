//! Processes an answer to the proposed slots. A booking ends the call, so the agent asks again unless the answer is
//! certain.

use jiff::civil::Weekday;

use super::{CalendarRequest, Dialogue, Next};
use crate::calendar::Slot;
use crate::french::{Choice, Understood};

/// The decision in an answer to the proposed slots.
enum Decision {
    /// The caller wants this slot.
    Slot(Slot),
    /// The caller wants other slots, on this day if one was named.
    Others(Option<Weekday>),
    /// The caller is asked again.
    Unclear,
}

impl Dialogue {
    /// Processes an answer to the proposed slots.
    pub(super) fn choose(&mut self, understood: &Understood) -> Next {
        let refused = self.refused(&understood.choice);
        if !refused.is_empty() {
            self.proposed.retain(|slot| !refused.contains(slot));
            self.chosen = self.chosen.filter(|slot| !refused.contains(slot));
            self.rejected.extend(refused);
            return self.request_slots(understood.choice.day);
        }
        match self.decision(understood) {
            Decision::Slot(slot) => {
                (self.chosen, self.retries) = (Some(slot), 0);
                Next::AskCalendar(CalendarRequest::Book { slot })
            }
            Decision::Others(None) => {
                self.rejected.append(&mut self.proposed);
                self.chosen = None;
                self.request_slots(None)
            }
            Decision::Others(day) => self.request_slots(day),
            Decision::Unclear => self.not_understood(),
        }
    }

    /// The proposed slots that were refused by number or day.
    fn refused(&self, choice: &Choice) -> Vec<Slot> {
        let numbered = self.proposed.iter().enumerate();
        numbered
            .filter(|(at, slot)| {
                choice.not_numbers.contains(&(at + 1)) || choice.not_days.contains(&slot.weekday())
            })
            .map(|(_, slot)| *slot)
            .collect()
    }

    fn decision(&self, understood: &Understood) -> Decision {
        let choice = &understood.choice;
        let slot = |slot: Option<Slot>| slot.map_or(Decision::Unclear, Decision::Slot);
        let numbered = choice
            .number
            .and_then(|n| self.proposed.get(n.checked_sub(1)?))
            .copied();
        let mut on_day = self.proposed.iter();
        let on_day = on_day
            .by_ref()
            .filter(|slot| Some(slot.weekday()) == choice.day);
        let on_day: Vec<Slot> = on_day.copied().collect();
        match (choice.number, choice.day) {
            (None, Some(_)) if on_day.is_empty() => Decision::Others(choice.day),
            // Some callers mean the second slot by « non, le 2 », others refuse it.
            (Some(_), _) | (_, Some(_)) if understood.negated => Decision::Unclear,
            (Some(_), day) => slot(numbered.filter(|s| day.is_none_or(|day| s.weekday() == day))),
            (None, Some(_)) if !choice.day_alone => Decision::Others(choice.day),
            (None, Some(_)) => slot(Some(on_day[0]).filter(|_| on_day.len() == 1)),
            _ if choice.unclear => Decision::Unclear,
            _ if understood.yes => slot(self.chosen.or_else(|| self.proposed.first().copied())),
            _ if understood.no => Decision::Others(None),
            _ if understood.negated => Decision::Unclear,
            // A slot chosen while the calendar did not answer is still to be booked.
            _ => slot(self.chosen),
        }
    }
}
