//! Sends one message and shows its answers, without a terminal.

use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use filrouge_team::coordinator::TeamEvent;
use filrouge_team::team::Team;

use super::deployment::{Deployment, Session, Start};
use super::json_lines;
use super::screen::Screen;
use super::signals::Signals;
use super::style::Style;
use super::words::fill;
use crate::output::{print_stderr, printable};

/// The exit code when an agent failed.
const AGENT_FAILED: u8 = 6;
/// The exit code when messages could not be recorded.
const NOT_RECORDED: u8 = 1;

/// The settings of a run that sends one message.
pub(crate) struct OneShot {
    /// The session to start with; `None` means a new session. If a new session starts although the team has earlier
    /// sessions, a note mentions them.
    pub(crate) start: Option<Start>,
    /// The human's message.
    pub(crate) text: String,
    /// Whether events are written as JSON lines instead of text.
    pub(crate) json: bool,
}

/// Sends the message, shows the answers until the team hands over to a human, and leaves. Returns the exit code.
///
/// # Errors
/// As [`Deployment::resume`] and [`Deployment::create`]; errors of the ledger.
pub(crate) async fn run_one_shot(
    deployment: &Deployment<'_>,
    team: &Team,
    run: OneShot,
) -> Result<u8> {
    let mut signals = Signals::install()?;
    let mut session = open(deployment, team, run.start).await?;
    let mut output = RunOutput::new(deployment, team, run.json);
    let outcome = send_and_show(&mut session, &mut output, &mut signals, &run.text).await;
    // The session is left, and its lease released, even after a failure.
    let leave_result = session.coordinator.leave().await;
    while let Ok(event) = session.events.try_recv() {
        output.event(&event)?;
    }
    for warning in session.record.take_warnings() {
        output.warning(deployment, warning.problem.code(), &warning.to_string())?;
    }
    let code = outcome?;
    leave_result?;
    Ok(code)
}

async fn open(deployment: &Deployment<'_>, team: &Team, start: Option<Start>) -> Result<Session> {
    if let Some(start) = start.filter(|start| *start != Start::New) {
        return deployment.open(team, start).await;
    }
    let sessions = deployment.sessions(team).await?;
    if let Some(newest) = sessions.first() {
        let (when, count) = (
            deployment.format_age(newest.last_activity),
            deployment.words.messages(newest.message_count),
        );
        print_stderr(fill(
            deployment.words.earlier,
            &[("n", &sessions.len()), ("when", &when), ("count", &count)],
        ));
    }
    deployment.create(team).await
}

async fn send_and_show(
    session: &mut Session,
    output: &mut RunOutput,
    signals: &mut Signals,
    text: &str,
) -> Result<u8> {
    output.opened(session)?;
    // The session begins with a hand-over to the human. Events before it are shown before the message is sent.
    while let Some(event) = session.events.recv().await {
        let is_ready = matches!(event, TeamEvent::HandedOver(_));
        output.event(&event)?;
        if is_ready {
            break;
        }
    }
    let sent = session.coordinator.say(text).await?;
    if sent.is_none() {
        return Ok(0);
    }
    let mut ticks = tokio::time::interval(std::time::Duration::from_millis(100));
    let mut code = 0;
    loop {
        let event = tokio::select! {
            signal = signals.next() => return Ok(signal.exit_code()),
            event = session.events.recv() => event,
            _ = ticks.tick(), if output.is_thinking() => {
                output.spin()?;
                continue;
            }
        };
        let Some(event) = event else { return Ok(code) };
        output.event(&event)?;
        match event {
            TeamEvent::Ended { error: Some(_), .. } => code = AGENT_FAILED,
            TeamEvent::NotKept { failure, .. } => {
                let special_code = super::deployment::exit_code(&failure.into());
                code = special_code.unwrap_or(NOT_RECORDED);
            }
            TeamEvent::HandedOver(_) | TeamEvent::Closed(_) => return Ok(code),
            _ => {}
        }
    }
}

/// The output of a run.
enum RunOutput {
    Text(Box<Screen<io::Stdout, io::Stderr>>),
    Lines(io::Stdout),
}

impl RunOutput {
    fn new(deployment: &Deployment<'_>, team: &Team, json: bool) -> Self {
        if json {
            return Self::Lines(io::stdout());
        }
        let is_terminal = io::stdout().is_terminal();
        let style = match is_terminal && deployment.is_colored {
            true => Style::for_team(team),
            false => Style::plain(),
        };
        let screen = Screen::new(
            io::stdout(),
            io::stderr(),
            deployment.words,
            style,
            is_terminal,
        );
        Self::Text(Box::new(screen))
    }

    fn opened(&mut self, session: &Session) -> io::Result<()> {
        match self {
            Self::Lines(out) => json_lines::write_session(out, session),
            Self::Text(_) => Ok(()),
        }
    }

    fn event(&mut self, event: &TeamEvent) -> io::Result<()> {
        match self {
            Self::Lines(out) => json_lines::write_event(out, event),
            Self::Text(screen) => screen.show(event),
        }
    }

    fn warning(&mut self, deployment: &Deployment<'_>, code: &str, detail: &str) -> io::Result<()> {
        match self {
            Self::Lines(out) => json_lines::write_warning(out, code, detail),
            Self::Text(screen) => {
                let why = printable(detail);
                let text = fill(deployment.words.snapshot_not_written, &[("why", &why)]);
                screen.error(&text)
            }
        }
    }

    fn is_thinking(&self) -> bool {
        matches!(self, Self::Text(screen) if screen.is_thinking())
    }

    fn spin(&mut self) -> io::Result<()> {
        match self {
            Self::Lines(out) => out.flush(),
            Self::Text(screen) => screen.spin(),
        }
    }
}
