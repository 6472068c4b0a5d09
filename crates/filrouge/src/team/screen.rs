//! A conversation as text for people.

use std::io::{self, Write};

use filrouge_team::coordinator::{TeamEvent, Warning};
use filrouge_team::message::{Cut, Message, MessageId, SpeakerKind};

use super::style::Style;
use super::words::{Words, fill};
use crate::output::printable;

/// Frames of the spinner.
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Clears the line.
const CLEAR: &str = "\r\u{1b}[K";

/// The output of a conversation: agents' texts go to `out`, remarks to `notes`. An interactive conversation uses stdout
/// for both.
pub(super) struct Screen<O, N> {
    out: O,
    notes: N,
    words: &'static Words,
    style: Style,
    /// Whether a spinner is shown until an agent says something.
    spins: bool,
    /// The message that an agent is speaking; `None` while no agent speaks.
    speech: Option<Speech>,
}

/// The message of the present speaker, as far as it is shown.
struct Speech {
    id: MessageId,
    speaker: Box<str>,
    name: Box<str>,
    /// Whether any of the message is shown.
    is_shown: bool,
    /// Whether the cursor is at the start of a line.
    at_start: bool,
    /// Whether the spinner is shown.
    has_spinner: bool,
    frame: usize,
}

/// Makes a text safe to show: removes carriage returns, and replaces control characters other than line feeds and tabs.
fn safe(text: &str) -> String {
    printable(&text.replace('\r', ""))
}

impl<O: Write, N: Write> Screen<O, N> {
    pub(super) fn new(out: O, notes: N, words: &'static Words, style: Style, spins: bool) -> Self {
        Self {
            out,
            notes,
            words,
            style,
            spins,
            speech: None,
        }
    }

    /// Whether an agent is speaking of which nothing is shown yet, so that the spinner should advance.
    pub(super) fn is_thinking(&self) -> bool {
        let waits = |speech: &Speech| !speech.is_shown;
        self.spins && self.speech.as_ref().is_some_and(waits)
    }

    /// Advances the spinner.
    pub(super) fn spin(&mut self) -> io::Result<()> {
        let Some(speech) = self.speech.as_mut().filter(|speech| !speech.is_shown) else {
            return Ok(());
        };
        let name = printable(&speech.name);
        let thinking = fill(self.words.thinking, &[("name", &name)]);
        let frame = FRAMES.get(speech.frame % FRAMES.len()).unwrap_or(&"");
        speech.frame += 1;
        speech.has_spinner = true;
        let line = self.style.dim(&format!("{frame} {thinking}"));
        write!(self.out, "{CLEAR}{line}")?;
        self.out.flush()
    }

    /// Shows an event. The human's own message is not repeated.
    pub(super) fn show(&mut self, event: &TeamEvent) -> io::Result<()> {
        match event {
            TeamEvent::Said(message) if message.speaker.kind == SpeakerKind::System => {
                let text = self.style.dim(&safe(&message.content));
                self.note(&text)
            }
            TeamEvent::Began(message) => {
                self.speech = Some(Speech {
                    id: message.id.clone(),
                    speaker: message.speaker.id.clone(),
                    name: message.speaker.name.clone(),
                    is_shown: false,
                    at_start: true,
                    has_spinner: false,
                    frame: 0,
                });
                if self.spins { self.spin() } else { Ok(()) }
            }
            TeamEvent::Text { id, text } => self.text(id, text),
            TeamEvent::Ended { message, error } => {
                self.ended(message)?;
                match error {
                    Some(error) => {
                        let name = printable(&message.speaker.name);
                        let why = safe(&error.detail);
                        let values: [(&str, &dyn std::fmt::Display); 2] =
                            [("name", &name), ("why", &why)];
                        self.error(&fill(self.words.agent_failed, &values))
                    }
                    None => Ok(()),
                }
            }
            TeamEvent::Warning(warning) => self.warning(warning),
            TeamEvent::Drift(drift) => {
                let names: Vec<_> = drift.iter().map(|one| printable(&one.name)).collect();
                let text = fill(self.words.drift, &[("names", &names.join(", "))]);
                self.error(&text)
            }
            TeamEvent::TaskSet { task, .. } => self.task(task.as_deref()),
            TeamEvent::NotKept { failure, .. } => {
                let why = safe(&failure.detail);
                self.error(&fill(self.words.not_kept, &[("why", &why)]))
            }
            TeamEvent::Said(_)
            | TeamEvent::Queue(_)
            | TeamEvent::HandedOver(_)
            | TeamEvent::Closed(_) => Ok(()),
        }
    }

