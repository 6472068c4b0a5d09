//! Processes an answer to the proposed slots. A booking ends the call, so the agent asks again unless the answer is
//! certain.

use jiff::civil::Weekday;

use super::{CalendarRequest, Dialogue, StepResult};
use crate::calendar::Slot;
use crate::french::{Choice, Interpretation};

/// The decision in an answer to the proposed slots.
enum Decision {
    /// The caller wants this slot.
    Slot(Slot),
    /// The caller wants other slots, on this day if one was named.
    Others(Option<Weekday>),
    /// The agent repeats its question.
    Unclear,
}

impl Dialogue {
    /// Processes an answer to the proposed slots.
    pub(super) fn choose(&mut self, interpretation: &Interpretation) -> StepResult {
        let refused = self.refused_slots(&interpretation.choice);
        if !refused.is_empty() {
            self.proposed.retain(|slot| !refused.contains(slot));
            self.chosen = self.chosen.filter(|slot| !refused.contains(slot));
            self.rejected.extend(refused);
            return self.request_slots(interpretation.choice.day);
        }
        match self.decide(interpretation) {
            Decision::Slot(slot) => {
                (self.chosen, self.retries) = (Some(slot), 0);
                StepResult::AskCalendar(CalendarRequest::Book { slot })
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
    fn refused_slots(&self, choice: &Choice) -> Vec<Slot> {
        let numbered = self.proposed.iter().enumerate();
        numbered
            .filter(|(index, slot)| {
                choice.refused_numbers.contains(&(index + 1))
                    || choice.refused_days.contains(&slot.weekday())
            })
            .map(|(_, slot)| *slot)
            .collect()
    }

    fn decide(&self, interpretation: &Interpretation) -> Decision {
        let choice = &interpretation.choice;
        let slot_or_unclear = |slot: Option<Slot>| slot.map_or(Decision::Unclear, Decision::Slot);
        let numbered = choice
            .number
            .and_then(|n| self.proposed.get(n.checked_sub(1)?))
            .copied();
        let on_day = self
            .proposed
            .iter()
            .filter(|slot| Some(slot.weekday()) == choice.day);
        let on_day: Vec<Slot> = on_day.copied().collect();
        match (choice.number, choice.day) {
            (None, Some(_)) if on_day.is_empty() => Decision::Others(choice.day),
            // By « non, le 2 », some callers choose the second slot and others refuse it.
            (Some(_), _) | (_, Some(_)) if interpretation.negated => Decision::Unclear,
            (Some(_), day) => {
                slot_or_unclear(numbered.filter(|s| day.is_none_or(|day| s.weekday() == day)))
            }
            (None, Some(_)) if !choice.has_only_choice => Decision::Others(choice.day),
            (None, Some(_)) => slot_or_unclear(Some(on_day[0]).filter(|_| on_day.len() == 1)),
            _ if choice.unclear => Decision::Unclear,
            _ if interpretation.yes => {
                slot_or_unclear(self.chosen.or_else(|| self.proposed.first().copied()))
            }
            _ if interpretation.no => Decision::Others(None),
            _ if interpretation.negated => Decision::Unclear,
            // A slot chosen while the calendar did not answer is still to be booked.
            _ => slot_or_unclear(self.chosen),
        }
    }
}
