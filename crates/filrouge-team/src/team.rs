//! A team and its members.

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use unicode_normalization::UnicodeNormalization as _;

use crate::message::{Speaker, SpeakerKind};
use crate::prompt::Template;

/// A team as described by its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Team {
    /// Its id, derived from its name alone.
    pub id: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its purpose, which its agents read in their prompt.
    pub description: Option<Box<str>>,
    /// Its members, at least one of them a human, in the order of the file.
    pub members: Vec<Member>,
    /// The task that a new session begins with.
    pub task: Option<Box<str>>,
    /// The maximum number of consecutive messages of agents before a human has the floor.
    pub max_agent_turns: u32,
}

/// A member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its id, derived from its name alone; unique in the team.
    pub id: Box<str>,
    /// The name it is addressed by.
    pub name: Box<str>,
    /// Its role in the team, which agents read in their prompt.
    pub role: Option<Box<str>>,
    /// Human or agent.
    pub kind: MemberKind,
}

/// The kind of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberKind {
    /// A person at the terminal.
    Human,
    /// A command.
    Agent(Command),
}

/// The command of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The program; a path with a `/` is relative to the team file's folder.
    pub program: Box<str>,
    /// Its arguments; `{prompt}` in one of them is replaced by the prompt.
    pub arguments: Vec<Box<str>>,
    /// Environment variables that are set in addition to those that filrouge has itself.
    pub environment: Vec<(Box<str>, Box<str>)>,
    /// Its working folder; `None`: the current one.
    pub folder: Option<Box<str>>,
    /// The template of its prompt; `None`: the standard prompt.
    pub template: Option<Template>,
    /// The time after which it is stopped.
    pub timeout: Duration,
}

impl Team {
    /// The first human: the next speaker when no other member is addressed.
    pub fn first_human(&self) -> Option<&Member> {
        let mut members = self.members.iter();
        members.find(|member| member.kind == MemberKind::Human)
    }

    /// Looks up a member by id.
    pub fn member(&self, id: &str) -> Option<&Member> {
        self.members.iter().find(|member| &*member.id == id)
    }

    /// The member who spoke. The name decides if no member has the speaker's id, as in a file of another program.
    pub fn member_who_spoke(&self, speaker: &Speaker) -> Option<&Member> {
        let by_id = self.member(&speaker.id);
        by_id.or_else(|| self.find(&speaker.name))
    }

    /// Finds the member whose name, or else whose id, is `name`; case and width make no difference.
    pub fn find(&self, name: &str) -> Option<&Member> {
        let key = comparison_key(name);
        let by_name = |member: &&Member| comparison_key(&member.name) == key;
        let by_id = |member: &&Member| comparison_key(&member.id) == key;
        let mut members = self.members.iter();
        members
            .find(by_name)
            .or_else(|| self.members.iter().find(by_id))
    }

    /// The first agent, in the order of the file.
    pub fn first_agent(&self) -> Option<&Member> {
        self.members.iter().find(|member| member.is_agent())
    }
}

/// The placeholder of the prompt in an argument.
pub(crate) const PROMPT_PLACEHOLDER: &str = "{prompt}";

impl Command {
    /// Whether the prompt is part of an argument, rather than on stdin.
    pub fn has_prompt_argument(&self) -> bool {
        self.arguments
            .iter()
            .any(|argument| argument.contains(PROMPT_PLACEHOLDER))
    }
}

impl Member {
    /// The member as a speaker.
    pub fn speaker(&self) -> Speaker {
        Speaker {
            id: self.id.clone(),
            name: self.name.clone(),
            kind: match self.kind {
                MemberKind::Human => SpeakerKind::Human,
                MemberKind::Agent(_) => SpeakerKind::Agent,
            },
        }
    }

    /// Whether the member is a command.
    pub const fn is_agent(&self) -> bool {
        matches!(self.kind, MemberKind::Agent(_))
    }
}

/// The id derived from a name: the name itself if it has only `a-z`, `0-9` and `-`; else its ASCII letters and digits
/// in lower case, joined by `-`, and 8 hex digits of its SHA-256, so that names which differ only in case or script
/// have different ids.
pub fn derive_id(name: &str) -> Box<str> {
    let is_slug_char = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.is_empty() && name.chars().all(is_slug_char) {
        return name.into();
    }
    let lower_case = name.to_ascii_lowercase();
    let digest = format!("{:.8}", hex::encode(Sha256::digest(name.as_bytes())));
    let words = lower_case.split(|c: char| !c.is_ascii_alphanumeric());
    let words = words.filter(|word| !word.is_empty()).chain([&*digest]);
    words.collect::<Vec<_>>().join("-").into()
}

/// The comparison key of a name: case, width, runs of blanks and invisible joiners make no difference.
pub(crate) fn comparison_key(text: &str) -> String {
    let without_joiners = text
        .chars()
        .filter(|c| !matches!(c, '\u{200c}' | '\u{200d}'));
    let upper: String = without_joiners
        .nfkc()
        .flat_map(char::to_uppercase)
        .collect();
    let folded: String = upper.nfkc().flat_map(char::to_lowercase).nfkc().collect();
    let words: Vec<&str> = folded.split_whitespace().collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_their_own_ids() {
        for slug in ["bob", "gpt-5", "a", "-", "42"] {
            assert_eq!(&*derive_id(slug), slug);
        }
    }

    #[test]
    fn other_names_share_no_id() {
        let names = [
            "Bob",
            "BOB",
            "bob",
            "Bob ",
            "Bób",
            "小红",
            "小花",
            "Ada Lovelace",
            "ada-lovelace",
        ];
        let ids: std::collections::BTreeSet<_> = names.iter().map(|name| derive_id(name)).collect();
        assert_eq!(ids.len(), names.len());
        assert!(derive_id("Ada Lovelace").starts_with("ada-lovelace-"));
        let is_slug_char = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(
            ids.iter()
                .all(|id| !id.is_empty() && id.chars().all(is_slug_char))
        );
    }

    #[test]
    fn similar_names_compare_equal() {
        for (a, b) in [
            ("Bob", "bOB"),
            ("Ｂｏｂ", "bob"),
            ("Straße", "STRASSE"),
            ("Σίσυφος", "ΣΊΣΥΦΟΣ"),
            ("e\u{301}mile", "Émile"),
            ("Ada  Lovelace", "ada\u{3000}lovelace"),
        ] {
            assert_eq!(comparison_key(a), comparison_key(b), "{a} {b}");
        }
        assert_ne!(comparison_key("Bob"), comparison_key("Bobb"));
    }
}
