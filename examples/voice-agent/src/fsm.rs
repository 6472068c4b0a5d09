//! The dialogue: START → QUALIF → SLOTS → WAIT_CONFIRM → CONFIRMED | TRANSFERRED.
//!
//! A step depends only on the dialogue, the utterance and the calendar's answers. The ledger records utterances and
//! calendar answers, so replaying the items after a checkpoint restores the dialogue.

mod choosing;
mod state;
#[cfg(test)]
mod tests;

use jiff::civil::Weekday;
use serde::{Deserialize, Serialize};

use crate::calendar::Slot;
use crate::french::{self, Choice, Interpretation, interpret};

pub(crate) use state::{State, TERMINAL};

/// After this number of consecutive utterances that are not understood, the call is transferred to a human being.
const MAX_RETRIES: u32 = 3;
/// After this number of failures of the calendar, the call is transferred to a human being.
const MAX_CALENDAR_FAILURES: u32 = 20;

const WELCOME_PHRASE: &str = "Bonjour, cabinet du docteur Martin. Notre échange est conservé pour préparer votre rendez-vous : êtes-vous d'accord ?";
const NAME_QUESTION: &str = "À quel nom dois-je prendre le rendez-vous ?";
const REASON_QUESTION: &str = "Quel est le motif de votre visite ?";
const NUMBER_QUESTION: &str = "À quel numéro peut-on vous joindre ?";
const TRANSFER_PHRASE: &str = "Je vous passe un conseiller, ne quittez pas.";
const CALENDAR_UNREACHABLE_PHRASE: &str = "L'agenda met un peu de temps à répondre. Restez en ligne, je réessaie : vous êtes toujours là ?";

/// The route on which an utterance arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Route {
    /// `chat/completions`.
    Completions,
    /// Server messages of type `transcript`.
    Transcript,
    /// Server messages of type `tool-calls`.
    Tool,
}

/// A tool call of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", content = "parameters", rename_all = "snake_case")]
pub(crate) enum Tool {
    ProposeSlots {
        #[serde(default)]
        name: Option<String>,
        #[serde(default)]
        reason: Option<String>,
        #[serde(default)]
        phone: Option<String>,
        #[serde(default)]
        day: Option<String>,
    },
    BookSlot {
        choice: usize,
    },
    Transfer {},
}

/// The content of a webhook. The turn records `text` as its question, and the other members as metadata of the
/// question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeardUtterance {
    #[serde(skip)]
    pub(crate) text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool: Option<Tool>,
    /// The caller's own number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) caller: Option<String>,
    pub(crate) route: Route,
    /// The number of the caller's messages, including this one.
    #[serde(default)]
    pub(crate) messages: usize,
}

/// A request to the calendar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "name", content = "args", rename_all = "snake_case")]
pub(crate) enum CalendarRequest {
    Free {
        except: Vec<Slot>,
        day: Option<&'static str>,
    },
    Book {
        slot: Slot,
    },
}

/// The calendar's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CalendarAnswer {
    Free(Vec<Slot>),
    Booked,
    Taken,
    /// The calendar did not answer.
    Unreachable,
}

/// The result of a step of the dialogue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StepResult {
    Say(String),
    AskCalendar(CalendarRequest),
}

/// The complete state of a call, which its checkpoints store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Dialogue {
    pub(crate) state: State,
    pub(crate) caller: Option<String>,
    pub(crate) consent: Option<bool>,
    pub(crate) name: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) contact: Option<String>,
    /// Whether the caller has declined to be called back at their own number.
    other_number: bool,
    pub(crate) proposed: Vec<Slot>,
    rejected: Vec<Slot>,
    pub(crate) chosen: Option<Slot>,
    /// The number of consecutive utterances that were not understood.
    retries: u32,
    /// The total number of utterances that were not understood.
    not_understood: u32,
    /// The number of requests that the calendar did not answer.
    #[serde(rename = "agenda_failures")]
    calendar_failures: u32,
    pub(crate) turns: u64,
    /// The number of the caller's messages that were handled.
    pub(crate) heard: usize,
    route: Option<Route>,
    /// The last utterance, if it was a transcript and no completion has arrived since.
    #[serde(default)]
    last_transcript: Option<String>,
    pub(crate) transfer_reason: Option<String>,
    pub(crate) last_utterance: String,
}

