//! Which lines of a file are of the conversation.

use memchr::memmem;

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

/// How much of a line's beginning is looked at for its kind.
const PREFIX: usize = 512;

/// Whether a line can be of the conversation, by its first bytes. Most of a file is not: requests as they were sent,
/// prompts, lists of skills and tools. A quote that stands in a text is escaped, so that the keys looked for here
/// cannot be part of one.
pub(super) fn matters(line: &[u8]) -> bool {
    let begin = line.get(..PREFIX).unwrap_or(line);
    if let Some(rest) = begin.strip_prefix(b"{\"type\":\"") {
        let kind = memchr::memchr(b'"', rest).and_then(|end| rest.get(..end));
        return !kind.is_some_and(is_aside);
    }
    let Some(at) = memmem::find(begin, b",\"attachment\":{") else {
        return true;
    };
    let before = begin.get(..at).unwrap_or_default();
    memmem::find(before, b"\"message\":").is_some()
        || memmem::find(begin, b"\"type\":\"queued_command\"").is_some()
}

/// Whether records of a kind are known to be no conversation.
pub(super) fn is_aside(kind: &[u8]) -> bool {
    ASIDE
        .binary_search_by(|known| known.as_bytes().cmp(kind))
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_conversation_is_told_by_its_beginning() {
        assert!(ASIDE.is_sorted());
        for aside in [
            r#"{"type":"api-request-blob","message":{"role":"user"}}"#,
            r#"{"parentUuid":"a","isSidechain":false,"attachment":{"type":"skill_listing"}"#,
        ] {
            assert!(!matters(aside.as_bytes()), "{aside}");
        }
        for said in [
            r#"{"type":"user","message":{"role":"user","content":"x"}}"#,
            r#"{"type":"unheard-of"}"#,
            r#"{"parentUuid":null,"message":{"content":"say \",\"attachment\":{"},"type":"user"}"#,
            r#"{"parentUuid":null,"message":{"content":[{"input":{"a":1,"attachment":{}}}]}}"#,
            r#"{"parentUuid":"a","attachment":{"type":"queued_command","prompt":"and this"}}"#,
            "not json",
        ] {
            assert!(matters(said.as_bytes()), "{said}");
        }
    }
}
