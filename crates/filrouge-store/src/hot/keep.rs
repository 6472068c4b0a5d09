//! What of a conversation reaches the ledger when not everything does (DESIGN §7).

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use filrouge_types::{Channel, RawJson, UnknownName, take_members};

use super::ephemeral::{Keep, KeepItems};

/// Members of a turn's metadata that filrouge adds itself: what they tell is lost if a list forgets them.
pub const OWN_MEMBERS: [&str; 2] = ["answer_neutral_is_fallback", "question_neutral_is_fallback"];

impl KeepItems {
    /// The word of the setting `record`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Conversation => "conversation",
        }
    }

    /// Whether items of this channel are kept: of a conversation what was asked and answered, what was shown when there
    /// was no answer, how it ended, and what must be known of links and redactions.
    #[must_use]
    pub const fn keeps(self, channel: &Channel) -> bool {
        match self {
            Self::All => true,
            Self::Conversation => matches!(
                channel,
                Channel::Question
                    | Channel::Final
                    | Channel::Partial
                    | Channel::Error
                    | Channel::Cancelled
                    | Channel::Interrupted
                    | Channel::Link
                    | Channel::Redaction
            ),
        }
    }
}

impl fmt::Display for KeepItems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for KeepItems {
    type Err = UnknownName;

    fn from_str(word: &str) -> Result<Self, UnknownName> {
        match word {
            "all" => Ok(Self::All),
            "conversation" => Ok(Self::Conversation),
            _ => Err(UnknownName {
                what: "policy of what is recorded",
                name: word.to_owned(),
                known: "all, conversation",
            }),
        }
    }
}

impl Keep {
    /// The members of a turn's metadata that are kept, spelled as they came, and the names of those that are not, each
    /// once.
    #[must_use]
    pub fn metadata_of(&self, metadata: &RawJson) -> (RawJson, Vec<String>) {
        let Some(list) = &self.metadata else {
            return (metadata.clone(), Vec::new());
        };
        let is_kept =
            |name: &str| OWN_MEMBERS.contains(&name) || list.iter().any(|kept| kept == name);
        let (kept, dropped) = take_members(metadata, |name| !is_kept(name));
        if dropped.is_empty() {
            return (metadata.clone(), Vec::new());
        }
        let names: BTreeSet<String> = dropped.into_iter().map(|(name, _)| name).collect();
        (kept, names.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_what_was_said_and_how_it_ended() {
        let kept = "question final partial error cancelled interrupted link redaction";
        let other = "plan thought observation tool_call tool_result system_note hitl_request hitl_response summary mine";
        for word in kept.split(' ') {
            let channel = Channel::from_word(word);
            assert!(KeepItems::Conversation.keeps(&channel), "{word}");
        }
        for word in other.split(' ') {
            let channel = Channel::from_word(word);
            assert!(!KeepItems::Conversation.keeps(&channel), "{word}");
            assert!(KeepItems::All.keeps(&channel), "{word}");
        }
    }

    #[test]
    fn policies_are_words() {
        for policy in [KeepItems::All, KeepItems::Conversation] {
            assert_eq!(policy.to_string().parse::<KeepItems>().unwrap(), policy);
        }
        assert!("Conversation".parse::<KeepItems>().is_err());
    }

    #[test]
    fn listed_members_are_kept_and_what_filrouge_adds() {
        let all = RawJson::parse(
            r#"{"channel":"web","secret":1.0,"secret":2,"question_neutral_is_fallback":true,"\ud800":3}"#,
        )
        .unwrap();
        let keep = Keep {
            metadata: Some(vec!["channel".to_owned()]),
            ..Keep::default()
        };
        let (kept, dropped) = keep.metadata_of(&all);
        let expected = r#"{"channel":"web","question_neutral_is_fallback":true}"#;
        assert_eq!(kept.as_str(), expected);
        assert_eq!(dropped, ["secret", "\u{fffd}\u{fffd}\u{fffd}"]);
        assert_eq!(keep.metadata_of(&kept), (kept.clone(), Vec::new()));
        assert_eq!(Keep::default().metadata_of(&all), (all.clone(), Vec::new()));
    }
}
