//! Who has said what stays the same in the ledger, also where a program does not say it in the message itself.

use filrouge_sources::{Conversation, PartKind, Role, Source, claude_code, codex};

use crate::copy_of;
use crate::ledger::{bring_in, operator, stored_at};

/// What people have typed themselves.
fn asked(conversation: &Conversation) -> Vec<String> {
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
        let mut some = 0;
        for origin in sources {
            for header in origin.list().unwrap().headers.clone() {
                bring_in(&world, &origin.load(&header.id).unwrap(), name);
                let here = world.seen_by(operator()).read(&header.id).unwrap();
                let own = origin.read(&header.id).unwrap();
                assert_eq!(asked(&here), asked(&own), "{}", header.id);
                some += asked(&own).len();
            }
        }
        assert!(some > 1, "{name}");
        world.runtime.block_on(world.engine.ledger().close());
    }
}