impl Dialogue {
    /// Whether an utterance on this route also arrives as a completion. The completion is handled, because only its
    /// answer is spoken.
    pub(crate) fn is_copy(&self, route: Route) -> bool {
        route == Route::Transcript && self.route == Some(Route::Completions)
    }

    /// Whether the last transcript has the words of this completion, which then gets the same answer.
    pub(crate) fn was_transcribed(&self, route: Route, text: &str) -> bool {
        let transcript = self.last_transcript.as_deref();
        route == Route::Completions && transcript.is_some_and(|t| french::same_words(t, text))
    }

    /// Returns the words of the caller's messages that are not handled yet, including messages sent during a filler. At
    /// the first completion, the messages up to the newest transcript count as handled.
    pub(crate) fn unheard(&self, messages: &[String]) -> String {
        if let Some(transcript) = &self.last_transcript {
            if french::ends_with(&messages.join(" "), transcript) {
                return transcript.clone();
            }
            let heard = messages
                .iter()
                .rposition(|m| french::ends_with(m, transcript));
            let last = messages.len().saturating_sub(1);
            return messages[heard.map_or(last, |index| index + 1)..].join(" ");
        }
        let first_unheard = self.heard.min(messages.len().saturating_sub(1));
        messages[first_unheard..].join(" ")
    }

    /// Processes an utterance; returns the answer or a request to the calendar.
    pub(crate) fn hear(&mut self, heard: &HeardUtterance) -> StepResult {
        self.turns += 1;
        self.heard = self.heard.max(heard.messages);
        let is_repeat = self.was_transcribed(heard.route, &heard.text);
        match heard.route {
            Route::Tool => {}
            Route::Completions => (self.route, self.last_transcript) = (Some(heard.route), None),
            Route::Transcript => {
                self.route.get_or_insert(heard.route);
                self.last_transcript = Some(heard.text.clone());
            }
        }
        if is_repeat {
            return StepResult::Say(self.last_utterance.clone());
        }
        if self.caller.is_none() {
            self.caller.clone_from(&heard.caller);
        }
        match &heard.tool {
            Some(tool) => self.hear_tool(tool),
            None => self.hear_words(&heard.text),
        }
    }

    fn hear_words(&mut self, text: &str) -> StepResult {
        let interpretation = interpret(text);
        if interpretation.human {
            return self.transfer("caller_asked");
        }
        match self.state {
            State::Start => {
                self.state = State::Qualif;
                self.say(WELCOME_PHRASE)
            }
            State::Qualif => self.qualify(text, &interpretation),
            State::Slots => self.request_slots(interpretation.choice.day),
            State::WaitConfirm => self.choose(&interpretation),
            State::Confirmed | State::Transferred => self.say(TRANSFER_PHRASE),
        }
    }

    fn hear_tool(&mut self, tool: &Tool) -> StepResult {
        match tool {
            Tool::ProposeSlots {
                name,
                reason,
                phone,
                day,
            } => {
                for (field, value) in [(&mut self.name, name), (&mut self.reason, reason)] {
                    if value.is_some() {
                        field.clone_from(value);
                    }
                }
                let phone = phone.as_deref().and_then(french::phone);
                self.contact = phone
                    .or(self.contact.take())
                    .or_else(|| self.caller.clone());
                self.request_slots(day.as_deref().and_then(french::day_named))
            }
            Tool::BookSlot { choice } => self.choose(&Interpretation {
                choice: Choice {
                    number: Some(*choice),
                    ..Choice::default()
                },
                ..Interpretation::default()
            }),
            Tool::Transfer {} => self.transfer("model_asked"),
        }
    }

    /// Processes the answer to the open question: consent, name, reason or number.
    fn qualify(&mut self, text: &str, interpretation: &Interpretation) -> StepResult {
        if self.consent.is_none() {
            match (interpretation.yes, interpretation.no) {
                (true, _) => self.consent = Some(true),
                (_, true) => {
                    self.consent = Some(false);
                    return self.transfer("consent_refused");
                }
                _ => return self.not_understood(),
            }
        } else if self.name.is_none() {
            match french::name(text) {
                Some(name) => self.name = Some(name),
                None => return self.not_understood(),
            }
        } else if self.reason.is_none() {
            match text.trim() {
                "" => return self.not_understood(),
                reason => self.reason = Some(reason.to_owned()),
            }
        } else {
            let own_number = self
                .caller
                .clone()
                .filter(|_| !self.other_number && interpretation.yes);
            match interpretation.phone.clone().or(own_number) {
                Some(number) => self.contact = Some(number),
                None if interpretation.no && !self.other_number => self.other_number = true,
                None => return self.not_understood(),
            }
        }
        self.retries = 0;
        match self.contact {
            Some(_) => self.request_slots(None),
            None => self.say(self.question()),
        }
    }

