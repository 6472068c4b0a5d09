//! Constructors of items.

use filrouge_types::{Channel, ItemBody, RawJson, Role, Variant};
use serde_json::{Value, json};

/// An item with these parts.
pub(crate) fn item(role: Role, channel: &str, parts: Value) -> ItemBody {
    raw_item(role, channel, &parts.to_string())
}

/// An item whose parts are raw JSON.
pub(crate) fn raw_item(role: Role, channel: &str, parts: &str) -> ItemBody {
    ItemBody::new(
        role,
        Channel::from_word(channel),
        RawJson::parse(parts).unwrap(),
    )
}

pub(crate) fn text_item(role: Role, channel: &str, text: &str) -> ItemBody {
    item(role, channel, json!([{"type": "text", "text": text}]))
}

pub(crate) fn note(text: &str) -> ItemBody {
    text_item(Role::System, "system_note", text)
}

pub(crate) fn part(part: Value) -> ItemBody {
    item(Role::Assistant, "final", json!([part]))
}

pub(crate) fn call(id: &str) -> ItemBody {
    call_with_args(id, json!({"of": id}))
}

pub(crate) fn call_with_args(id: &str, args: Value) -> ItemBody {
    let parts = json!([{"type": "tool_call", "call_id": id, "name": "f", "args": args}]);
    item(Role::Assistant, "tool_call", parts)
}

pub(crate) fn result(id: &str) -> ItemBody {
    result_with_content(id, json!(format!("did {id}")))
}

pub(crate) fn result_with_content(id: &str, content: Value) -> ItemBody {
    let parts = json!([{"type": "tool_result", "call_id": id, "ok": true, "content": content}]);
    item(Role::Tool, "tool_result", parts)
}

pub(crate) fn failed(id: &str, content: Value) -> ItemBody {
    let parts = json!([{"type": "tool_result", "call_id": id, "ok": false, "content": content}]);
    item(Role::Tool, "tool_result", parts)
}

pub(crate) fn thought(text: &str) -> ItemBody {
    let parts =
        json!([{"type": "reasoning", "text": text, "provider": "anthropic", "signature": "c2ln"}]);
    item(Role::Assistant, "thought", parts)
}

pub(crate) fn summary(text: &str, covers: Option<Value>) -> ItemBody {
    let metadata = covers.map(|covers| RawJson::write(&json!({"covers": covers})).unwrap());
    ItemBody {
        metadata,
        ..text_item(Role::System, "summary", text)
    }
}

pub(crate) fn translated(item: ItemBody) -> ItemBody {
    ItemBody {
        variant: Variant::Translated,
        ..item
    }
}

pub(crate) fn with_model(model: &str, item: ItemBody) -> ItemBody {
    ItemBody {
        model: Some(model.into()),
        ..item
    }
}
