//! Which records of a file are of the conversation.

use crate::object::Object;

/// Kinds that are no conversation: what was sent, how the program is set, what it counts.
const ASIDE: &[&str] = &[
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

/// Whether a record of this kind is known to be no conversation; of what is attached only prompts are.
pub(super) fn is_aside(one: &Object<'_>, kind: &str) -> bool {
    let is_prompt = || {
        let attached = one.at("attachment").object();
        attached.is_some_and(|it| it.text("type").as_deref() == Some("queued_command"))
    };
    ASIDE.binary_search(&kind).is_ok() || (kind == "attachment" && !is_prompt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_conversation_is_known_by_its_kind() {
        assert!(ASIDE.is_sorted());
        for (kind, record, aside) in [
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
            let one = Object::parse(record).ok().unwrap();
            assert_eq!(is_aside(&one, kind), aside, "{kind} {record}");
        }
    }
}
