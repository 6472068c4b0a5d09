//! Events, keys and signals of one session, until it is left.

use std::io;
use std::time::Duration;

use filrouge_team::coordinator::TeamEvent;
use filrouge_team::message::SpeakerKind;
use filrouge_team::queue::Route;
use filrouge_team::record::Record as _;
use filrouge_team::team::Team;

use super::greeting;
use crate::output::{printable, say};
use crate::team::desk::{Desk, Session};
use crate::team::editor::{Editor, Typed};
use crate::team::look::Look;
use crate::team::orders;
use crate::team::screen::Screen;
use crate::team::signals::{Asked, Signals};
use crate::team::words::fill;

/// Messages shown of a session that goes on.
const RECALLED: usize = 6;
/// Between two positions of the turning line.
const TURN: Duration = Duration::from_millis(100);

/// Why a session was left.
pub(super) enum End {
    Left,
    Signal(Asked),
    /// Another team is to be deployed.
    Deploy(Box<Team>),
}

/// What follows what was typed.
pub(super) enum Next {
    /// The floor is still the human's.
    Prompt,
    /// Others have it.
    Wait,
    /// The session is left, or ended.
    Leave {
        ends: bool,
    },
    Deploy(Box<Team>),
}

pub(super) struct Talk<'a> {
    pub(super) desk: &'a Desk<'a>,
    pub(super) team: &'a Team,
    pub(super) session: Session,
    pub(super) screen: Screen<io::Stdout, io::Stdout>,
    editor: Editor,
    waiting: Vec<Route>,
    /// The human who is waited for: a member's id.
    asked: Option<Box<str>>,
    /// Whether Ctrl-C was pressed, and nothing since.
    wants_to_leave: bool,
    /// What was told last of snapshot files.
    warned: Option<String>,
}

impl<'a> Talk<'a> {
    pub(super) fn new(
        desk: &'a Desk<'a>,
        team: &'a Team,
        session: Session,
        editor: Editor,
    ) -> Self {
        let look = match desk.is_coloured {
            true => Look::of(team),
            false => Look::plain(),
        };
        Self {
            screen: Screen::new(io::stdout(), io::stdout(), desk.words, look, true),
            desk,
            team,
            session,
            editor,
            waiting: Vec::new(),
            asked: None,
            wants_to_leave: false,
            warned: None,
        }
    }

    /// Talks until somebody leaves, and gives the session free. Why it was left, and whether all was kept.
    pub(super) async fn run(
        mut self,
        signals: &mut Signals,
    ) -> (anyhow::Result<End>, anyhow::Result<()>) {
        let ended = self.converse(signals).await;
        let ends = matches!(&ended, Ok((_, true)));
        let closed = match ends {
            true => self.session.coordinator.stop().await,
            false => self.session.coordinator.leave().await,
        };
        let id = printable(self.session.record.session_id());
        let words = self.desk.words;
        let mut told = Ok(());
        while let Ok(event) = self.session.events.try_recv() {
            told = told.and(self.screen.show(&event));
        }
        let farewell = if ends { words.ended } else { words.left };
        if closed.is_ok() && self.session.coordinator.message_count() > 0 {
            say(format_args!("\r{}", fill(farewell, &[("id", &id)])));
        }
        let told = told.map_err(anyhow::Error::from);
        (
            ended.map(|(end, _)| end),
            closed.map_err(anyhow::Error::from).and(told),
        )
    }

    async fn converse(&mut self, signals: &mut Signals) -> anyhow::Result<(End, bool)> {
        self.greet()?;
        let (mut is_humans, mut is_stopping) = (false, false);
        let mut ticks = tokio::time::interval(TURN);
        loop {
            tokio::select! {
                asked = signals.next() => match asked {
                    Asked::Interrupt if !is_humans && !is_stopping => {
                        self.screen.note(self.desk.words.stopping)?;
                        let coordinator = self.session.coordinator.clone();
                        is_stopping = true;
                        tokio::spawn(async move {
                            // What comes of it is told by events.
                            let _ = coordinator.cancel().await;
                        });
                    }
                    Asked::Interrupt => return Ok((End::Left, false)),
                    asked => return Ok((End::Signal(asked), false)),
                },
                event = self.session.events.recv() => {
                    let Some(event) = event else {
                        return Ok((End::Left, false));
                    };
                    if self.show(&event)? && !is_humans {
                        is_humans = true;
                        self.prompt()?;
                    }
                }
                typed = self.editor.next(), if is_humans => match self.typed(typed).await? {
                    Next::Prompt => self.prompt()?,
                    Next::Wait => (is_humans, is_stopping) = (false, false),
                    Next::Leave { ends } => return Ok((End::Left, ends)),
                    Next::Deploy(team) => return Ok((End::Deploy(team), false)),
                },
                _ = ticks.tick(), if self.screen.is_thinking() => self.screen.turn()?,
            }
        }
    }

