//! Executes a line of the prompt.

use std::io;

use filrouge_types::Failure;

use super::talk::{Next, Talk};
use crate::exit::detail_and_hint;
use crate::output::printable;
use crate::team::deployment::read_team;
use crate::team::find::find;
use crate::team::orders::{Order, Wrong};
use crate::team::words::fill;

impl Talk<'_> {
    /// Executes a line. A refused command is reported, and has no effect.
    ///
    /// # Errors
    /// Errors of the terminal.
    pub(super) async fn execute(&mut self, order: Order) -> anyhow::Result<Next> {
        let words = self.deployment.words;
        match order {
            Order::Continue => {
                let has_queued = self.session.coordinator.resume().await;
                return Ok(match has_queued {
                    Ok(true) => Next::Wait,
                    Ok(false) => Next::Prompt,
                    Err(failure) => self.refused(words.not_said, &failure)?,
                });
            }
            Order::Say(text) => {
                let said = self.session.coordinator.say(&text).await;
                return Ok(match said {
                    Ok(Some(_)) => Next::Wait,
                    Ok(None) => Next::Prompt,
                    Err(failure) => self.refused(words.not_said, &failure)?,
                });
            }
            Order::ShowTask => {
                let task = self.session.coordinator.team_task();
                self.screen.task(task.as_deref())?;
            }
            Order::SetTask(task) => {
                let coordinator = &self.session.coordinator;
                let set = coordinator.set_team_task(task.as_deref()).await;
                if let Err(failure) = set {
                    self.refused(words.task_not_set, &failure)?;
                }
            }
            Order::Members => self.members()?,
            Order::History(count) => self.history(count)?,
            Order::Search(text) => self.search(&text).await?,
            Order::Pause => return Ok(Next::Leave { ends: false }),
            Order::End => return Ok(Next::Leave { ends: true }),
            Order::Deploy(file) => match read_team(&file) {
                Ok(team) => return Ok(Next::Deploy(Box::new(team))),
                Err(usage) => self.report(&anyhow::Error::new(usage))?,
            },
            Order::Help => self.screen.note(words.help)?,
            Order::Wrong(wrong) => {
                let text = match wrong {
                    Wrong::Unknown(name) => {
                        fill(words.unknown_command, &[("command", &printable(&name))])
                    }
                    Wrong::NoFile => words.name_a_file.to_owned(),
                    Wrong::NoNumber(text) => fill(words.no_number, &[("text", &printable(&text))]),
                    Wrong::NoWords => words.no_words.to_owned(),
                };
                self.screen.error(&text)?;
            }
        }
        Ok(Next::Prompt)
    }

    fn refused(&mut self, text: &str, failure: &Failure) -> io::Result<Next> {
        let mut why = printable(&failure.detail);
        if let Some(hint) = &failure.hint {
            why = format!("{why} ({})", printable(hint));
        }
        self.screen.error(&fill(text, &[("why", &why)]))?;
        Ok(Next::Prompt)
    }

    fn report(&mut self, error: &anyhow::Error) -> io::Result<()> {
        let (detail, hint) = detail_and_hint(error);
        let hint = hint.map_or_else(String::new, |hint| format!(" ({hint})"));
        self.screen.error(&printable(&format!("{detail}{hint}")))
    }

    fn members(&mut self) -> io::Result<()> {
        let words = self.deployment.words;
        for member in &self.team.members {
            let kind = match member.is_agent() {
                true => words.agent,
                false => words.human,
            };
            let role = member.role.as_deref().unwrap_or("");
            let between = if role.is_empty() { "" } else { ": " };
            let name = self.screen.name(&member.id, &member.name);
            let line = format!("{name} ({kind}){between}{}", printable(role));
            self.screen.note(&line)?;
        }
        Ok(())
    }

    fn history(&mut self, count: usize) -> io::Result<()> {
        let messages = self.session.coordinator.newest(count);
        if messages.is_empty() && self.session.coordinator.message_count() == 0 {
            return self.screen.note(self.deployment.words.no_messages);
        }
        for message in &messages {
            let when = self.deployment.when(message.at);
            self.screen.message(message, &when)?;
        }
        Ok(())
    }

    async fn search(&mut self, text: &str) -> io::Result<()> {
        match find(self.deployment, self.team, text).await {
            Ok(lines) if lines.is_empty() => self.screen.note(self.deployment.words.not_found),
            Ok(lines) => lines.iter().try_for_each(|line| self.screen.note(line)),
            Err(error) => self.report(&error),
        }
    }
}
