//! One line of a file, as Claude Code writes it.

use memchr::memmem;
use serde::Deserialize;

use crate::jsonl::Raw;

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

/// The fields of all kinds that are read.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Record<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Raw<'a>,
    #[serde(borrow)]
    pub(super) subtype: Raw<'a>,
    #[serde(borrow)]
    pub(super) uuid: Raw<'a>,
    #[serde(borrow)]
    pub(super) parent_uuid: Raw<'a>,
    #[serde(borrow)]
    pub(super) session_id: Raw<'a>,
    #[serde(borrow)]
    pub(super) timestamp: Raw<'a>,
    #[serde(borrow)]
    pub(super) cwd: Raw<'a>,
    #[serde(borrow)]
    pub(super) version: Raw<'a>,
    #[serde(borrow)]
    pub(super) is_sidechain: Raw<'a>,
    #[serde(borrow)]
    pub(super) is_meta: Raw<'a>,
    #[serde(borrow)]
    pub(super) is_compact_summary: Raw<'a>,
    #[serde(borrow)]
    pub(super) is_api_error_message: Raw<'a>,
    #[serde(borrow)]
    pub(super) error: Raw<'a>,
    #[serde(borrow)]
    pub(super) api_error_status: Raw<'a>,
    #[serde(borrow)]
    pub(super) attribution_agent: Raw<'a>,
    #[serde(borrow)]
    pub(super) origin: Raw<'a>,
    #[serde(borrow)]
    pub(super) forked_from: Raw<'a>,
    #[serde(borrow)]
    pub(super) message: Raw<'a>,
    #[serde(borrow)]
    pub(super) tool_use_result: Raw<'a>,
    #[serde(borrow)]
    pub(super) content: Raw<'a>,
    #[serde(borrow)]
    pub(super) attachment: Raw<'a>,
    #[serde(borrow)]
    pub(super) compact_metadata: Raw<'a>,
    #[serde(borrow)]
    pub(super) microcompact_metadata: Raw<'a>,
    #[serde(borrow)]
    pub(super) custom_title: Raw<'a>,
    #[serde(borrow)]
    pub(super) ai_title: Raw<'a>,
    #[serde(borrow)]
    pub(super) summary: Raw<'a>,
    #[serde(borrow)]
    pub(super) leaf_uuid: Raw<'a>,
    #[serde(borrow)]
    pub(super) last_prompt: Raw<'a>,
    #[serde(borrow, rename = "totalCostUSD")]
    pub(super) total_cost: Raw<'a>,
    /// Of one message, in files of early versions.
    #[serde(borrow, rename = "costUSD")]
    pub(super) cost: Raw<'a>,
}

/// `message` of a record.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Said<'a> {
    #[serde(borrow)]
    pub(super) id: Raw<'a>,
    #[serde(borrow)]
    pub(super) model: Raw<'a>,
    #[serde(borrow)]
    pub(super) content: Raw<'a>,
    #[serde(borrow)]
    pub(super) stop_reason: Raw<'a>,
    #[serde(borrow)]
    pub(super) usage: Raw<'a>,
}

/// One block of a message's content.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Block<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Raw<'a>,
    #[serde(borrow)]
    pub(super) text: Raw<'a>,
    #[serde(borrow)]
    pub(super) thinking: Raw<'a>,
    #[serde(borrow)]
    pub(super) id: Raw<'a>,
    #[serde(borrow)]
    pub(super) name: Raw<'a>,
    #[serde(borrow)]
    pub(super) input: Raw<'a>,
    #[serde(borrow)]
    pub(super) tool_use_id: Raw<'a>,
    #[serde(borrow)]
    pub(super) content: Raw<'a>,
    #[serde(borrow)]
    pub(super) is_error: Raw<'a>,
    #[serde(borrow)]
    pub(super) title: Raw<'a>,
    #[serde(borrow)]
    pub(super) source: Raw<'a>,
}

/// `usage` of a message.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Usage<'a> {
    #[serde(borrow)]
    pub(super) input_tokens: Raw<'a>,
    #[serde(borrow)]
    pub(super) output_tokens: Raw<'a>,
    #[serde(borrow)]
    pub(super) cache_read_input_tokens: Raw<'a>,
    #[serde(borrow)]
    pub(super) cache_creation_input_tokens: Raw<'a>,
}

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
