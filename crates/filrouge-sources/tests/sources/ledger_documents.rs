//! Tests that exporting a ledger session yields the same document as rendering its turns directly.

use std::sync::Arc;

use filrouge_sources::Library;
use filrouge_sources::library::export::{Form, export};
use filrouge_types::SessionId;

use crate::ledger::{World, a_turn, user};

#[test]
fn an_exported_session_equals_its_rendered_turns() {
    let world = World::in_memory();
    let ada = user("ada");
    world.create_session(&ada, "s", None);
    world.record_turn(&ada, "s", "r1", a_turn());
    let id: SessionId = "s".parse().unwrap();
    let recorded = world.engine.context.conversation(&ada, &id);
    let recorded = world.runtime.block_on(recorded).unwrap();
    let library = Library::new(vec![Arc::new(world.source_for(ada))], 0);
    for form in [Form::Markdown, Form::Html] {
        let written = |mask| {
            let mut out = Vec::new();
            export(&library, "s", form, mask, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let mut expected = String::new();
        match form {
            Form::Html => filrouge_document::html(&recorded, &mut expected).unwrap(),
            _ => filrouge_document::markdown(&recorded, &mut expected).unwrap(),
        }
        assert_eq!(written(false), expected);
        assert!(expected.contains("about s"));
        assert_eq!(written(true), expected);
    }
}
