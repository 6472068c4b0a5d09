//! The choice between earlier sessions and a new one. What is shown of a session is what is loaded.

use std::io::{self, Write};
use std::path::PathBuf;

use filrouge_team::sessions::TeamSession;
use filrouge_team::snapshot::{Offer, Why, importable};
use filrouge_team::team::Team;
use filrouge_types::Timestamp;

use super::desk::{Desk, Start};
use super::keys::{Key, Keys};
use super::signals::{Asked, Signals};
use super::words::fill;
use crate::output::printable;

/// What was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Chosen {
    /// This session.
    Start(Start),
    /// The one in this snapshot file.
    File(PathBuf),
    /// Neither.
    Nothing,
    /// A signal came first.
    Signal(Asked),
}

/// What there is to choose from: each with its line, the newest first.
struct Choices {
    choices: Vec<(Chosen, String)>,
    typed: String,
}

/// Has somebody at the terminal choose; with nothing to choose from, a new session.
///
/// # Errors
/// The ledger's; the terminal's.
pub(super) async fn choose(
    desk: &Desk<'_>,
    team: &Team,
    signals: &mut Signals,
) -> anyhow::Result<Chosen> {
    let sessions = desk.sessions(team).await?;
    let offers = offers(desk, team).await?;
    if sessions.is_empty() && offers.is_empty() {
        return Ok(Chosen::Start(Start::New));
    }
    let mut choices = Choices {
        choices: sessions
            .iter()
            .map(|session| of_session(desk, session))
            .chain(offers.iter().map(|offer| of_file(desk, offer)))
            .collect(),
        typed: String::new(),
    };
    let only = sessions.first().filter(|_| choices.choices.len() == 1);
    // What is pressed while it is shown counts, too.
    let mut keys = Keys::taken()?;
    show(desk, only, &choices)?;
    let chosen = loop {
        let key = tokio::select! {
            asked = signals.next() => break match asked {
                Asked::Interrupt => Chosen::Nothing,
                asked => Chosen::Signal(asked),
            },
            key = keys.next() => key,
        };
        if let Some(chosen) = choices.press(key) {
            break chosen;
        }
    };
    drop(keys);
    writeln!(io::stdout())?;
    Ok(chosen)
}

/// Snapshot files that hold what the ledger has not. Those that cannot be read are told.
async fn offers(desk: &Desk<'_>, team: &Team) -> anyhow::Result<Vec<Offer>> {
    let Some(snapshots) = &desk.snapshots else {
        return Ok(Vec::new());
    };
    let engine = &desk.opened.engine;
    let found = importable(engine, &desk.caller, &team.id, snapshots).await?;
    for warning in &found.unreadable {
        let why = printable(&warning.to_string());
        crate::output::say(fill(desk.words.snapshot_not_read, &[("why", &why)]));
    }
    Ok(found.offers)
}

fn of_session(desk: &Desk<'_>, session: &TeamSession) -> (Chosen, String) {
    let held = session.held.as_ref();
    let beside = held.map(|held| fill(desk.words.held, &[("holder", &printable(&held.holder))]));
    let line = line(
        desk,
        (session.last_activity, session.message_count),
        session.first_words.as_deref(),
        beside,
    );
    (
        Chosen::Start(Start::Session(session.session_id.clone())),
        line,
    )
}

fn of_file(desk: &Desk<'_>, offer: &Offer) -> (Chosen, String) {
    let file = &offer.file;
    let name = file.path.file_name().unwrap_or_default().to_string_lossy();
    let text = match offer.why {
        Why::Unknown => desk.words.in_file,
        Why::Newer => desk.words.newer_file,
    };
    let line = line(
        desk,
        (file.updated_at, file.message_count),
        file.first_words.as_deref(),
        Some(fill(text, &[("file", &printable(&name))])),
    );
    (Chosen::File(file.path.clone()), line)
}