    /// Shows the team's task.
    pub(super) fn task(&mut self, task: Option<&str>) -> io::Result<()> {
        let text = match task {
            Some(task) => fill(self.words.task, &[("task", &safe(task))]),
            None => self.words.no_task.to_owned(),
        };
        self.note(&text)
    }

    /// Shows a complete message of the history.
    pub(super) fn message(&mut self, message: &Message, when: &str) -> io::Result<()> {
        let name = printable(&message.speaker.name);
        let name = self.style.name(&message.speaker.id, &name);
        let head = self.style.dim(&format!("{} {when}", message.id));
        writeln!(self.out, "{name}  {head}")?;
        let text = safe(&message.content);
        writeln!(self.out, "{}", text.trim_end_matches('\n'))?;
        self.cut(message.cut)?;
        writeln!(self.out)?;
        self.out.flush()
    }

    /// Shows a remark.
    pub(super) fn note(&mut self, text: &str) -> io::Result<()> {
        self.break_line()?;
        self.out.flush()?;
        writeln!(self.notes, "{text}")?;
        self.notes.flush()
    }

    /// Shows an error.
    pub(super) fn error(&mut self, text: &str) -> io::Result<()> {
        let text = self.style.error(text);
        self.note(&text)
    }

    /// A name in its color.
    pub(super) fn name(&self, id: &str, name: &str) -> String {
        self.style.name(id, &printable(name))
    }

    fn text(&mut self, id: &str, text: &str) -> io::Result<()> {
        let Some(speech) = self.speech.as_mut().filter(|speech| *speech.id == *id) else {
            return Ok(());
        };
        if speech.has_spinner {
            write!(self.out, "{CLEAR}")?;
            speech.has_spinner = false;
        }
        if !speech.is_shown {
            let name = printable(&speech.name);
            writeln!(self.out, "{}:", self.style.name(&speech.speaker, &name))?;
            speech.is_shown = true;
        }
        let text = safe(text);
        if let Some(last) = text.chars().last() {
            speech.at_start = last == '\n';
        }
        write!(self.out, "{text}")?;
        self.out.flush()
    }

    fn ended(&mut self, message: &Message) -> io::Result<()> {
        let silent = self.speech.as_ref().is_some_and(|one| !one.is_shown);
        if silent {
            self.text(&message.id, "")?;
            if message.cut.is_none() {
                let nothing = self.style.dim(self.words.said_nothing);
                writeln!(self.out, "{nothing}")?;
            }
        }
        self.break_line()?;
        self.speech = None;
        self.cut(message.cut)?;
        writeln!(self.out)?;
        self.out.flush()
    }

    fn cut(&mut self, cut: Option<Cut>) -> io::Result<()> {
        let word = match cut {
            None => return Ok(()),
            Some(Cut::Cancelled) => self.words.cancelled,
            Some(Cut::Failed) => self.words.failed,
            Some(Cut::Interrupted) => self.words.interrupted,
        };
        let word = self.style.dim(&format!("[{word}]"));
        writeln!(self.out, "{word}")
    }

    /// Starts a new line, unless the cursor is on an empty one.
    fn break_line(&mut self) -> io::Result<()> {
        let Some(speech) = &mut self.speech else {
            return Ok(());
        };
        if speech.has_spinner {
            write!(self.out, "{CLEAR}")?;
            speech.has_spinner = false;
        } else if !speech.at_start {
            writeln!(self.out)?;
            speech.at_start = true;
        }
        Ok(())
    }

    fn warning(&mut self, warning: &Warning) -> io::Result<()> {
        let words = self.words;
        let text = match warning {
            Warning::Unresolved {
                identifiers,
                members,
                ..
            } => {
                let listed = |names: &[Box<str>]| printable(&names.join(", "));
                let (names, members) = (listed(identifiers), listed(members));
                let values: [(&str, &dyn std::fmt::Display); 2] =
                    [("names", &names), ("members", &members)];
                fill(words.unresolved, &values)
            }
            Warning::Malformed { replaced, .. } => fill(words.malformed, &[("n", replaced)]),
            Warning::AgentTurns { limit } => fill(words.agent_turns, &[("n", limit)]),
            Warning::Dropped { count } => fill(words.dropped, &[("n", count)]),
            Warning::TaskRefused(failure) => {
                fill(words.task_not_set, &[("why", &safe(&failure.detail))])
            }
        };
        self.error(&text)
    }
}
