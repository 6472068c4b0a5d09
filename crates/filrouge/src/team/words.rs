//! What is told at a terminal, in the language of whoever sits there. One file a language; what stands in braces is filled
//! in by [`fill`].

use std::fmt::Display;

mod en;
mod fr;
mod zh;

macro_rules! words {
    ($($key:ident),+ $(,)?) => {
        /// The words of one language. What each says, English tells.
        #[derive(Debug)]
        pub(crate) struct Words { $(pub(crate) $key: &'static str),+ }

        #[cfg(test)]
        impl Words {
            fn all(&self) -> Vec<(&'static str, &'static str)> {
                vec![$((stringify!($key), self.$key)),+]
            }
        }
    };
}

words! {
    found_one, choose_one, found_many, choose_many, in_file, newer_file, held, nothing_begun, message_one,
    message_many, just_now, minute_one, minute_many, today, yesterday, on_day, began, resumed, earlier, drift,
    was_interrupted, thinking, cancelled, failed, interrupted, said_nothing, agent_failed, unresolved, malformed, agent_turns,
    dropped, task, no_task, task_not_set, not_kept, snapshot_not_written, snapshot_not_read, stopping, again, left, ended,
    unknown_command, name_a_file, no_number, no_words, human, agent, waiting, no_messages, not_found, not_said, help,
}

/// The language that the locale names.
///
/// `LC_ALL` is before `LC_MESSAGES` is before `LANG`; the first that is not empty counts (POSIX).
pub(crate) fn of_locale(variable: impl Fn(&str) -> Option<String>) -> &'static Words {
    let names = ["LC_ALL", "LC_MESSAGES", "LANG"];
    let mut set = names.into_iter().filter_map(variable);
    let locale = set.find(|value| !value.is_empty()).unwrap_or_default();
    let language = locale.split(['_', '.', '@', '-']).next().unwrap_or("");
    match language.to_ascii_lowercase().as_str() {
        "fr" => &fr::WORDS,
        "zh" => &zh::WORDS,
        _ => &en::WORDS,
    }
}

/// The text with each `{name}` replaced by its value. What a value holds is not replaced again.
pub(crate) fn fill(text: &str, values: &[(&str, &dyn Display)]) -> String {
    use std::fmt::Write as _;
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let named = after.split_once('}');
        let known = named.and_then(|(name, behind)| {
            let value = values.iter().find(|(known, _)| *known == name)?;
            Some((value.1, behind))
        });
        rest = match known {
            Some((value, behind)) => {
                // Writing to a string does not fail.
                let _ = write!(filled, "{value}");
                behind
            }
            None => {
                filled.push('{');
                after
            }
        };
    }
    filled.push_str(rest);
    filled
}

impl Words {
    /// So many messages.
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

    /// The names in braces of a text, sorted.
    fn names(text: &str) -> Vec<&str> {
        let pieces = text.split('{').skip(1);
        let mut names: Vec<_> = pieces.filter_map(|piece| piece.split('}').next()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn all_languages_say_the_same_things() {
        for language in [&fr::WORDS, &zh::WORDS] {
            for ((key, english), (_, other)) in en::WORDS.all().into_iter().zip(language.all()) {
                assert!(!other.trim().is_empty(), "{key}");
                assert_eq!(names(english), names(other), "{key}");
                assert_eq!(english.lines().count(), other.lines().count(), "{key}");
            }
        }
        let all = en::WORDS.all();
        let differing = all
            .iter()
            .zip(fr::WORDS.all())
            .filter(|((_, a), (_, b))| a != b);
        assert!(differing.count() > all.len() - 5, "French is French");
    }

    #[test]
    fn every_command_is_in_every_help() {
        for language in [&en::WORDS, &fr::WORDS, &zh::WORDS] {
            for command in crate::team::orders::NAMES {
                assert!(language.help.contains(command), "{command}");
            }
        }
    }

    #[test]
    fn the_first_variable_that_is_set_counts() {
        let with = |set: &'static [(&str, &str)]| {
            of_locale(move |name| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
            .human
        };
        assert_eq!(with(&[]), en::WORDS.human);
        assert_eq!(with(&[("LANG", "fr_FR.UTF-8")]), fr::WORDS.human);
        let all = [
            ("LANG", "fr_FR"),
            ("LC_MESSAGES", "de_DE"),
            ("LC_ALL", "zh_CN"),
        ];
        let all: &'static [(&str, &str)] = Box::leak(Box::new(all));
        assert_eq!(with(all), zh::WORDS.human);
        assert_eq!(with(&[("LC_ALL", ""), ("LANG", "zh")]), zh::WORDS.human);
        assert_eq!(with(&[("LC_ALL", "C"), ("LANG", "zh")]), en::WORDS.human);
    }

    #[test]
    fn what_is_filled_in_is_not_filled_again() {
        let filled = fill("{a}{b} {c", &[("a", &"{b}"), ("b", &2)]);
        assert_eq!(filled, "{b}2 {c");
    }
}
