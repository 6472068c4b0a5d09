//! A conversation at a terminal.

mod execute;
mod session_loop;

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

use filrouge_team::team::Team;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use super::choose::{Choice, choose};
use super::deployment::{Deployment, Session, Start, read_team};
use super::editor::Editor;
use super::signals::Signals;
use crate::output::print_stderr;
use session_loop::{SessionEnd, SessionLoop};

/// Runs a conversation with the team of a file, and then with each team that the user deploys from it. Without
/// `start`, the user chooses the session. Returns the exit code.
///
/// # Errors
/// As [`Deployment::resume`] and [`Deployment::create`]; errors of the terminal.
pub(crate) async fn repl(
    deployment: &Deployment<'_>,
    file: PathBuf,
    start: Option<Start>,
) -> anyhow::Result<u8> {
    let terminal = Terminal::read();
    let mut signals = Signals::install()?;
    let mut team_and_start = (read_team(&file)?, start);
    loop {
        let (team, start) = team_and_start;
        let session = match open_session(deployment, &team, start, &mut signals).await? {
            Ok(session) => session,
            Err(code) => return Ok(code),
        };
        let editor = Editor::new()?;
        let session_loop = SessionLoop::new(deployment, &team, session, editor);
        let (end, recorded) = session_loop.run(&mut signals).await;
        terminal.restore();
        recorded?;
        match end? {
            SessionEnd::Left => return Ok(0),
            SessionEnd::Signal(signal) => return Ok(signal.exit_code()),
            SessionEnd::Deploy(team) => team_and_start = (*team, None),
        }
    }
}

/// Opens the session to start with. The inner error is the exit code if the user, or a signal, ended the choice.
async fn open_session(
    deployment: &Deployment<'_>,
    team: &Team,
    start: Option<Start>,
    signals: &mut Signals,
) -> anyhow::Result<Result<Session, u8>> {
    let start = match start {
        Some(start) => start,
        None => match choose(deployment, team, signals).await? {
            Choice::Start(start) => start,
            Choice::File(path) => Start::Session(deployment.import_file(team, path).await?),
            Choice::Leave => {
                print_stderr(deployment.words.nothing_begun);
                return Ok(Err(0));
            }
            Choice::Signal(signal) => return Ok(Err(signal.exit_code())),
        },
    };
    deployment.open(team, start).await.map(Ok)
}

/// The terminal's initial state, which is restored when a session is left, even after a signal. `None` without a
/// terminal.
struct Terminal(Option<Termios>);

impl Terminal {
    fn read() -> Self {
        Self(tcgetattr(io::stdin().as_fd()).ok())
    }

    fn restore(&self) {
        let Some(initial) = &self.0 else { return };
        // A failure means that the terminal is closed.
        let _ = tcsetattr(io::stdin().as_fd(), OptionalActions::Now, initial);
        let mut out = io::stdout().lock();
        // Disables bracketed paste, which the line editor enables.
        let _ = write!(out, "\u{1b}[?2004l").and_then(|()| out.flush());
    }
}
