//! Tests that the export of a ledger session equals the document of its recorded turns.

use std::sync::Arc;

use filrouge_sources::Library;
use filrouge_sources::library::export::{Form, export};
use filrouge_types::SessionId;

use crate::ledger::{World, turn_items, user};

#[test]
fn an_exported_session_equals_its_rendered_turns() {
    let world = World::in_memory();
    let ada = user("ada");
    world.create_session(&ada, "s", None);
    world.record_turn(&ada, "s", "r1", turn_items());
    let id: SessionId = "s".parse().unwrap();
    let recorded = world.engine.context.conversation(&ada, &id);
    let recorded = world.runtime.block_on(recorded).unwrap();
    let library = Library::new(vec![Arc::new(world.source_for(ada))], 0);
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
