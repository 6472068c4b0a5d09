//! Tests that the export of a ledger session equals the document of its recorded turns.

use std::sync::Arc;

use filrouge_engine::Caller;
use filrouge_sources::ledger::KeptConversations;
use filrouge_sources::library::export::{Form, export};
use filrouge_sources::{Library, PartKind, ReadError, Source, ToolStatus};
use filrouge_store::command::RedactionTarget;
use filrouge_store::record::Seqs;
use filrouge_types::SessionId;
use serde_json::json;

use crate::ledger::{World, operator, turn_items, user};

#[test]
fn an_exported_session_equals_its_rendered_turns() {
    let world = World::in_memory();
    let ada = user("ada");
    world.create_session(&ada, "s", None);
    world.record_turn(&ada, "s", "r1", turn_items());
    assert_documents_are_equal(&world, &ada);
    redact(&world);
    assert_documents_are_equal(&world, &ada);
}

/// Redacts the result of the call `c1` and the call `c2`.
fn redact(world: &World) {
    let seqs = Seqs::from_ranges([(4, 5)]).unwrap();
    let target = RedactionTarget::Items(seqs);
    let erasure = &world.engine.erasure;
    let caller = operator();
    let redacted = erasure.redact(&caller, "s".parse().unwrap(), target, "asked to");
    world.runtime.block_on(redacted).unwrap();
}

#[test]
fn a_kept_conversation_is_read_again_only_after_a_change() {
    let world = World::in_memory();
    world.create_session(&user("ada"), "s", None);
    world.record_turn(&user("ada"), "s", "r1", turn_items());
    let kept = Arc::new(KeptConversations::default());
    let read = |name: &str| {
        let source = world.source_for(user(name)).keeping(kept.clone());
        source.read_shared("s")
    };
    let read_anew = || world.source_for(user("ada")).read("s").unwrap();
    let first = read("ada").unwrap();
    assert_eq!(*first, read_anew());
    assert!(Arc::ptr_eq(&first, &read("ada").unwrap()));
    assert!(matches!(read("bob"), Err(ReadError::Gone)));
    let more = json!([{ "role": "user", "channel": "question", "parts": [{ "type": "text", "text": "More?" }] }]);
    world.record_turn(&user("ada"), "s", "r2", more);
    let second = read("ada").unwrap();
    assert_ne!(second, first);
    assert_eq!(*second, read_anew());
    redact(&world);
    let third = read("ada").unwrap();
    assert_ne!(third, second);
    assert_eq!(*third, read_anew());
    assert!(Arc::ptr_eq(&third, &read("ada").unwrap()));
}

#[test]
fn redacted_calls_and_results_stay_together() {
    let world = World::in_memory();
    let ada = user("ada");
    world.create_session(&ada, "s", None);
    world.record_turn(&ada, "s", "r1", turn_items());
    redact(&world);
    let conversation = world.source_for(ada).read("s").unwrap();
    let parts = conversation.messages.iter().flat_map(|m| &m.parts);
    let tools = parts.filter_map(|part| match &part.kind {
        PartKind::Tool(tool) => Some((
            &*tool.call_id,
            tool.status,
            tool.output.as_deref().or(tool.error.as_deref()),
        )),
        _ => None,
    });
    assert_eq!(
        tools.collect::<Vec<_>>(),
        [
            ("c1", ToolStatus::Completed, Some("[redacted]")),
            ("[redacted]", ToolStatus::Error, Some(r#"{"code":1}"#)),
            ("unfinished", ToolStatus::Running, None),
            ("without_call", ToolStatus::Completed, Some("late")),
        ]
    );
}

#[track_caller]
fn assert_documents_are_equal(world: &World, ada: &Caller) {
    let id: SessionId = "s".parse().unwrap();
    let recorded = world.engine.context.conversation(ada, &id);
    let recorded = world.runtime.block_on(recorded).unwrap();
    let library = Library::new(vec![Arc::new(world.source_for(ada.clone()))], 0);
    for form in [Form::Markdown, Form::Html] {
        let exported = |mask| {
            let mut out = Vec::new();
            export(&library, "s", form, mask, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let mut expected = String::new();
        match form {
            Form::Html => filrouge_document::html(&recorded, &mut expected).unwrap(),
            _ => filrouge_document::markdown(&recorded, &mut expected).unwrap(),
        }
        assert_eq!(exported(false), expected);
        assert!(expected.contains("about s"));
        assert_eq!(exported(true), expected);
    }
}

#[test]
fn redacted_items_are_not_shown() {
    let world = World::in_memory();
    world.create_session(&operator(), "s", None);
    world.record_turn(&operator(), "s", "r", turn_items());
    let id: SessionId = "s".parse().unwrap();
    let seqs = Seqs::from_ranges([(1, 4), (9, 9)]).unwrap();
    let caller = operator();
    let redacted =
        world
            .engine
            .erasure
            .redact(&caller, id, RedactionTarget::Items(seqs), "asked to");
    world.runtime.block_on(redacted).unwrap();
    let source = world.source_for(operator());
    let shown = format!(
        "{:?} {:?}",
        source.read("s").unwrap(),
        source.load("s").unwrap()
    );
    for text in ["What is there?", "Let me see.", "a\\nb", "Two files."] {
        assert!(!shown.contains(text), "{text}");
    }
    assert!(shown.contains("[redacted]") && shown.contains("We looked."));
    let loaded = source.load("s").unwrap();
    assert!(
        loaded.turns[0].question[0]
            .parts
            .as_str()
            .contains("[redacted]")
    );
}
