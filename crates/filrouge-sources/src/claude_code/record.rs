//! Decides which records of a file belong to the conversation.

use crate::object::Object;

/// The kinds of records outside the conversation, such as API requests, settings and counters. Sorted, for a binary
/// search.
const KINDS_OUTSIDE: &[&str] = &[
    "agent-color",
    "agent-name",
    "agent-setting",
    "ai-title",
    "api-request",
    "api-request-blob",
    "api-request-shape",
    "atis-latch",
    "attribution-snapshot",
    "bridge-session",
    "content-replacement",
    "custom-title",
    "file-history-delta",
    "file-history-snapshot",
    "last-prompt",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "queue-operation",
    "result",
    "speculation-accept",
    "started",
    "summary",
    "tag",
    "task-summary",
    "tools-used",
    "worktree-state",
];

/// Whether a record is known to be outside the conversation. An attachment is outside unless it is a queued prompt.
pub(super) fn is_outside_conversation(json: &Object<'_>, kind: &str) -> bool {
    let is_prompt = || {
        let attachment = json.field("attachment").object();
        attachment
            .is_some_and(|attachment| attachment.text("type").as_deref() == Some("queued_command"))
    };
    KINDS_OUTSIDE.binary_search(&kind).is_ok() || (kind == "attachment" && !is_prompt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_outside_the_conversation_are_recognized_by_kind() {
        assert!(KINDS_OUTSIDE.is_sorted());
        for (kind, record, is_outside) in [
            ("api-request-blob", r#"{"message":{"role":"user"}}"#, true),
            (
                "attachment",
                r#"{"attachment":{"type":"skill_listing"}}"#,
                true,
            ),
            (
                "attachment",
                r#"{"attachment":{"type":"queued_command"}}"#,
                false,
            ),
            (
                "user",
                r#"{"message":{"content":"x"},"attachment":{}}"#,
                false,
            ),
            ("unheard-of", "{}", false),
        ] {
            let json = Object::parse(record).ok().unwrap();
            assert_eq!(
                is_outside_conversation(&json, kind),
                is_outside,
                "{kind} {record}"
            );
        }
    }
}
