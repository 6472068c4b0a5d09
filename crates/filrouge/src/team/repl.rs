//! A conversation at a terminal.

mod obey;
mod talk;

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

use filrouge_team::snapshot::import;
use filrouge_team::team::Team;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use super::choose::{Chosen, choose};
use super::desk::{Desk, Session, Start, read_team};
use super::editor::Editor;
use super::signals::Signals;
use super::words::fill;
use crate::exit::Usage;
use crate::output::{printable, say};
use talk::{End, Talk};

/// Talks with the team of a file, and with those that are deployed from there; without `start` somebody chooses the session.
/// Gives the exit code.
///
/// # Errors
/// As [`Desk::resume`] and [`Desk::begin`]; the terminal's.
pub(crate) async fn repl(
    desk: &Desk<'_>,
    file: PathBuf,
    start: Option<Start>,
) -> anyhow::Result<u8> {
    let terminal = Terminal::found();
    let mut signals = Signals::taken()?;
    let mut next = (read_team(&file)?, start);
    loop {
        let (team, start) = next;
        let session = match chosen(desk, &team, start, &mut signals).await? {
            Ok(session) => session,
            Err(code) => return Ok(code),
        };
        let editor = Editor::new()?;
        let talk = Talk::new(desk, &team, session, editor);
        let (end, kept) = talk.run(&mut signals).await;
        terminal.restore();
        kept?;
        match end? {
            End::Left => return Ok(0),
            End::Signal(asked) => return Ok(asked.exit_code()),
            End::Deploy(team) => next = (*team, None),
        }
    }
}

/// The session that is begun with; else the exit code.
async fn chosen(
    desk: &Desk<'_>,
    team: &Team,
    start: Option<Start>,
    signals: &mut Signals,
) -> anyhow::Result<Result<Session, u8>> {
    let start = match start {
        Some(start) => start,
        None => match choose(desk, team, signals).await? {
            Chosen::Start(start) => start,
            Chosen::File(path) => Start::Session(taken_in(desk, team, path).await?),
            Chosen::Nothing => {
                say(desk.words.nothing_begun);
                return Ok(Err(0));
            }
            Chosen::Signal(asked) => return Ok(Err(asked.exit_code())),
        },
    };
    desk.open(team, start).await.map(Ok)
}

/// Takes a snapshot file into the ledger; gives its session.
async fn taken_in(desk: &Desk<'_>, team: &Team, path: PathBuf) -> anyhow::Result<Box<str>> {
    let Some(snapshots) = desk.snapshots.clone() else {
        return Err(Usage::new("no folder of snapshot files is configured").into());
    };
    let read = tokio::task::spawn_blocking(move || {
        let read = snapshots.read(&path);
        read.map_err(|what| Usage::new(format!("{}: {what}", path.display())))
    });
    let snapshot = read.await??;
    let (engine, caller) = (desk.opened.engine.clone(), desk.caller.clone());
    let brought = import(engine, caller, team, &snapshot, desk.options()).await?;
    Ok(brought.session_id)
}

/// How the terminal was found, to leave it so: whoever types is left alone when a signal ends the program.
struct Terminal(Option<Termios>);

impl Terminal {
    fn found() -> Self {
        Self(tcgetattr(io::stdin().as_fd()).ok())
    }

    fn restore(&self) {
        let Some(found) = &self.0 else { return };
        // A terminal that is gone needs nothing.
        let _ = tcsetattr(io::stdin().as_fd(), OptionalActions::Now, found);
        let mut out = io::stdout().lock();
        // The end of bracketed paste.
        let _ = write!(out, "\u{1b}[?2004l").and_then(|()| out.flush());
    }
}

/// What a session begins with, at a terminal.
fn greeting(desk: &Desk<'_>, team: &Team, name: impl Fn(&str, &str) -> String) -> String {
    let members = team.members.iter();
    let members: Vec<_> = members.map(|one| name(&one.id, &one.name)).collect();
    let (team, members) = (printable(&team.name), members.join(", "));
    fill(desk.words.began, &[("team", &team), ("members", &members)])
}