/// When it was, how much, how it begins, and what is beside it.
fn line(
    desk: &Desk<'_>,
    (when, count): (Timestamp, u64),
    first_words: Option<&str>,
    beside: Option<String>,
) -> String {
    let mut line = format!("{}, {}", desk.when(when), desk.words.messages(count));
    if let Some(words) = first_words {
        line.push_str(&format!("  “{}”", printable(words)));
    }
    if let Some(beside) = beside {
        line.push_str(&format!("  ({beside})"));
    }
    line
}

fn show(desk: &Desk<'_>, only: Option<&TeamSession>, choices: &Choices) -> io::Result<()> {
    let words = desk.words;
    let mut out = io::stdout().lock();
    if let Some(session) = only {
        let (when, count) = (
            desk.when(session.last_activity),
            words.messages(session.message_count),
        );
        let found = fill(words.found_one, &[("when", &when), ("count", &count)]);
        if let Some(held) = &session.held {
            let holder = printable(&held.holder);
            writeln!(out, "{}", fill(words.held, &[("holder", &holder)]))?;
        }
        write!(out, "{found}  {} ", words.choose_one)?;
    } else {
        let n = choices.choices.len();
        writeln!(out, "{}", fill(words.found_many, &[("n", &n)]))?;
        for (number, (_, line)) in choices.choices.iter().enumerate() {
            writeln!(out, "{:>3}  {line}", number + 1)?;
        }
        write!(out, "{} ", fill(words.choose_many, &[("n", &n)]))?;
    }
    out.flush()
}

impl Choices {
    /// What a key decides, if it does. Nothing is resumed without one that says so.
    fn press(&mut self, key: Key) -> Option<Chosen> {
        match key {
            Key::Cancel => Some(Chosen::Nothing),
            Key::Backspace => {
                self.typed.pop();
                None
            }
            Key::Enter => self.numbered(),
            Key::Character('n' | 'N') => Some(Chosen::Start(Start::New)),
            Key::Character('r' | 'R') => self.choices.first().map(|(chosen, _)| chosen.clone()),
            Key::Character(c) if c.is_ascii_digit() => {
                self.typed.push(c);
                // A digit that could go on waits for the next, or for Enter.
                let number: usize = self.typed.parse().unwrap_or(usize::MAX);
                let could_go_on = number.saturating_mul(10) <= self.choices.len();
                if could_go_on { None } else { self.numbered() }
            }
            Key::Character(_) => None,
        }
    }

    fn numbered(&mut self) -> Option<Chosen> {
        let number: Option<usize> = std::mem::take(&mut self.typed).parse().ok();
        let at = number?.checked_sub(1)?;
        self.choices.get(at).map(|(chosen, _)| chosen.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressed(count: usize, keys: &str) -> Option<Chosen> {
        let mut choices = Choices {
            choices: (1..=count)
                .map(|n| {
                    (
                        Chosen::Start(Start::Session(n.to_string().into())),
                        String::new(),
                    )
                })
                .collect(),
            typed: String::new(),
        };
        keys.chars().find_map(|c| {
            choices.press(match c {
                '\n' => Key::Enter,
                '<' => Key::Backspace,
                '!' => Key::Cancel,
                c => Key::Character(c),
            })
        })
    }

    fn session(id: &str) -> Option<Chosen> {
        Some(Chosen::Start(Start::Session(id.into())))
    }

    #[test]
    fn nothing_is_chosen_without_a_key_that_says_so() {
        for nothing in ["", "\n", "x", " \n", "0", "4", "y\n"] {
            assert_eq!(pressed(3, nothing), None, "{nothing:?}");
        }
        assert_eq!(pressed(3, "!"), Some(Chosen::Nothing));
        assert_eq!(pressed(3, "x4n"), Some(Chosen::Start(Start::New)));
        assert_eq!(pressed(3, "R"), session("1"));
        assert_eq!(pressed(3, "03"), session("3"));
        assert_eq!(pressed(1, "1"), session("1"));
    }

    #[test]
    fn numbers_may_have_two_digits() {
        assert_eq!(pressed(12, "1"), None);
        assert_eq!(pressed(12, "1\n"), session("1"));
        assert_eq!(pressed(12, "12"), session("12"));
        assert_eq!(pressed(12, "2"), session("2"));
        assert_eq!(pressed(12, "1<3"), session("3"));
    }
}
