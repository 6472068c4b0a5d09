//! The texts that a team shows at the terminal, in the user's language. Each language has a file. [`fill`] replaces
//! names in braces by values.

use std::fmt::Display;

mod en;
mod fr;
mod zh;

macro_rules! words {
    ($($key:ident),+ $(,)?) => {
        /// The texts of one language. The English file shows the meaning of each.
        #[derive(Debug)]
        pub(crate) struct Words { $(pub(crate) $key: &'static str),+ }

        #[cfg(test)]
        impl Words {
            fn entries(&self) -> Vec<(&'static str, &'static str)> {
                vec![$((stringify!($key), self.$key)),+]
            }
        }
    };
}

words! {
    found_one, choose_one, found_many, choose_many, in_file, newer_file, held, nothing_begun, message_one,
    message_many, just_now, minute_one, minute_many, today, yesterday, on_day, began, resumed, earlier, drift,
    was_interrupted, thinking, cancelled, failed, interrupted, said_nothing, agent_failed, unresolved, malformed, agent_turns,
    dropped, task, no_task, task_not_set, not_kept, snapshot_not_written, snapshot_not_read, stopping, leave_hint, left, ended,
    unknown_command, name_a_file, no_number, no_words, human, agent, waiting, no_messages, not_found, not_said, help,
}

/// The texts of the locale's language.
///
/// `LC_ALL` precedes `LC_MESSAGES`, which precedes `LANG`; the first that is not empty is used (POSIX).
pub(crate) fn for_locale(variable: impl Fn(&str) -> Option<String>) -> &'static Words {
    let names = ["LC_ALL", "LC_MESSAGES", "LANG"];
    let mut values = names.into_iter().filter_map(variable);
    let locale = values.find(|value| !value.is_empty()).unwrap_or_default();
    let language = locale.split(['_', '.', '@', '-']).next().unwrap_or("");
    match language.to_ascii_lowercase().as_str() {
        "fr" => &fr::WORDS,
        "zh" => &zh::WORDS,
        _ => &en::WORDS,
    }
}

/// The text with each `{name}` replaced by its value. Braces in a value are not replaced.
pub(crate) fn fill(text: &str, values: &[(&str, &dyn Display)]) -> String {
    use std::fmt::Write as _;
    let mut filled = String::new();
    let mut remaining = text;
    while let Some((before, after)) = remaining.split_once('{') {
        filled.push_str(before);
        let parts = after.split_once('}');
        let replaced = parts.and_then(|(name, after_name)| {
            let value = values.iter().find(|(key, _)| *key == name)?;
            Some((value.1, after_name))
        });
        remaining = match replaced {
            Some((value, after_name)) => {
                // Writing to a string cannot fail.
                let _ = write!(filled, "{value}");
                after_name
            }
            None => {
                filled.push('{');
                after
            }
        };
    }
    filled.push_str(remaining);
    filled
}

impl Words {
    /// Formats a number of messages.
    pub(crate) fn messages(&self, count: u64) -> String {
        let text = if count == 1 {
            self.message_one
        } else {
            self.message_many
        };
        fill(text, &[("n", &count)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names in braces of a text, sorted.
    fn names(text: &str) -> Vec<&str> {
        let pieces = text.split('{').skip(1);
        let mut names: Vec<_> = pieces.filter_map(|piece| piece.split('}').next()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn all_languages_have_the_same_texts() {
        for language in [&fr::WORDS, &zh::WORDS] {
            for ((key, english), (_, translated)) in
                en::WORDS.entries().into_iter().zip(language.entries())
            {
                assert!(!translated.trim().is_empty(), "{key}");
                assert_eq!(names(english), names(translated), "{key}");
                assert_eq!(english.lines().count(), translated.lines().count(), "{key}");
            }
        }
        let english = en::WORDS.entries();
        let differing = english
            .iter()
            .zip(fr::WORDS.entries())
            .filter(|((_, a), (_, b))| a != b);
        assert!(
            differing.count() > english.len() - 5,
            "the French texts differ from the English ones"
        );
    }

    #[test]
    fn every_command_is_in_every_help() {
        let commands = [
            "/task",
            "/members",
            "/history",
            "/search",
            "/pause",
            "/end",
            "/team deploy",
            "/help",
        ];
        for language in [&en::WORDS, &fr::WORDS, &zh::WORDS] {
            for command in commands {
                assert!(language.help.contains(command), "{command}");
            }
        }
    }

    #[test]
    fn the_first_set_variable_is_used() {
        let human_word = |variables: &'static [(&str, &str)]| {
            for_locale(move |name| {
                let variable = variables.iter().find(|(key, _)| *key == name);
                variable.map(|(_, value)| (*value).to_owned())
            })
            .human
        };
        assert_eq!(human_word(&[]), en::WORDS.human);
        assert_eq!(human_word(&[("LANG", "fr_FR.UTF-8")]), fr::WORDS.human);
        let variables = [
            ("LANG", "fr_FR"),
            ("LC_MESSAGES", "de_DE"),
            ("LC_ALL", "zh_CN"),
        ];
        let variables: &'static [(&str, &str)] = Box::leak(Box::new(variables));
        assert_eq!(human_word(variables), zh::WORDS.human);
        assert_eq!(
            human_word(&[("LC_ALL", ""), ("LANG", "zh")]),
            zh::WORDS.human
        );
        assert_eq!(
            human_word(&[("LC_ALL", "C"), ("LANG", "zh")]),
            en::WORDS.human
        );
    }

    #[test]
    fn values_are_not_filled_in_again() {
        let filled = fill("{a}{b} {c", &[("a", &"{b}"), ("b", &2)]);
        assert_eq!(filled, "{b}2 {c");
    }
}
