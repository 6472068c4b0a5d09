//! The event loop of one session: handles events, typed lines and signals until the user leaves.

use std::io;
use std::time::Duration;

use anyhow::Result;
use filrouge_team::coordinator::TeamEvent;
use filrouge_team::message::SpeakerKind;
use filrouge_team::queue::Route;
use filrouge_team::record::Record as _;
use filrouge_team::team::Team;

use crate::output::{print_stderr, printable};
use crate::team::deployment::{Deployment, Session};
use crate::team::editor::{Editor, Input};
use crate::team::prompt_line;
use crate::team::screen::Screen;
use crate::team::signals::{Signals, StopRequest};
use crate::team::style::Style;
use crate::team::words::fill;

/// The number of messages that are shown when a session is resumed.
const SHOWN_ON_RESUME: usize = 6;
/// The time between two frames of the spinner.
const FRAME_TIME: Duration = Duration::from_millis(100);

/// The reason why a session was left.
pub(super) enum SessionEnd {
    Left,
    Signal(StopRequest),
    /// The user left to deploy this team.
    Deploy(Box<Team>),
}

/// The next step after a typed line.
pub(super) enum NextStep {
    /// The human still has the floor.
    Prompt,
    /// Other members have the floor.
    Wait,
    /// The user leaves the session; with `should_end`, the session also ends.
    Leave {
        should_end: bool,
    },
    Deploy(Box<Team>),
}

pub(super) struct SessionLoop<'a> {
    pub(super) deployment: &'a Deployment<'a>,
    pub(super) team: &'a Team,
    pub(super) session: Session,
    pub(super) screen: Screen<io::Stdout, io::Stdout>,
    editor: Editor,
    /// The members in the queue.
    waiting: Vec<Route>,
    /// The id of the member that the team waits for, a human.
    awaited_human: Option<Box<str>>,
    /// Whether the newest input was Ctrl-C: a second Ctrl-C leaves.
    wants_to_leave: bool,
    /// The newest warning about snapshot files, which is not shown again.
    last_warning: Option<String>,
}

impl<'a> SessionLoop<'a> {
    pub(super) fn new(
        deployment: &'a Deployment<'a>,
        team: &'a Team,
        session: Session,
        editor: Editor,
    ) -> Self {
        let style = match deployment.is_colored {
            true => Style::for_team(team),
            false => Style::plain(),
        };
        Self {
            screen: Screen::new(io::stdout(), io::stdout(), deployment.words, style, true),
            deployment,
            team,
            session,
            editor,
            waiting: Vec::new(),
            awaited_human: None,
            wants_to_leave: false,
            last_warning: None,
        }
    }

    /// Runs until the user leaves, and then releases the session. Returns the reason why the session was left, and
    /// separately an error if something could not be recorded or shown.
    pub(super) async fn run(mut self, signals: &mut Signals) -> (Result<SessionEnd>, Result<()>) {
        let result = self.converse(signals).await;
        let should_end = matches!(&result, Ok((_, true)));
        let closed = match should_end {
            true => self.session.coordinator.stop().await,
            false => self.session.coordinator.leave().await,
        };
        let id = printable(self.session.record.session_id());
        let words = self.deployment.words;
        let mut shown = Ok(());
        while let Ok(event) = self.session.events.try_recv() {
            shown = shown.and(self.screen.show(&event));
        }
        let farewell = if should_end { words.ended } else { words.left };
        if closed.is_ok() && self.session.coordinator.message_count() > 0 {
            print_stderr(format_args!("\r{}", fill(farewell, &[("id", &id)])));
        }
        let shown = shown.map_err(anyhow::Error::from);
        (
            result.map(|(end, _)| end),
            closed.map_err(anyhow::Error::from).and(shown),
        )
    }

    /// Handles events, typed lines and signals until the user leaves. Returns the reason, and whether the session also
    /// ends.
    async fn converse(&mut self, signals: &mut Signals) -> Result<(SessionEnd, bool)> {
        self.greet()?;
        let (mut human_has_floor, mut is_stopping) = (false, false);
        let mut ticks = tokio::time::interval(FRAME_TIME);
        loop {
            tokio::select! {
                signal = signals.next() => match signal {
                    StopRequest::Interrupt if !human_has_floor && !is_stopping => {
                        self.screen.remark(self.deployment.words.stopping)?;
                        let coordinator = self.session.coordinator.clone();
                        is_stopping = true;
                        tokio::spawn(async move {
                            // The session's events report the result.
                            let _ = coordinator.cancel().await;
                        });
                    }
                    StopRequest::Interrupt => return Ok((SessionEnd::Left, false)),
                    signal => return Ok((SessionEnd::Signal(signal), false)),
                },
                event = self.session.events.recv() => {
                    let Some(event) = event else {
                        return Ok((SessionEnd::Left, false));
                    };
                    if self.show(&event)? && !human_has_floor {
                        human_has_floor = true;
                        self.prompt()?;
                    }
                }
                input = self.editor.next(), if human_has_floor => match self.handle_input(input).await? {
                    NextStep::Prompt => self.prompt()?,
                    NextStep::Wait => (human_has_floor, is_stopping) = (false, false),
                    NextStep::Leave { should_end } => return Ok((SessionEnd::Left, should_end)),
                    NextStep::Deploy(team) => return Ok((SessionEnd::Deploy(team), false)),
                },
                _ = ticks.tick(), if self.screen.is_thinking() => self.screen.spin()?,
            }
        }
    }

