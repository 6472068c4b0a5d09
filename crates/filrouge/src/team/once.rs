//! One message and its answers, without a terminal.

use std::io::{self, IsTerminal, Write};

use filrouge_team::coordinator::TeamEvent;
use filrouge_team::team::Team;

use super::desk::{Desk, Session, Start};
use super::lines;
use super::look::Look;
use super::screen::Screen;
use super::signals::Signals;
use super::words::fill;
use crate::output::{printable, say};

/// An agent has failed.
const AGENT_FAILED: u8 = 6;
/// What was said was not kept.
const NOT_KEPT: u8 = 1;

/// What is to be done.
pub(crate) struct Once {
    /// Which session is begun with; when it is a new one, earlier ones are named.
    pub(crate) start: Option<Start>,
    /// What the human says.
    pub(crate) text: String,
    /// Whether events are written instead of text.
    pub(crate) json: bool,
}

/// Says something, shows what is answered until a human has the floor, and leaves. Gives the exit code.
///
/// # Errors
/// As [`Desk::resume`] and [`Desk::begin`]; the ledger's.
pub(crate) async fn once(desk: &Desk<'_>, team: &Team, asked: Once) -> anyhow::Result<u8> {
    let mut signals = Signals::taken()?;
    let mut session = open(desk, team, asked.start).await?;
    let mut show = Show::new(desk, team, asked.json);
    let talked = talk(&mut session, &mut show, &mut signals, &asked.text).await;
    // Whatever happened, the session is given free.
    let left = session.coordinator.leave().await;
    while let Ok(event) = session.events.try_recv() {
        show.event(&event)?;
    }
    for warning in session.record.take_warnings() {
        show.warning(desk, warning.what.code(), &warning.to_string())?;
    }
    let code = talked?;
    left?;
    Ok(code)
}

async fn open(desk: &Desk<'_>, team: &Team, start: Option<Start>) -> anyhow::Result<Session> {
    if let Some(start) = start.filter(|start| *start != Start::New) {
        return desk.open(team, start).await;
    }
    let sessions = desk.sessions(team).await?;
    if let Some(newest) = sessions.first() {
        let (when, count) = (
            desk.when(newest.last_activity),
            desk.words.messages(newest.message_count),
        );
        say(fill(
            desk.words.earlier,
            &[("n", &sessions.len()), ("when", &when), ("count", &count)],
        ));
    }
    desk.begin(team).await
}

async fn talk(
    session: &mut Session,
    show: &mut Show,
    signals: &mut Signals,
    text: &str,
) -> anyhow::Result<u8> {
    show.opened(session)?;
    // Whoever has the floor at first is told; before that, what was said is not begun with.
    while let Some(event) = session.events.recv().await {
        let is_ready = matches!(event, TeamEvent::HandedOver(_));
        show.event(&event)?;
        if is_ready {
            break;
        }
    }
    let said = session.coordinator.say(text).await?;
    if said.is_none() {
        return Ok(0);
    }
    let mut ticks = tokio::time::interval(std::time::Duration::from_millis(100));
    let mut code = 0;
    loop {
        let event = tokio::select! {
            asked = signals.next() => return Ok(asked.exit_code()),
            event = session.events.recv() => event,
            _ = ticks.tick(), if show.is_thinking() => {
                show.turn()?;
                continue;
            }
        };
        let Some(event) = event else { return Ok(code) };
        show.event(&event)?;
        match event {
            TeamEvent::Ended { error: Some(_), .. } => code = AGENT_FAILED,
            TeamEvent::NotKept { failure, .. } => {
                let lost = super::desk::exit_code(&failure.into());
                code = lost.unwrap_or(NOT_KEPT);
            }
            TeamEvent::HandedOver(_) | TeamEvent::Closed(_) => return Ok(code),
            _ => {}
        }
    }
}

/// Where it is shown.
enum Show {
    Text(Box<Screen<io::Stdout, io::Stderr>>),
    Lines(io::Stdout),
}

impl Show {
    fn new(desk: &Desk<'_>, team: &Team, json: bool) -> Self {
        if json {
            return Self::Lines(io::stdout());
        }
        let is_terminal = io::stdout().is_terminal();
        let look = match is_terminal && desk.is_coloured {
            true => Look::of(team),
            false => Look::plain(),
        };
        let screen = Screen::new(io::stdout(), io::stderr(), desk.words, look, is_terminal);
        Self::Text(Box::new(screen))
    }

    fn opened(&mut self, session: &Session) -> io::Result<()> {
        match self {
            Self::Lines(out) => lines::opened(out, session),
            Self::Text(_) => Ok(()),
        }
    }

    fn event(&mut self, event: &TeamEvent) -> io::Result<()> {
        match self {
            Self::Lines(out) => lines::event(out, event),
            Self::Text(screen) => screen.show(event),
        }
    }

    fn warning(&mut self, desk: &Desk<'_>, code: &str, detail: &str) -> io::Result<()> {
        match self {
            Self::Lines(out) => lines::warning(out, code, detail),
            Self::Text(screen) => {
                let why = printable(detail);
                screen.wrong(&fill(desk.words.snapshot_not_written, &[("why", &why)]))
            }
        }
    }

    fn is_thinking(&self) -> bool {
        matches!(self, Self::Text(screen) if screen.is_thinking())
    }

    fn turn(&mut self) -> io::Result<()> {
        match self {
            Self::Lines(out) => out.flush(),
            Self::Text(screen) => screen.turn(),
        }
    }
}