    /// Shows an event; whether a human has the floor now.
    fn show(&mut self, event: &TeamEvent) -> io::Result<bool> {
        self.screen.show(event)?;
        match event {
            TeamEvent::Queue(routes) => self.waiting.clone_from(routes),
            TeamEvent::HandedOver(state) => {
                self.asked.clone_from(&state.waiting_for);
                return Ok(true);
            }
            _ => {}
        }
        Ok(false)
    }

    /// Shows what has happened meanwhile, and asks for a line.
    fn prompt(&mut self) -> io::Result<()> {
        while let Ok(event) = self.session.events.try_recv() {
            self.show(&event)?;
        }
        for warning in self.session.record.take_warnings() {
            let why = printable(&warning.to_string());
            if self.warned.as_deref() != Some(&*why) {
                let text = fill(self.desk.words.snapshot_not_written, &[("why", &why)]);
                self.screen.wrong(&text)?;
                self.warned = Some(why);
            }
        }
        if !self.waiting.is_empty() {
            let waiting = self.waiting.iter();
            let names: Vec<_> = waiting
                .map(|route| self.name_of(&route.member_id))
                .collect();
            let text = fill(self.desk.words.waiting, &[("names", &names.join(", "))]);
            self.screen.note(&text)?;
        }
        let human = self.asked.as_deref();
        let human = human.and_then(|id| self.team.member(id));
        let (id, name) = human.map_or(("", "…"), |human| (&human.id, &human.name));
        let (plain, styled) = (printable(name), self.screen.name(id, name));
        self.editor.ask(format!("{plain}> "), format!("{styled}> "));
        Ok(())
    }

    pub(super) fn name_of(&self, id: &str) -> String {
        let name = self.team.member(id).map_or(id, |member| &member.name);
        self.screen.name(id, name)
    }

    async fn typed(&mut self, typed: Typed) -> anyhow::Result<Next> {
        let line = match typed {
            Typed::Line(line) => line,
            Typed::Interrupt if !self.wants_to_leave => {
                self.wants_to_leave = true;
                self.screen.note(self.desk.words.again)?;
                return Ok(Next::Prompt);
            }
            Typed::Interrupt | Typed::End => return Ok(Next::Leave { ends: false }),
            Typed::Failed(why) => anyhow::bail!("the terminal: {why}"),
        };
        self.wants_to_leave = false;
        self.obey(orders::read(&line)).await
    }

    fn greet(&mut self) -> io::Result<()> {
        let words = self.desk.words;
        let screen = &self.screen;
        let text = greeting(self.desk, self.team, |id, name| screen.name(id, name));
        self.screen.note(&text)?;
        if !self.session.is_resumed {
            return Ok(());
        }
        let messages = self.session.coordinator.newest(usize::MAX);
        for message in &messages {
            if message.speaker.kind == SpeakerKind::Human && !message.content.is_empty() {
                self.editor.remember(&message.content);
            }
        }
        if let Some(newest) = messages.last() {
            let (when, count) = (
                self.desk.when(newest.at),
                words.messages(messages.len() as u64),
            );
            let text = fill(words.resumed, &[("when", &when), ("count", &count)]);
            self.screen.note(&text)?;
        }
        for message in messages
            .iter()
            .skip(messages.len().saturating_sub(RECALLED))
        {
            let when = self.desk.when(message.at);
            self.screen.message(message, &when)?;
        }
        for id in &self.session.interrupted {
            self.screen
                .note(&fill(words.was_interrupted, &[("id", id)]))?;
        }
        if let Some(task) = self.session.coordinator.team_task() {
            self.screen.task(Some(&task))?;
        }
        Ok(())
    }
}