    /// Shows an event; returns whether a human has the floor now.
    fn show(&mut self, event: &TeamEvent) -> io::Result<bool> {
        self.screen.show(event)?;
        match event {
            TeamEvent::Queue(routes) => self.waiting.clone_from(routes),
            TeamEvent::HandedOver(state) => {
                self.awaited_human.clone_from(&state.waiting_for);
                return Ok(true);
            }
            _ => {}
        }
        Ok(false)
    }

    /// Shows pending events, and then requests a line.
    fn prompt(&mut self) -> io::Result<()> {
        while let Ok(event) = self.session.events.try_recv() {
            self.show(&event)?;
        }
        for warning in self.session.record.take_warnings() {
            let why = printable(&warning.to_string());
            if self.last_warning.as_deref() != Some(&*why) {
                let text = fill(self.deployment.words.snapshot_not_written, &[("why", &why)]);
                self.screen.error(&text)?;
                self.last_warning = Some(why);
            }
        }
        if !self.waiting.is_empty() {
            let waiting = self.waiting.iter();
            let names: Vec<_> = waiting
                .map(|route| self.styled_name(&route.member_id))
                .collect();
            let names = names.join(", ");
            let text = fill(self.deployment.words.waiting, &[("names", &names)]);
            self.screen.remark(&text)?;
        }
        let human = self.awaited_human.as_deref();
        let human = human.and_then(|id| self.team.member(id));
        let (id, name) = human.map_or(("", "…"), |human| (&human.id, &human.name));
        let (plain, styled) = (printable(name), self.screen.name(id, name));
        self.editor
            .request_line(format!("{plain}> "), format!("{styled}> "));
        Ok(())
    }

    pub(super) fn styled_name(&self, id: &str) -> String {
        let name = self.team.member(id).map_or(id, |member| &member.name);
        self.screen.name(id, name)
    }

    async fn handle_input(&mut self, input: Input) -> Result<NextStep> {
        let line = match input {
            Input::Line(line) => line,
            Input::Interrupt if !self.wants_to_leave => {
                self.wants_to_leave = true;
                self.screen.remark(self.deployment.words.leave_hint)?;
                return Ok(NextStep::Prompt);
            }
            Input::Interrupt | Input::End => return Ok(NextStep::Leave { should_end: false }),
            Input::Failed(reason) => anyhow::bail!("the terminal: {reason}"),
        };
        self.wants_to_leave = false;
        self.execute(prompt_line::parse(&line)).await
    }

    fn greet(&mut self) -> io::Result<()> {
        let words = self.deployment.words;
        let members = self.team.members.iter();
        let members: Vec<_> = members
            .map(|member| self.screen.name(&member.id, &member.name))
            .collect();
        let (team, members) = (printable(&self.team.name), members.join(", "));
        let text = fill(words.began, &[("team", &team), ("members", &members)]);
        self.screen.remark(&text)?;
        if !self.session.is_resumed {
            return Ok(());
        }
        let messages = self.session.coordinator.newest(usize::MAX);
        for message in &messages {
            if message.speaker.kind == SpeakerKind::Human && !message.content.is_empty() {
                self.editor.add_to_history(&message.content);
            }
        }
        if let Some(newest) = messages.last() {
            let (when, count) = (
                self.deployment.format_age(newest.at),
                words.messages(messages.len() as u64),
            );
            let text = fill(words.resumed, &[("when", &when), ("count", &count)]);
            self.screen.remark(&text)?;
        }
        for message in messages
            .iter()
            .skip(messages.len().saturating_sub(SHOWN_ON_RESUME))
        {
            let when = self.deployment.format_age(message.at);
            self.screen.message(message, &when)?;
        }
        for id in &self.session.interrupted {
            self.screen
                .remark(&fill(words.was_interrupted, &[("id", id)]))?;
        }
        if let Some(task) = self.session.coordinator.team_task() {
            self.screen.task(Some(&task))?;
        }
        Ok(())
    }
}
