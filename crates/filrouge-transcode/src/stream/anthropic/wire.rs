//! Events, messages and content blocks of Anthropic's Messages.

use crate::stream::json::{self, Raw};

json::members! {
    /// Any event, or a complete message: the members of all kinds.
    Event {
        kind = "type", index: Option<u64>, delta: Option<Delta<'a>>, content_block, message, usage, error,
        context_management, input_transformations,
    }

    /// An addition to a block or to the message.
    Delta {
        kind = "type", text, partial_json, thinking, signature, citation, content, encrypted_content,
        stop_reason, stop_sequence, stop_details, container,
    }

    /// A message: its beginning, or a complete one.
    Message {
        id, model, content: Option<Vec<Raw<'a>>>, stop_reason, stop_sequence, stop_details, container,
        usage, context_management, input_transformations,
    }

    /// A content block, its beginning or complete: the members of all kinds.
    Content {
        kind = "type", text, citations: Option<Vec<Raw<'a>>>, thinking, signature, data, id, name, input,
        server_name, caller, tool_use_id, is_error, content, encrypted_content, file_id,
    }

    /// The content of a tool's result, if it is an object.
    ResultHead { kind = "type" }
}
