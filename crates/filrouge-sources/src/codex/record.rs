//! One line of a rollout, as Codex writes it.

use memchr::memmem;
use serde::Deserialize;

use crate::jsonl::Raw;

/// A line: `{timestamp, ordinal, type, payload}`. In files of the first versions the items stand in it themselves.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Line<'a> {
    #[serde(borrow)]
    pub(super) timestamp: Raw<'a>,
    #[serde(borrow)]
    pub(super) ordinal: Raw<'a>,
    #[serde(borrow, rename = "type")]
    pub(super) kind: Raw<'a>,
    #[serde(borrow)]
    pub(super) payload: Raw<'a>,
    #[serde(borrow)]
    pub(super) record_type: Raw<'a>,
    #[serde(borrow)]
    pub(super) id: Raw<'a>,
}

/// The first line's payload; in the first versions the first line itself.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Meta<'a> {
    #[serde(borrow)]
    pub(super) id: Raw<'a>,
    #[serde(borrow)]
    pub(super) timestamp: Raw<'a>,
    #[serde(borrow)]
    pub(super) cwd: Raw<'a>,
    #[serde(borrow)]
    pub(super) cli_version: Raw<'a>,
    #[serde(borrow)]
    pub(super) forked_from_id: Raw<'a>,
    #[serde(borrow)]
    pub(super) parent_thread_id: Raw<'a>,
    #[serde(borrow)]
    pub(super) source: Raw<'a>,
    #[serde(borrow)]
    pub(super) agent_role: Raw<'a>,
    #[serde(borrow)]
    pub(super) agent_nickname: Raw<'a>,
}

/// `source` of a session another one has started.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Started<'a> {
    #[serde(borrow)]
    pub(super) subagent: Raw<'a>,
    #[serde(borrow)]
    pub(super) thread_spawn: Raw<'a>,
    #[serde(borrow)]
    pub(super) parent_thread_id: Raw<'a>,
    #[serde(borrow)]
    pub(super) agent_role: Raw<'a>,
    #[serde(borrow)]
    pub(super) agent_nickname: Raw<'a>,
}

/// An item of the talk.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Item<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Raw<'a>,
    #[serde(borrow)]
    pub(super) id: Raw<'a>,
    #[serde(borrow)]
    pub(super) role: Raw<'a>,
    #[serde(borrow)]
    pub(super) content: Raw<'a>,
    #[serde(borrow)]
    pub(super) summary: Raw<'a>,
    #[serde(borrow)]
    pub(super) name: Raw<'a>,
    #[serde(borrow)]
    pub(super) namespace: Raw<'a>,
    #[serde(borrow)]
    pub(super) arguments: Raw<'a>,
    #[serde(borrow)]
    pub(super) input: Raw<'a>,
    #[serde(borrow)]
    pub(super) action: Raw<'a>,
    #[serde(borrow)]
    pub(super) call_id: Raw<'a>,
    #[serde(borrow)]
    pub(super) status: Raw<'a>,
    #[serde(borrow)]
    pub(super) output: Raw<'a>,
    #[serde(borrow)]
    pub(super) message: Raw<'a>,
    #[serde(borrow)]
    pub(super) metadata: Raw<'a>,
    #[serde(borrow, rename = "internal_chat_message_metadata_passthrough")]
    pub(super) passed: Raw<'a>,
}

/// What Codex notes of an item for itself.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Passed<'a> {
    #[serde(borrow)]
    pub(super) turn_id: Raw<'a>,
    #[serde(borrow)]
    pub(super) content_item_kinds: Raw<'a>,
}

/// A piece of a message's content, of a reasoning's summary, of an output.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Piece<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Raw<'a>,
    #[serde(borrow)]
    pub(super) text: Raw<'a>,
    #[serde(borrow)]
    pub(super) image_url: Raw<'a>,
}

/// An `event_msg`, as far as it is read, and what other records name.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Raw<'a>,
    #[serde(borrow)]
    pub(super) thread_id: Raw<'a>,
    #[serde(borrow)]
    pub(super) turn_id: Raw<'a>,
    #[serde(borrow)]
    pub(super) model: Raw<'a>,
    #[serde(borrow)]
    pub(super) message: Raw<'a>,
    #[serde(borrow)]
    pub(super) text: Raw<'a>,
    #[serde(borrow)]
    pub(super) reason: Raw<'a>,
    #[serde(borrow)]
    pub(super) trigger: Raw<'a>,
    #[serde(borrow)]
    pub(super) codex_error_info: Raw<'a>,
    #[serde(borrow)]
    pub(super) call_id: Raw<'a>,
    #[serde(borrow)]
    pub(super) exit_code: Raw<'a>,
    #[serde(borrow)]
    pub(super) success: Raw<'a>,
    #[serde(borrow)]
    pub(super) new_thread_id: Raw<'a>,
    #[serde(borrow)]
    pub(super) item: Raw<'a>,
    #[serde(borrow)]
    pub(super) info: Raw<'a>,
    #[serde(borrow)]
    pub(super) usage: Raw<'a>,
}

/// `item` of an `item_completed`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Done<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Raw<'a>,
    #[serde(borrow)]
    pub(super) id: Raw<'a>,
    #[serde(borrow)]
    pub(super) status: Raw<'a>,
    #[serde(borrow)]
    pub(super) content: Raw<'a>,
    #[serde(borrow)]
    pub(super) summary_text: Raw<'a>,
}

/// Whether a line can be of the conversation, by its first bytes. Quotes in texts are escaped, so that none can look
/// like these keys.
pub(super) fn matters(line: &[u8]) -> bool {
    let begin = line.get(..160).unwrap_or(line);
    let aside: [&[u8]; 2] = [b"\"type\":\"world_state\"", b"\"type\":\"ghost_snapshot\""];
    !aside.iter().any(|key| memmem::find(begin, key).is_some())
}
