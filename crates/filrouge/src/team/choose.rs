//! Lets the user choose between earlier sessions and a new one. A choice contains the id or the file that was shown, so
//! that exactly this session is opened.

use std::io::{self, Write};
use std::path::PathBuf;

use filrouge_team::sessions::TeamSession;
use filrouge_team::snapshot::{Offer, OfferReason, importable};
use filrouge_team::team::Team;
use filrouge_types::Timestamp;

use super::deployment::{Deployment, Start};
use super::keys::{Key, KeyReader};
use super::signals::{Signals, StopRequest};
use super::words::fill;
use crate::output::printable;

/// The user's choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Chosen {
    /// The session to start with.
    Start(Start),
    /// The session in this snapshot file.
    File(PathBuf),
    /// The user left.
    Nothing,
    /// A signal arrived before the user chose.
    Signal(StopRequest),
}

/// The choices, each with the line that shows it: sessions, newest first, and then snapshot files.
struct Choices {
    choices: Vec<(Chosen, String)>,
    /// The digits of a number that were typed so far.
    typed: String,
}

/// Asks the user at the terminal. Without earlier sessions and snapshot files, chooses a new session without asking.
///
/// # Errors
/// Errors of the ledger and of the terminal.
pub(super) async fn choose(
    deployment: &Deployment<'_>,
    team: &Team,
    signals: &mut Signals,
) -> anyhow::Result<Chosen> {
    let sessions = deployment.sessions(team).await?;
    let offers = offers(deployment, team).await?;
    if sessions.is_empty() && offers.is_empty() {
        return Ok(Chosen::Start(Start::New));
    }
    let mut choices = Choices {
        choices: sessions
            .iter()
            .map(|session| session_choice(deployment, session))
            .chain(offers.iter().map(|offer| file_choice(deployment, offer)))
            .collect(),
        typed: String::new(),
    };
    let only = sessions.first().filter(|_| choices.choices.len() == 1);
    // Started before the output, so that keys that are pressed during the output are read too.
    let mut keys = KeyReader::start()?;
    show(deployment, only, &choices)?;
    let chosen = loop {
        let key = tokio::select! {
            signal = signals.next() => break match signal {
                StopRequest::Interrupt => Chosen::Nothing,
                signal => Chosen::Signal(signal),
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

/// The snapshot files with messages that the ledger lacks. Files that cannot be read are reported on stderr.
async fn offers(deployment: &Deployment<'_>, team: &Team) -> anyhow::Result<Vec<Offer>> {
    let Some(snapshots) = &deployment.snapshots else {
        return Ok(Vec::new());
    };
    let engine = &deployment.opened.engine;
    let found = importable(engine, &deployment.caller, &team.id, snapshots).await?;
    for warning in &found.unreadable {
        let why = printable(&warning.to_string());
        crate::output::say(fill(deployment.words.snapshot_not_read, &[("why", &why)]));
    }
    Ok(found.offers)
}

fn session_choice(deployment: &Deployment<'_>, session: &TeamSession) -> (Chosen, String) {
    let held = session.held.as_ref();
    let remark = held.map(|held| {
        fill(
            deployment.words.held,
            &[("holder", &printable(&held.holder))],
        )
    });
    let line = line(
        deployment,
        (session.last_activity, session.message_count),
        session.first_words.as_deref(),
        remark,
    );
    (
        Chosen::Start(Start::Session(session.session_id.clone())),
        line,
    )
}

fn file_choice(deployment: &Deployment<'_>, offer: &Offer) -> (Chosen, String) {
    let file = &offer.file;
    let name = file.path.file_name().unwrap_or_default().to_string_lossy();
    let text = match offer.why {
        OfferReason::Unknown => deployment.words.in_file,
        OfferReason::Newer => deployment.words.newer_file,
    };
    let line = line(
        deployment,
        (file.updated_at, file.message_count),
        file.first_words.as_deref(),
        Some(fill(text, &[("file", &printable(&name))])),
    );
    (Chosen::File(file.path.clone()), line)
}

/// The line of a choice: the time, the number of messages, the first words, and a remark in parentheses.
fn line(
    deployment: &Deployment<'_>,
    (when, count): (Timestamp, u64),
    first_words: Option<&str>,
    remark: Option<String>,
) -> String {
    let mut line = format!(
        "{}, {}",
        deployment.when(when),
        deployment.words.messages(count)
    );
    if let Some(words) = first_words {
        line.push_str(&format!("  “{}”", printable(words)));
    }
    if let Some(remark) = remark {
        line.push_str(&format!("  ({remark})"));
    }
    line
}

fn show(
    deployment: &Deployment<'_>,
    // The only choice, if it is a session.
    only: Option<&TeamSession>,
    choices: &Choices,
) -> io::Result<()> {
    let words = deployment.words;
    let mut out = io::stdout().lock();
    if let Some(session) = only {
        let (when, count) = (
            deployment.when(session.last_activity),
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
    /// Handles a key; returns the choice, if the key completes one. Only an explicit key resumes a session.
    fn press(&mut self, key: Key) -> Option<Chosen> {
        match key {
            Key::Cancel => Some(Chosen::Nothing),
            Key::Backspace => {
                self.typed.pop();
                None
            }
            Key::Enter => self.take_number(),
            Key::Character('n' | 'N') => Some(Chosen::Start(Start::New)),
            Key::Character('r' | 'R') => self.choices.first().map(|(chosen, _)| chosen.clone()),
            Key::Character(c) if c.is_ascii_digit() => {
                self.typed.push(c);
                // A digit that could start a longer number waits for the next key.
                let number: usize = self.typed.parse().unwrap_or(usize::MAX);
                let could_continue = number.saturating_mul(10) <= self.choices.len();
                if could_continue {
                    None
                } else {
                    self.take_number()
                }
            }
            Key::Character(_) => None,
        }
    }

    fn take_number(&mut self) -> Option<Chosen> {
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
    fn only_an_explicit_key_chooses() {
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
