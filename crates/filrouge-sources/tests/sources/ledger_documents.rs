//! A session of the ledger as a document is the one that its own turns make.

use std::sync::Arc;

use filrouge_sources::Library;
use filrouge_sources::library::export::{Form, export};
use filrouge_types::SessionId;

use crate::ledger::{World, a_turn, user};

#[test]
fn its_documents_are_those_of_its_own_turns() {
    let world = World::in_memory();
    let ada = user("ada");
    world.make(&ada, "s", None);
    world.say(&ada, "s", "r1", a_turn());
    let id: SessionId = "s".parse().unwrap();
    let recorded = world.engine.context.conversation(&ada, &id);
    let recorded = world.runtime.block_on(recorded).unwrap();
    let library = Library::new(vec![Arc::new(world.seen_by(ada))], 0);
    for form in [Form::Markdown, Form::Html] {
        let written = |mask| {
            let mut out = Vec::new();
            export(&library, "s", form, mask, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let mut own = String::new();
        match form {
            Form::Html => filrouge_document::html(&recorded, &mut own).unwrap(),
            _ => filrouge_document::markdown(&recorded, &mut own).unwrap(),
        }
        assert_eq!(written(false), own);
        assert!(own.contains("about s"));
        assert_eq!(written(true), own);
    }
}
