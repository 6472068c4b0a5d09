//! Selects the items and the metadata that a retention policy keeps (DESIGN §7).

use std::collections::BTreeSet;

use filrouge_types::{ANSWER_IS_COPY, Channel, QUESTION_IS_COPY, RawJson, take_members};

use super::ephemeral::{FieldRetention, ItemRetention};

/// Members of a turn's metadata that filrouge adds. They are kept even if [`FieldRetention::metadata`] omits them.
pub const INTERNAL_MEMBERS: [&str; 2] = [ANSWER_IS_COPY, QUESTION_IS_COPY];

impl ItemRetention {
    /// Whether items of this channel are kept. `Conversation` keeps questions and answers, partial answers, the end of
    /// a turn, links and redactions.
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

impl FieldRetention {
    /// The kept members of a turn's metadata, with unchanged spelling, and the distinct names of the dropped members.
    pub fn metadata_of(&self, metadata: &RawJson) -> (RawJson, Vec<String>) {
        let Some(list) = &self.metadata else {
            return (metadata.clone(), Vec::new());
        };
        let is_kept =
            |name: &str| INTERNAL_MEMBERS.contains(&name) || list.iter().any(|kept| kept == name);
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
    fn conversation_retention_keeps_texts_and_endings() {
        let kept_channels = "question final partial error cancelled interrupted link redaction";
        let other_channels = "plan thought observation tool_call tool_result system_note hitl_request hitl_response summary mine";
        for word in kept_channels.split(' ') {
            let channel = Channel::from_word(word);
            assert!(ItemRetention::Conversation.keeps(&channel), "{word}");
        }
        for word in other_channels.split(' ') {
            let channel = Channel::from_word(word);
            assert!(!ItemRetention::Conversation.keeps(&channel), "{word}");
            assert!(ItemRetention::All.keeps(&channel), "{word}");
        }
    }

    #[test]
    fn policies_round_trip() {
        for policy in [ItemRetention::All, ItemRetention::Conversation] {
            assert_eq!(policy.to_string().parse::<ItemRetention>().unwrap(), policy);
        }
        assert!("Conversation".parse::<ItemRetention>().is_err());
    }

    #[test]
    fn listed_and_internal_members_are_kept() {
        let metadata = RawJson::parse(
            r#"{"channel":"web","secret":1.0,"secret":2,"question_neutral_is_fallback":true,"\ud800":3}"#,
        )
        .unwrap();
        let retention = FieldRetention {
            metadata: Some(vec!["channel".to_owned()]),
            ..FieldRetention::default()
        };
        let (kept, dropped) = retention.metadata_of(&metadata);
        let expected = r#"{"channel":"web","question_neutral_is_fallback":true}"#;
        assert_eq!(kept.as_str(), expected);
        assert_eq!(dropped, ["secret", "\u{fffd}\u{fffd}\u{fffd}"]);
        assert_eq!(retention.metadata_of(&kept), (kept.clone(), Vec::new()));
        assert_eq!(
            FieldRetention::default().metadata_of(&metadata),
            (metadata.clone(), Vec::new())
        );
    }
}
