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

/// The output of a conversation: agents' texts go to `out`, remarks to `remarks`. An interactive conversation uses
/// stdout for both.
pub(super) struct Screen<Out, Remarks> {
    out: Out,
    remarks: Remarks,
    words: &'static Words,
    style: Style,
    /// Whether a spinner is shown until an agent says something.
    spinner_enabled: bool,
    /// The message that an agent is speaking; `None` while no agent speaks.
    speech: Option<Speech>,
}

/// The shown part of the message of the present speaker.
struct Speech {
    id: MessageId,
    speaker: Box<str>,
    name: Box<str>,
    /// Whether any of the message is shown.
    is_shown: bool,
    /// Whether the cursor is at the start of a line.
    at_line_start: bool,
    /// Whether the spinner is shown.
    has_spinner: bool,
    frame: usize,
}

/// Removes carriage returns, and replaces control characters other than line feeds and tabs.
fn printable_text(text: &str) -> String {
    printable(&text.replace('\r', ""))
}

impl<Out: Write, Remarks: Write> Screen<Out, Remarks> {
    pub(super) fn new(
        out: Out,
        remarks: Remarks,
        words: &'static Words,
        style: Style,
        spinner_enabled: bool,
    ) -> Self {
        Self {
            out,
            remarks,
            words,
            style,
            spinner_enabled,
            speech: None,
        }
    }

    /// Whether an agent is speaking and no text of it is shown yet, so that the spinner should advance.
    pub(super) fn is_thinking(&self) -> bool {
        let has_no_text = |speech: &Speech| !speech.is_shown;
        self.spinner_enabled && self.speech.as_ref().is_some_and(has_no_text)
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
                let text = self.style.dim(&printable_text(&message.content));
                self.remark(&text)
            }
            TeamEvent::Began(message) => {
                self.speech = Some(Speech {
                    id: message.id.clone(),
                    speaker: message.speaker.id.clone(),
                    name: message.speaker.name.clone(),
                    is_shown: false,
                    at_line_start: true,
                    has_spinner: false,
                    frame: 0,
                });
                if self.spinner_enabled {
                    self.spin()
                } else {
                    Ok(())
                }
            }
            TeamEvent::Text { id, text } => self.text(id, text),
            TeamEvent::Ended { message, error } => {
                self.end_speech(message)?;
                let Some(error) = error else { return Ok(()) };
                let name = printable(&message.speaker.name);
                let why = printable_text(&error.detail);
                let values: [(&str, &dyn std::fmt::Display); 2] = [("name", &name), ("why", &why)];
                self.error(&fill(self.words.agent_failed, &values))
            }
            TeamEvent::Warning(warning) => self.warning(warning),
            TeamEvent::FormerSpeakers(speakers) => {
                let names: Vec<_> = speakers
                    .iter()
                    .map(|speaker| printable(&speaker.name))
                    .collect();
                let text = fill(self.words.drift, &[("names", &names.join(", "))]);
                self.error(&text)
            }
            TeamEvent::TaskSet { task, .. } => self.task(task.as_deref()),
            TeamEvent::NotKept { failure, .. } => {
                let why = printable_text(&failure.detail);
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
            Some(task) => fill(self.words.task, &[("task", &printable_text(task))]),
            None => self.words.no_task.to_owned(),
        };
        self.remark(&text)
    }

    /// Shows a complete message of the history.
    pub(super) fn message(&mut self, message: &Message, when: &str) -> io::Result<()> {
        let name = printable(&message.speaker.name);
        let name = self.style.name(&message.speaker.id, &name);
        let head = self.style.dim(&format!("{} {when}", message.id));
        writeln!(self.out, "{name}  {head}")?;
        let text = printable_text(&message.content);
        writeln!(self.out, "{}", text.trim_end_matches('\n'))?;
        self.show_cut(message.cut)?;
        writeln!(self.out)?;
        self.out.flush()
    }

    /// Shows a remark.
    pub(super) fn remark(&mut self, text: &str) -> io::Result<()> {
        self.break_line()?;
        self.out.flush()?;
        writeln!(self.remarks, "{text}")?;
        self.remarks.flush()
    }

    /// Shows an error.
    pub(super) fn error(&mut self, text: &str) -> io::Result<()> {
        let text = self.style.error(text);
        self.remark(&text)
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
        let text = printable_text(text);
        if let Some(last) = text.chars().last() {
            speech.at_line_start = last == '\n';
        }
        write!(self.out, "{text}")?;
        self.out.flush()
    }

    fn end_speech(&mut self, message: &Message) -> io::Result<()> {
        let is_silent = self.speech.as_ref().is_some_and(|speech| !speech.is_shown);
        if is_silent {
            self.text(&message.id, "")?;
            if message.cut.is_none() {
                let remark = self.style.dim(self.words.said_nothing);
                writeln!(self.out, "{remark}")?;
            }
        }
        self.break_line()?;
        self.speech = None;
        self.show_cut(message.cut)?;
        writeln!(self.out)?;
        self.out.flush()
    }

    fn show_cut(&mut self, cut: Option<Cut>) -> io::Result<()> {
        let reason = match cut {
            None => return Ok(()),
            Some(Cut::Cancelled) => self.words.cancelled,
            Some(Cut::Failed) => self.words.failed,
            Some(Cut::Interrupted) => self.words.interrupted,
        };
        let remark = self.style.dim(&format!("[{reason}]"));
        writeln!(self.out, "{remark}")
    }

    /// Starts a new line, unless the cursor is on an empty one.
    fn break_line(&mut self) -> io::Result<()> {
        let Some(speech) = &mut self.speech else {
            return Ok(());
        };
        if speech.has_spinner {
            write!(self.out, "{CLEAR}")?;
            speech.has_spinner = false;
        } else if !speech.at_line_start {
            writeln!(self.out)?;
            speech.at_line_start = true;
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
                let join = |names: &[Box<str>]| printable(&names.join(", "));
                let (names, members) = (join(identifiers), join(members));
                let values: [(&str, &dyn std::fmt::Display); 2] =
                    [("names", &names), ("members", &members)];
                fill(words.unresolved, &values)
            }
            Warning::Malformed { replaced, .. } => fill(words.malformed, &[("n", replaced)]),
            Warning::AgentTurns { limit } => fill(words.agent_turns, &[("n", limit)]),
            Warning::Dropped { count } => fill(words.dropped, &[("n", count)]),
            Warning::TaskRefused(failure) => fill(
                words.task_not_set,
                &[("why", &printable_text(&failure.detail))],
            ),
        };
        self.error(&text)
    }
}
