//! Lets the user choose between earlier sessions and a new one. A choice contains the shown id or file, so that exactly
//! this session is opened.

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
pub(super) enum Choice {
    /// The session to start with.
    Start(Start),
    /// The session in this snapshot file.
    File(PathBuf),
    /// The user leaves.
    Leave,
    /// A signal arrived before the user chose.
    Signal(StopRequest),
}

/// The choices, each with its line: sessions, newest first, and then snapshot files.
struct Choices {
    choices: Vec<(Choice, String)>,
    /// The digits typed so far.
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
) -> anyhow::Result<Choice> {
    let sessions = deployment.sessions(team).await?;
    let offers = offers(deployment, team).await?;
    if sessions.is_empty() && offers.is_empty() {
        return Ok(Choice::Start(Start::New));
    }
    let mut choices = Choices {
        choices: sessions
            .iter()
            .map(|session| session_choice(deployment, session))
            .chain(offers.iter().map(|offer| file_choice(deployment, offer)))
            .collect(),
        typed: String::new(),
    };
    let only_session = sessions.first().filter(|_| choices.choices.len() == 1);
    // The reader starts before the output, so that it also reads keys that are pressed during the output.
    let mut keys = KeyReader::start()?;
    show(deployment, only_session, &choices)?;
    let choice = loop {
        let key = tokio::select! {
            signal = signals.next() => break match signal {
                StopRequest::Interrupt => Choice::Leave,
                signal => Choice::Signal(signal),
            },
            key = keys.next() => key,
        };
        if let Some(choice) = choices.press(key) {
            break choice;
        }
    };
    drop(keys);
    writeln!(io::stdout())?;
    Ok(choice)
}

/// The snapshot files with messages that the ledger lacks. Files that cannot be read are reported on stderr.
async fn offers(deployment: &Deployment<'_>, team: &Team) -> anyhow::Result<Vec<Offer>> {
    let Some(snapshots) = &deployment.snapshots else {
        return Ok(Vec::new());
    };
    let engine = &deployment.opened.engine;
    let importable_files = importable(engine, &deployment.caller, &team.id, snapshots).await?;
    for warning in &importable_files.unreadable {
        let why = printable(&warning.to_string());
        crate::output::print_stderr(fill(deployment.words.snapshot_not_read, &[("why", &why)]));
    }
    Ok(importable_files.offers)
}

fn session_choice(deployment: &Deployment<'_>, session: &TeamSession) -> (Choice, String) {
    let holder = session.lease_holder.as_ref();
    let remark = holder.map(|holder| {
        fill(
            deployment.words.held,
            &[("holder", &printable(&holder.name))],
        )
    });
    let line = choice_line(
        deployment,
        (session.last_activity, session.message_count),
        session.first_words.as_deref(),
        remark,
    );
    (
        Choice::Start(Start::Session(session.session_id.clone())),
        line,
    )
}

fn file_choice(deployment: &Deployment<'_>, offer: &Offer) -> (Choice, String) {
    let file = &offer.file;
    let name = file.path.file_name().unwrap_or_default().to_string_lossy();
    let text = match offer.reason {
        OfferReason::NotInLedger => deployment.words.in_file,
        OfferReason::Newer => deployment.words.newer_file,
    };
    let line = choice_line(
        deployment,
        (file.updated_at, file.message_count),
        file.first_words.as_deref(),
        Some(fill(text, &[("file", &printable(&name))])),
    );
    (Choice::File(file.path.clone()), line)
}

/// The line of a choice: the time, the number of messages, the first words, and a remark in parentheses.
fn choice_line(
    deployment: &Deployment<'_>,
    (when, count): (Timestamp, u64),
    first_words: Option<&str>,
    remark: Option<String>,
) -> String {
    let mut line = format!(
        "{}, {}",
        deployment.format_age(when),
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
    only_session: Option<&TeamSession>,
    choices: &Choices,
) -> io::Result<()> {
    let words = deployment.words;
    let mut out = io::stdout().lock();
    if let Some(session) = only_session {
        let (when, count) = (
            deployment.format_age(session.last_activity),
            words.messages(session.message_count),
        );
        let text = fill(words.found_one, &[("when", &when), ("count", &count)]);
        if let Some(holder) = &session.lease_holder {
            let holder = printable(&holder.name);
            writeln!(out, "{}", fill(words.held, &[("holder", &holder)]))?;
        }
        write!(out, "{text}  {} ", words.choose_one)?;
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
    fn press(&mut self, key: Key) -> Option<Choice> {
        match key {
            Key::Cancel => Some(Choice::Leave),
            Key::Backspace => {
                self.typed.pop();
                None
            }
            Key::Enter => self.choose_typed_number(),
            Key::Character('n' | 'N') => Some(Choice::Start(Start::New)),
            Key::Character('r' | 'R') => self.choices.first().map(|(choice, _)| choice.clone()),
            Key::Character(c) if c.is_ascii_digit() => {
                self.typed.push(c);
                // A digit that could start a longer number waits for the next key.
                let number: usize = self.typed.parse().unwrap_or(usize::MAX);
                let could_continue = number.saturating_mul(10) <= self.choices.len();
                if could_continue {
                    None
                } else {
                    self.choose_typed_number()
                }
            }
            Key::Character(_) => None,
        }
    }

    fn choose_typed_number(&mut self) -> Option<Choice> {
        let number: Option<usize> = std::mem::take(&mut self.typed).parse().ok();
        let index = number?.checked_sub(1)?;
        self.choices.get(index).map(|(choice, _)| choice.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice_of_keys(count: usize, keys: &str) -> Option<Choice> {
        let mut choices = Choices {
            choices: (1..=count)
                .map(|n| {
                    (
                        Choice::Start(Start::Session(n.to_string().into())),
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

    fn session(id: &str) -> Option<Choice> {
        Some(Choice::Start(Start::Session(id.into())))
    }

    #[test]
    fn only_an_explicit_key_completes_a_choice() {
        for incomplete in ["", "\n", "x", " \n", "0", "4", "y\n"] {
            assert_eq!(choice_of_keys(3, incomplete), None, "{incomplete:?}");
        }
        assert_eq!(choice_of_keys(3, "!"), Some(Choice::Leave));
        assert_eq!(choice_of_keys(3, "x4n"), Some(Choice::Start(Start::New)));
        assert_eq!(choice_of_keys(3, "R"), session("1"));
        assert_eq!(choice_of_keys(3, "03"), session("3"));
        assert_eq!(choice_of_keys(1, "1"), session("1"));
    }

    #[test]
    fn a_number_may_have_two_digits() {
        assert_eq!(choice_of_keys(12, "1"), None);
        assert_eq!(choice_of_keys(12, "1\n"), session("1"));
        assert_eq!(choice_of_keys(12, "12"), session("12"));
        assert_eq!(choice_of_keys(12, "2"), session("2"));
        assert_eq!(choice_of_keys(12, "1<3"), session("3"));
    }
}
