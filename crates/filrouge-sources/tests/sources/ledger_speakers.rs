//! Tests that the ledger keeps each text's author, even where a program does not record it in the message.

use filrouge_sources::{Conversation, PartKind, Role, Source, claude_code, codex};

use crate::copy_of;
use crate::ledger::{import, operator, stored_at};

/// The texts that users typed.
fn typed_texts(conversation: &Conversation) -> Vec<String> {
    let users = conversation
        .messages
        .iter()
        .filter(|m| m.role == Role::User);
    let texts = users
        .flat_map(|message| &message.parts)
        .filter_map(|part| match &part.kind {
            PartKind::Text {
                text,
                synthetic: false,
            } => Some(text.trim().to_owned()),
            _ => None,
        });
    texts.filter(|text| !text.starts_with('<')).collect()
}

#[test]
fn questions_of_imported_histories_are_the_users() {
    let (of_codex, of_claude) = (copy_of("codex"), copy_of("claude-code"));
    let programs = [
        ("codex", codex::open(of_codex.path()).unwrap()),
        ("claude-code", claude_code::open(of_claude.path()).unwrap()),
    ];
    for (name, sources) in programs {
        let store = tempfile::tempdir().unwrap();
        let world = stored_at(&store.path().join("filrouge.db"));
        let mut compared = 0;
        for origin in sources {
            for header in origin.list().unwrap().headers.clone() {
                import(&world, &origin.load(&header.id).unwrap(), name);
                let here = world.source_for(operator()).read(&header.id).unwrap();
                let own = origin.read(&header.id).unwrap();
                assert_eq!(typed_texts(&here), typed_texts(&own), "{}", header.id);
                compared += typed_texts(&own).len();
            }
        }
        assert!(compared > 1, "{name}");
        world.runtime.block_on(world.engine.ledger().close());
    }
}
