//! An imported history equals the original.

use super::*;

/// The messages as (id, role, parts); each part as its id, kind and text. Credentials are masked, as in an import.
fn comparable(conversation: &Conversation) -> Vec<(String, Role, Vec<String>)> {
    let messages = conversation.messages.iter().filter(|message| {
        // Unfinished answers are not imported.
        message.role == Role::User || message.completed.is_some() || message.error.is_some()
    });
    let parts = |message: &Message| {
        let parts = message.parts.iter().map(|part| {
            let text = match &part.kind {
                PartKind::Text { text, .. } | PartKind::Reasoning { text } => text.to_string(),
                PartKind::Tool(tool) => format!(
                    "{} {} {:?} {:?} {:?}",
                    tool.name, tool.status as u8, tool.output, tool.error, tool.child
                ),
                PartKind::Patch { files } => files.join(" "),
                _ => String::new(),
            };
            let masked = filrouge_engine::mask_text(&text, &mut filrouge_engine::Masked::default());
            let text = masked.unwrap_or(text);
            format!("{} {} {text}", part.id, part.kind.name())
        });
        parts.collect()
    };
    messages
        .map(|message| (message.id.to_string(), message.role, parts(message)))
        .collect()
}

#[test]
fn an_imported_history_equals_the_original() {
    for name in [
        "opencode-json",
        "opencode-json-legacy",
        "opencode-sqlite-first",
    ] {
        let folder = copy_of(name);
        let origin = only_source(folder.path());
        let store = tempfile::tempdir().unwrap();
        let world = world_in_file(&store.path().join("filrouge.db"));
        let headers = origin.list().unwrap().headers.clone();
        for header in &headers {
            import(&world, &origin.load(&header.id).unwrap(), "opencode");
        }
        let source = world.source_for(operator());
        let listed = source.list().unwrap().headers.clone();
        let fields = |h: &filrouge_sources::Header| {
            (
                h.id.clone(),
                h.created,
                h.updated,
                h.agent.clone(),
                h.directory.clone(),
                h.changes,
            )
        };
        assert_eq!(
            listed.iter().map(|h| fields(h)).collect::<Vec<_>>(),
            headers.iter().map(|h| fields(h)).collect::<Vec<_>>()
        );
        for header in headers {
            let (original, imported) = (origin.read(&header.id), source.read(&header.id));
            let (original, imported) = (original.unwrap(), imported.unwrap());
            assert_eq!(
                comparable(&imported),
                comparable(&original),
                "{}",
                header.id
            );
            assert_eq!(
                imported.boundaries.len(),
                original.boundaries.len(),
                "{}",
                header.id
            );
            let changes = |c: &Conversation| {
                let parts = c.messages.iter().flat_map(|m| &m.parts);
                let tools = parts.filter_map(|part| match &part.kind {
                    PartKind::Tool(tool) if !tool.status.is_open() => {
                        Some((tool.changes, tool.files.clone()))
                    }
                    _ => None,
                });
                tools.collect::<Vec<_>>()
            };
            assert_eq!(changes(&imported), changes(&original), "{}", header.id);
            let tokens = |c: &Conversation| {
                c.messages
                    .iter()
                    .filter_map(|m| m.tokens)
                    .map(|t| t.output + t.input)
                    .sum::<u64>()
            };
            // The ledger keeps each message's counts unchanged; in OpenCode 0.5 these are the counts of its last step.
            let expected = match original.token_rule {
                TokenRule::OpencodeInputHoldsCache => tokens_on_disk(folder.path(), &header.id),
                _ => tokens(&original),
            };
            assert_eq!(tokens(&imported), expected, "{}", header.id);
        }
        world.runtime.block_on(world.engine.ledger().close());
    }
}

/// The sum of input without cache reads and output, from the message files of a session in the older kind of tree.
fn tokens_on_disk(root: &Path, session: &str) -> u64 {
    let projects = std::fs::read_dir(root.join("project")).unwrap();
    let folders = projects.map(|project| {
        let below = format!("storage/session/message/{session}");
        project.unwrap().path().join(below)
    });
    let files = folders.filter(|folder| folder.is_dir());
    let files = files.flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let message = |file: std::path::PathBuf| crate::json(&std::fs::read_to_string(file).unwrap());
    files
        .map(|file| {
            let tokens = message(file.unwrap().path())["tokens"].clone();
            let count = |number: &serde_json::Value| number.as_u64().unwrap_or(0);
            count(&tokens["input"]) - count(&tokens["cache"]["read"]) + count(&tokens["output"])
        })
        .sum()
}
