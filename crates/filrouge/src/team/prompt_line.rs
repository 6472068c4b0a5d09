//! Parses a line of the prompt.

use std::path::PathBuf;

/// The number of messages that `/history` shows by default.
const DEFAULT_HISTORY_COUNT: usize = 20;

/// A parsed line: a message or a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PromptLine {
    /// An empty line: the members in the queue speak.
    Continue,
    /// A message.
    Say(String),
    /// Show the task.
    ShowTask,
    /// Set the task; `None` removes it.
    SetTask(Option<String>),
    Members,
    History(usize),
    Search(String),
    Pause,
    End,
    Deploy(PathBuf),
    Help,
    /// An unknown command, or one with wrong arguments.
    Invalid(InvalidLine),
}

/// The reason why a command is invalid.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InvalidLine {
    UnknownCommand(String),
    NoFile,
    NoNumber(String),
    NoWords,
}

/// Parses a line. A message that begins with a slash is written with two slashes.
pub(super) fn parse(line: &str) -> PromptLine {
    let text = line.trim();
    if text.is_empty() {
        return PromptLine::Continue;
    }
    if let Some(message) = text.strip_prefix("//") {
        return PromptLine::Say(format!("/{message}"));
    }
    if !text.starts_with('/') {
        return PromptLine::Say(text.to_owned());
    }
    let (name, arguments) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let arguments = arguments.trim();
    match (name, arguments) {
        ("/task", "") => PromptLine::ShowTask,
        ("/task", "-") => PromptLine::SetTask(None),
        ("/task", task) => PromptLine::SetTask(Some(task.to_owned())),
        ("/members", "") => PromptLine::Members,
        ("/history", "") => PromptLine::History(DEFAULT_HISTORY_COUNT),
        ("/history", count) => match count.parse() {
            Ok(count) => PromptLine::History(count),
            Err(_) => PromptLine::Invalid(InvalidLine::NoNumber(count.to_owned())),
        },
        ("/search", "") => PromptLine::Invalid(InvalidLine::NoWords),
        ("/search", words) => PromptLine::Search(words.to_owned()),
        ("/pause", "") => PromptLine::Pause,
        ("/end", "") => PromptLine::End,
        ("/help", _) => PromptLine::Help,
        ("/team", arguments) => deploy(arguments),
        (name, _) => PromptLine::Invalid(InvalidLine::UnknownCommand(name.to_owned())),
    }
}

fn deploy(arguments: &str) -> PromptLine {
    let (subcommand, file) = arguments
        .split_once(char::is_whitespace)
        .unwrap_or((arguments, ""));
    match (subcommand, file.trim()) {
        ("deploy", "") => PromptLine::Invalid(InvalidLine::NoFile),
        ("deploy", file) => PromptLine::Deploy(file.into()),
        _ => PromptLine::Invalid(InvalidLine::UnknownCommand(
            format!("/team {subcommand}").trim().to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_or_commands() {
        let unknown =
            |name: &str| PromptLine::Invalid(InvalidLine::UnknownCommand(name.to_owned()));
        for (line, expected) in [
            ("", PromptLine::Continue),
            ("  ", PromptLine::Continue),
            ("hello\nyou ", PromptLine::Say("hello\nyou".to_owned())),
            ("a /task", PromptLine::Say("a /task".to_owned())),
            ("//usr/bin", PromptLine::Say("/usr/bin".to_owned())),
            ("/usr/bin is gone", unknown("/usr/bin")),
            ("/task", PromptLine::ShowTask),
            ("/task -", PromptLine::SetTask(None)),
            (
                "/task build\nit",
                PromptLine::SetTask(Some("build\nit".to_owned())),
            ),
            ("/members", PromptLine::Members),
            ("/members all", unknown("/members")),
            ("/history", PromptLine::History(DEFAULT_HISTORY_COUNT)),
            ("/history 3", PromptLine::History(3)),
            (
                "/history x",
                PromptLine::Invalid(InvalidLine::NoNumber("x".to_owned())),
            ),
            ("/search", PromptLine::Invalid(InvalidLine::NoWords)),
            (
                "/search a \"b c\"",
                PromptLine::Search("a \"b c\"".to_owned()),
            ),
            ("/pause", PromptLine::Pause),
            ("/end", PromptLine::End),
            ("/help me", PromptLine::Help),
            ("/team", unknown("/team")),
            ("/team list", unknown("/team list")),
            ("/team deploy", PromptLine::Invalid(InvalidLine::NoFile)),
            (
                "/team deploy my team.toml",
                PromptLine::Deploy("my team.toml".into()),
            ),
        ] {
            assert_eq!(parse(line), expected, "{line:?}");
        }
    }
}
