//! Which records of a file are of the conversation.

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

/// Whether records of a kind are known to be no conversation.
pub(super) fn is_aside(kind: &str) -> bool {
    ASIDE.binary_search(&kind).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_conversation_is_known_by_its_kind() {
        assert!(ASIDE.is_sorted());
        assert!(is_aside("api-request-blob") && !is_aside("user") && !is_aside("unheard-of"));
    }
}
