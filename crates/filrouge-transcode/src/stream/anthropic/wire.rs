//! Events, messages and content blocks of Anthropic's Messages.

use serde::Deserialize;

use crate::stream::json::Raw;

/// Any event, or a whole message: the members of all kinds.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Raw<'a>,
    pub(super) index: Option<u64>,
    pub(super) delta: Option<Delta<'a>>,
    pub(super) content_block: Raw<'a>,
    pub(super) message: Raw<'a>,
    pub(super) usage: Raw<'a>,
    pub(super) error: Raw<'a>,
    pub(super) context_management: Raw<'a>,
    pub(super) input_transformations: Raw<'a>,
}

/// What is added to a block, or to the message.
#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Raw<'a>,
    pub(super) text: Raw<'a>,
    pub(super) partial_json: Raw<'a>,
    pub(super) thinking: Raw<'a>,
    pub(super) signature: Raw<'a>,
    pub(super) citation: Raw<'a>,
    pub(super) content: Raw<'a>,
    pub(super) encrypted_content: Raw<'a>,
    pub(super) stop_reason: Raw<'a>,
    pub(super) stop_sequence: Raw<'a>,
    pub(super) stop_details: Raw<'a>,
    pub(super) container: Raw<'a>,
}

/// A message, at its beginning or whole.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) id: Raw<'a>,
    pub(super) model: Raw<'a>,
    pub(super) content: Option<Vec<Raw<'a>>>,
    pub(super) stop_reason: Raw<'a>,
    pub(super) stop_sequence: Raw<'a>,
    pub(super) stop_details: Raw<'a>,
    pub(super) container: Raw<'a>,
    pub(super) usage: Raw<'a>,
    pub(super) context_management: Raw<'a>,
    pub(super) input_transformations: Raw<'a>,
}

/// A content block, at its beginning or whole: the members of all kinds.
#[derive(Deserialize)]
pub(super) struct Content<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Raw<'a>,
    pub(super) text: Raw<'a>,
    pub(super) citations: Option<Vec<Raw<'a>>>,
    pub(super) thinking: Raw<'a>,
    pub(super) signature: Raw<'a>,
    pub(super) data: Raw<'a>,
    pub(super) id: Raw<'a>,
    pub(super) name: Raw<'a>,
    pub(super) input: Raw<'a>,
    pub(super) server_name: Raw<'a>,
    pub(super) caller: Raw<'a>,
    pub(super) tool_use_id: Raw<'a>,
    pub(super) is_error: Raw<'a>,
    pub(super) content: Raw<'a>,
    pub(super) encrypted_content: Raw<'a>,
    pub(super) file_id: Raw<'a>,
}
