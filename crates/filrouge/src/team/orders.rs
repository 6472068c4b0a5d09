//! Parses a line of the prompt.

use std::path::PathBuf;

/// The names of all commands, for the test of the help texts.
#[cfg(test)]
pub(super) const NAMES: [&str; 8] = [
    "/task",
    "/members",
    "/history",
    "/search",
    "/pause",
    "/end",
    "/team deploy",
    "/help",
];

/// The number of messages that `/history` shows by default.
const HISTORY: usize = 20;

/// The meaning of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Order {
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
    Wrong(Wrong),
}

/// The reason why a command is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    Unknown(String),
    NoFile,
    NoNumber(String),
    NoWords,
}

/// Parses a line. A message that begins with a slash is written with two slashes.
pub(super) fn read(line: &str) -> Order {
    let text = line.trim();
    if text.is_empty() {
        return Order::Continue;
    }
    if let Some(message) = text.strip_prefix("//") {
        return Order::Say(format!("/{message}"));
    }
    if !text.starts_with('/') {
        return Order::Say(text.to_owned());
    }
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    match (name, rest) {
        ("/task", "") => Order::ShowTask,
        ("/task", "-") => Order::SetTask(None),
        ("/task", task) => Order::SetTask(Some(task.to_owned())),
        ("/members", "") => Order::Members,
        ("/history", "") => Order::History(HISTORY),
        ("/history", count) => match count.parse() {
            Ok(count) => Order::History(count),
            Err(_) => Order::Wrong(Wrong::NoNumber(count.to_owned())),
        },
        ("/search", "") => Order::Wrong(Wrong::NoWords),
        ("/search", words) => Order::Search(words.to_owned()),
        ("/pause", "") => Order::Pause,
        ("/end", "") => Order::End,
        ("/help", _) => Order::Help,
        ("/team", rest) => deploy(rest),
        (name, _) => Order::Wrong(Wrong::Unknown(name.to_owned())),
    }
}

fn deploy(rest: &str) -> Order {
    let (what, file) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    match (what, file.trim()) {
        ("deploy", "") => Order::Wrong(Wrong::NoFile),
        ("deploy", file) => Order::Deploy(file.into()),
        _ => Order::Wrong(Wrong::Unknown(format!("/team {what}").trim().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_or_commands() {
        let unknown = |name: &str| Order::Wrong(Wrong::Unknown(name.to_owned()));
        for (line, order) in [
            ("", Order::Continue),
            ("  ", Order::Continue),
            ("hello\nyou ", Order::Say("hello\nyou".to_owned())),
            ("a /task", Order::Say("a /task".to_owned())),
            ("//usr/bin", Order::Say("/usr/bin".to_owned())),
            ("/usr/bin is gone", unknown("/usr/bin")),
            ("/task", Order::ShowTask),
            ("/task -", Order::SetTask(None)),
            (
                "/task build\nit",
                Order::SetTask(Some("build\nit".to_owned())),
            ),
            ("/members", Order::Members),
            ("/members all", unknown("/members")),
            ("/history", Order::History(HISTORY)),
            ("/history 3", Order::History(3)),
            ("/history x", Order::Wrong(Wrong::NoNumber("x".to_owned()))),
            ("/search", Order::Wrong(Wrong::NoWords)),
            ("/search a \"b c\"", Order::Search("a \"b c\"".to_owned())),
            ("/pause", Order::Pause),
            ("/end", Order::End),
            ("/help me", Order::Help),
            ("/team", unknown("/team")),
            ("/team list", unknown("/team list")),
            ("/team deploy", Order::Wrong(Wrong::NoFile)),
            (
                "/team deploy my team.toml",
                Order::Deploy("my team.toml".into()),
            ),
        ] {
            assert_eq!(read(line), order, "{line:?}");
        }
    }
}
