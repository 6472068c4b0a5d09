//! A conversation as people read it.

use std::io::{self, Write};

use filrouge_team::coordinator::{TeamEvent, Warning};
use filrouge_team::message::{Cut, Message, MessageId, SpeakerKind};

use super::look::Look;
use super::words::{Words, fill};
use crate::output::printable;

/// Turns while somebody thinks.
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Clears the line.
const CLEAR: &str = "\r\u{1b}[K";

/// Where a conversation is shown: what agents say on one side, what is to be known beside it on the other. At a terminal
/// both are one.
pub(super) struct Screen<O, N> {
    out: O,
    notes: N,
    words: &'static Words,
    look: Look,
    /// Whether something may turn while somebody thinks.
    spins: bool,
    speech: Option<Speech>,
}

/// Who speaks now.
struct Speech {
    id: MessageId,
    speaker: Box<str>,
    name: Box<str>,
    /// Whether anything of it is shown.
    is_shown: bool,
    /// Whether the cursor is at a line's beginning.
    at_start: bool,
    /// Whether the turning line stands there.
    turns: bool,
    frame: usize,
}

/// Text as it may be shown: line ends are line feeds.
fn shown(text: &str) -> String {
    printable(&text.replace('\r', ""))
}

impl<O: Write, N: Write> Screen<O, N> {
    pub(super) fn new(out: O, notes: N, words: &'static Words, look: Look, spins: bool) -> Self {
        Self {
            out,
            notes,
            words,
            look,
            spins,
            speech: None,
        }
    }

    /// Whether the turning line is to be moved on.
    pub(super) fn is_thinking(&self) -> bool {
        let waits = |speech: &Speech| !speech.is_shown;
        self.spins && self.speech.as_ref().is_some_and(waits)
    }

    /// Moves the turning line on.
    pub(super) fn turn(&mut self) -> io::Result<()> {
        let Some(speech) = self.speech.as_mut().filter(|speech| !speech.is_shown) else {
            return Ok(());
        };
        let name = printable(&speech.name);
        let thinking = fill(self.words.thinking, &[("name", &name)]);
        let frame = FRAMES.get(speech.frame % FRAMES.len()).unwrap_or(&"");
        speech.frame += 1;
        speech.turns = true;
        let line = self.look.dim(&format!("{frame} {thinking}"));
        write!(self.out, "{CLEAR}{line}")?;
        self.out.flush()
    }

    /// Shows an event. What the human said themselves is not repeated.
    pub(super) fn show(&mut self, event: &TeamEvent) -> io::Result<()> {
        match event {
            TeamEvent::Said(message) if message.speaker.kind == SpeakerKind::System => {
                let text = self.look.dim(&shown(&message.content));
                self.note(&text)
            }
            TeamEvent::Began(message) => {
                self.speech = Some(Speech {
                    id: message.id.clone(),
                    speaker: message.speaker.id.clone(),
                    name: message.speaker.name.clone(),
                    is_shown: false,
                    at_start: true,
                    turns: false,
                    frame: 0,
                });
                if self.spins { self.turn() } else { Ok(()) }
            }
            TeamEvent::Text { id, text } => self.text(id, text),
            TeamEvent::Ended { message, error } => {
                self.ended(message)?;
                match error {
                    Some(error) => {
                        let name = printable(&message.speaker.name);
                        let why = shown(&error.detail);
                        let values: [(&str, &dyn std::fmt::Display); 2] =
                            [("name", &name), ("why", &why)];
                        self.wrong(&fill(self.words.agent_failed, &values))
                    }
                    None => Ok(()),
                }
            }
            TeamEvent::Warning(warning) => self.warning(warning),
            TeamEvent::Drift(drift) => {
                let names: Vec<_> = drift.iter().map(|one| printable(&one.name)).collect();
                let text = fill(self.words.drift, &[("names", &names.join(", "))]);
                self.wrong(&text)
            }
            TeamEvent::TaskSet { task, .. } => self.task(task.as_deref()),
            TeamEvent::NotKept { failure, .. } => {
                let why = shown(&failure.detail);
                self.wrong(&fill(self.words.not_kept, &[("why", &why)]))
            }
            TeamEvent::Said(_)
            | TeamEvent::Queue(_)
            | TeamEvent::HandedOver(_)
            | TeamEvent::Closed(_) => Ok(()),
        }
    }

    /// What the team works on.
    pub(super) fn task(&mut self, task: Option<&str>) -> io::Result<()> {
        let text = match task {
            Some(task) => fill(self.words.task, &[("task", &shown(task))]),
            None => self.words.no_task.to_owned(),
        };
        self.note(&text)
    }

    /// A whole message, of the history.
    pub(super) fn message(&mut self, message: &Message, when: &str) -> io::Result<()> {
        let name = printable(&message.speaker.name);
        let name = self.look.name(&message.speaker.id, &name);
        let head = self.look.dim(&format!("{} {when}", message.id));
        writeln!(self.out, "{name}  {head}")?;
        let text = shown(&message.content);
        writeln!(self.out, "{}", text.trim_end_matches('\n'))?;
        self.cut(message.cut)?;
        writeln!(self.out)?;
        self.out.flush()
    }

    /// Something to know.
    pub(super) fn note(&mut self, text: &str) -> io::Result<()> {
        self.break_line()?;
        self.out.flush()?;
        writeln!(self.notes, "{text}")?;
        self.notes.flush()
    }

    /// Something that is wrong.
    pub(super) fn wrong(&mut self, text: &str) -> io::Result<()> {
        let text = self.look.wrong(text);
        self.note(&text)
    }

    /// A name in its colour.
    pub(super) fn name(&self, id: &str, name: &str) -> String {
        self.look.name(id, &printable(name))
    }

    fn text(&mut self, id: &str, text: &str) -> io::Result<()> {
        let Some(speech) = self.speech.as_mut().filter(|speech| *speech.id == *id) else {
            return Ok(());
        };
        if speech.turns {
            write!(self.out, "{CLEAR}")?;
            speech.turns = false;
        }
        if !speech.is_shown {
            let name = printable(&speech.name);
            writeln!(self.out, "{}:", self.look.name(&speech.speaker, &name))?;
            speech.is_shown = true;
        }
        let text = shown(text);
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
                let nothing = self.look.dim(self.words.said_nothing);
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
        let word = self.look.dim(&format!("[{word}]"));
        writeln!(self.out, "{word}")
    }

    /// Nothing stands on the line any more.
    fn break_line(&mut self) -> io::Result<()> {
        let Some(speech) = &mut self.speech else {
            return Ok(());
        };
        if speech.turns {
            write!(self.out, "{CLEAR}")?;
            speech.turns = false;
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
                fill(words.task_not_set, &[("why", &shown(&failure.detail))])
            }
        };
        self.wrong(&text)
    }
}