    /// The open question of the current state.
    fn question(&self) -> String {
        match self.state {
            State::Start => WELCOME_PHRASE.to_owned(),
            State::Qualif if self.consent.is_none() => WELCOME_PHRASE.to_owned(),
            State::Qualif if self.name.is_none() => NAME_QUESTION.to_owned(),
            State::Qualif if self.reason.is_none() => REASON_QUESTION.to_owned(),
            State::Qualif => match &self.caller {
                Some(caller) if !self.other_number => {
                    format!("Peut-on vous joindre au {caller} ?")
                }
                _ => NUMBER_QUESTION.to_owned(),
            },
            State::WaitConfirm => self.proposal(),
            State::Slots | State::Confirmed | State::Transferred => String::new(),
        }
    }

    fn proposal(&self) -> String {
        let numbered = self.proposed.iter().enumerate();
        let numbered: Vec<String> = numbered
            .map(|(index, slot)| format!("{}, {slot}", index + 1))
            .collect();
        format!(
            "Je vous propose : {}. Dites « oui » pour le premier, un numéro, ou « non » pour d'autres dates.",
            numbered.join(" ; ")
        )
    }

    /// Requests free slots from the calendar.
    fn request_slots(&mut self, day: Option<Weekday>) -> StepResult {
        self.state = State::Slots;
        StepResult::AskCalendar(CalendarRequest::Free {
            except: self.rejected.clone(),
            day: day.map(french::day_name),
        })
    }

    /// Processes the calendar's answer.
    pub(crate) fn calendar_answered(
        &mut self,
        request: &CalendarRequest,
        answer: CalendarAnswer,
    ) -> StepResult {
        match (request, answer) {
            (CalendarRequest::Free { day: Some(_), .. }, CalendarAnswer::Free(slots))
                if slots.is_empty() =>
            {
                self.request_slots(None)
            }
            (CalendarRequest::Free { .. }, CalendarAnswer::Free(slots)) if slots.is_empty() => {
                self.transfer("no_slot")
            }
            (CalendarRequest::Free { .. }, CalendarAnswer::Free(slots)) => {
                (self.proposed, self.state) = (slots, State::WaitConfirm);
                let prefix = self
                    .chosen
                    .take()
                    .map_or("", |_| "Ce créneau vient d'être pris. ");
                self.say(format!("{prefix}{}", self.proposal()))
            }
            (CalendarRequest::Book { slot }, CalendarAnswer::Booked) => {
                self.state = State::Confirmed;
                let name = self.name.as_deref().unwrap_or_default();
                self.say(format!("C'est confirmé, {name} : {slot}. À bientôt !"))
            }
            (CalendarRequest::Book { slot }, CalendarAnswer::Taken) => {
                self.rejected.push(*slot);
                self.request_slots(None)
            }
            _ => {
                self.calendar_failures += 1;
                match self.calendar_failures {
                    MAX_CALENDAR_FAILURES.. => self.transfer("agenda_unreachable"),
                    _ => self.say(CALENDAR_UNREACHABLE_PHRASE),
                }
            }
        }
    }

    /// Repeats the open question, or hands the call over after too many retries.
    fn not_understood(&mut self) -> StepResult {
        self.retries += 1;
        self.not_understood += 1;
        match self.retries {
            MAX_RETRIES.. => self.transfer("not_understood"),
            _ => self.say(format!("Pardon, je n'ai pas compris. {}", self.question())),
        }
    }

    /// Hands the call over to a human being.
    pub(crate) fn transfer(&mut self, reason: &str) -> StepResult {
        self.state = State::Transferred;
        self.transfer_reason = Some(reason.to_owned());
        self.say(TRANSFER_PHRASE)
    }

    /// Answers with a text, and stores it as the last utterance.
    fn say(&mut self, text: impl Into<String>) -> StepResult {
        self.last_utterance = text.into();
        StepResult::Say(self.last_utterance.clone())
    }
}
