//! Executes a line of the prompt.

use std::io;

use filrouge_types::Failure;

use super::session_loop::{NextStep, SessionLoop};
use crate::exit::detail_and_hint;
use crate::output::printable;
use crate::team::deployment::read_team;
use crate::team::find::find;
use crate::team::prompt_line::{InvalidLine, PromptLine};
use crate::team::words::fill;

impl SessionLoop<'_> {
    /// Executes a line. A refused command is reported, and has no effect.
    ///
    /// # Errors
    /// Errors of the terminal.
    pub(super) async fn execute(&mut self, line: PromptLine) -> anyhow::Result<NextStep> {
        let words = self.deployment.words;
        match line {
            PromptLine::Continue => {
                let has_queued = self.session.coordinator.resume().await;
                return Ok(match has_queued {
                    Ok(true) => NextStep::Wait,
                    Ok(false) => NextStep::Prompt,
                    Err(failure) => self.show_failure(words.not_said, &failure)?,
                });
            }
            PromptLine::Say(text) => {
                let message = self.session.coordinator.say(&text).await;
                return Ok(match message {
                    Ok(Some(_)) => NextStep::Wait,
                    Ok(None) => NextStep::Prompt,
                    Err(failure) => self.show_failure(words.not_said, &failure)?,
                });
            }
            PromptLine::ShowTask => {
                let task = self.session.coordinator.team_task();
                self.screen.task(task.as_deref())?;
            }
            PromptLine::SetTask(task) => {
                let coordinator = &self.session.coordinator;
                let result = coordinator.set_team_task(task.as_deref()).await;
                if let Err(failure) = result {
                    self.show_failure(words.task_not_set, &failure)?;
                }
            }
            PromptLine::Members => self.show_members()?,
            PromptLine::History(count) => self.show_history(count)?,
            PromptLine::Search(text) => self.search(&text).await?,
            PromptLine::Pause => return Ok(NextStep::Leave { should_end: false }),
            PromptLine::End => return Ok(NextStep::Leave { should_end: true }),
            PromptLine::Deploy(file) => match read_team(&file) {
                Ok(team) => return Ok(NextStep::Deploy(Box::new(team))),
                Err(usage) => self.show_error(&anyhow::Error::new(usage))?,
            },
            PromptLine::Help => self.screen.remark(words.help)?,
            PromptLine::Invalid(invalid) => {
                let text = match invalid {
                    InvalidLine::UnknownCommand(name) => {
                        fill(words.unknown_command, &[("command", &printable(&name))])
                    }
                    InvalidLine::NoFile => words.name_a_file.to_owned(),
                    InvalidLine::NoNumber(text) => {
                        fill(words.no_number, &[("text", &printable(&text))])
                    }
                    InvalidLine::NoWords => words.no_words.to_owned(),
                };
                self.screen.error(&text)?;
            }
        }
        Ok(NextStep::Prompt)
    }

    fn show_failure(&mut self, text: &str, failure: &Failure) -> io::Result<NextStep> {
        let mut why = printable(&failure.detail);
        if let Some(hint) = &failure.hint {
            why = format!("{why} ({})", printable(hint));
        }
        self.screen.error(&fill(text, &[("why", &why)]))?;
        Ok(NextStep::Prompt)
    }

    fn show_error(&mut self, error: &anyhow::Error) -> io::Result<()> {
        let (detail, hint) = detail_and_hint(error);
        let hint = hint.map_or_else(String::new, |hint| format!(" ({hint})"));
        self.screen.error(&printable(&format!("{detail}{hint}")))
    }

    fn show_members(&mut self) -> io::Result<()> {
        let words = self.deployment.words;
        for member in &self.team.members {
            let kind = match member.is_agent() {
                true => words.agent,
                false => words.human,
            };
            let role = member.role.as_deref().unwrap_or("");
            let separator = if role.is_empty() { "" } else { ": " };
            let name = self.screen.name(&member.id, &member.name);
            let line = format!("{name} ({kind}){separator}{}", printable(role));
            self.screen.remark(&line)?;
        }
        Ok(())
    }

    fn show_history(&mut self, count: usize) -> io::Result<()> {
        let messages = self.session.coordinator.newest(count);
        if messages.is_empty() && self.session.coordinator.message_count() == 0 {
            return self.screen.remark(self.deployment.words.no_messages);
        }
        for message in &messages {
            let when = self.deployment.format_age(message.at);
            self.screen.message(message, &when)?;
        }
        Ok(())
    }

    async fn search(&mut self, text: &str) -> io::Result<()> {
        match find(self.deployment, self.team, text).await {
            Ok(lines) if lines.is_empty() => self.screen.remark(self.deployment.words.not_found),
            Ok(lines) => lines.iter().try_for_each(|line| self.screen.remark(line)),
            Err(error) => self.show_error(&error),
        }
    }
}
