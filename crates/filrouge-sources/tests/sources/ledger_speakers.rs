//! Tests that an import keeps the author of each text, even if a program does not record it in the message.

use filrouge_sources::{Conversation, PartKind, Role, Source, claude_code, codex};

use crate::copy_of;
use crate::ledger::{import, operator, world_in_file};

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
fn questions_of_imported_histories_were_typed_by_the_user() {
    let (of_codex, of_claude) = (copy_of("codex"), copy_of("claude-code"));
    let programs = [
        ("codex", codex::open(of_codex.path()).unwrap()),
        ("claude-code", claude_code::open(of_claude.path()).unwrap()),
    ];
    for (name, sources) in programs {
        let store = tempfile::tempdir().unwrap();
        let world = world_in_file(&store.path().join("filrouge.db"));
        let mut compared = 0;
        for origin in sources {
            for header in origin.list().unwrap().headers.clone() {
                import(&world, &origin.load(&header.id).unwrap(), name);
                let imported = world.source_for(operator()).read(&header.id).unwrap();
                let original = origin.read(&header.id).unwrap();
                assert_eq!(
                    typed_texts(&imported),
                    typed_texts(&original),
                    "{}",
                    header.id
                );
                compared += typed_texts(&original).len();
            }
        }
        assert!(compared > 1, "{name}: only {compared} texts");
        world.runtime.block_on(world.engine.ledger().close());
    }
}
