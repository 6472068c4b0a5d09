//! Tests of lineage on genuine histories: subagents and forks of OpenCode, and sessions of other programs.

use filrouge_sources::library::lineage::{Evidence, Fork, Lineage, Relative, lineage};
use filrouge_sources::{Library, PartKind, claude_code, codex, opencode};

use crate::{copy_of, fixture, json};

/// A library over a copy of an OpenCode fixture, with that copy.
pub(crate) fn opencode_library(name: &str) -> (tempfile::TempDir, Library) {
    let dir = copy_of(name);
    let sources = opencode::open(dir.path()).unwrap();
    (dir, Library::new(sources, 8 << 20))
}

/// Maps the short names of a fixture's sessions to their ids.
pub(crate) fn names(fixture_name: &str) -> impl Fn(&str) -> String {
    let path = fixture(fixture_name).join("oracle/session-names.json");
    let names = json(&std::fs::read_to_string(path).unwrap());
    move |name| names[name].as_str().unwrap().to_owned()
}

fn lineage_of(library: &Library, id: &str) -> Lineage {
    lineage(library, id).unwrap()
}

fn titles(relatives: &[Relative]) -> Vec<(usize, &str)> {
    relatives
        .iter()
        .map(|r| (r.depth, r.session.title.as_deref().unwrap_or("?")))
        .collect()
}

fn forks(forks: &[Fork]) -> Vec<(&str, Evidence, usize)> {
    let forks = forks.iter();
    forks
        .map(|f| (&*f.session.id, f.evidence, f.copied_messages))
        .collect()
}

/// The fixtures that contain a complete fork, a shorter fork and a chain of subagents, each with the fixture that names
/// its sessions.
const FIXTURES: [(&str, &str); 3] = [
    ("opencode-sqlite", "opencode-sqlite"),
    ("opencode-sqlite-first", "opencode-sqlite-first"),
    ("opencode-sqlite-migrated", "opencode-json-whole"),
];

#[test]
fn forks_are_traced_to_their_origin() {
    for (fixture, names_fixture) in FIXTURES {
        let (_dir, library) = opencode_library(fixture);
        let id = names(names_fixture);
        let (origin, fork, short_fork) = (id("impl"), id("fork"), id("fork2"));
        let inferred = Evidence::Inferred;
        assert_eq!(
            forks(&lineage_of(&library, &fork).forked_from),
            [(&*origin, inferred, 12)]
        );
        // The shorter fork has eight of the twelve messages; the other fork has them too. Both forks have the same
        // title.
        assert_eq!(
            forks(&lineage_of(&library, &short_fork).forked_from),
            [(&*origin, inferred, 8)]
        );
        let of_origin = lineage_of(&library, &origin);
        let expected = [(&*fork, inferred, 12), (&*short_fork, inferred, 8)];
        assert_eq!(forks(&of_origin.forks), expected, "{fixture}");
        assert!(of_origin.forked_from.is_empty() && of_origin.notices.is_empty());
        assert!(lineage_of(&library, &fork).forks.is_empty());
    }
}

#[test]
fn other_sessions_are_not_forks() {
    for (fixture, names_fixture) in FIXTURES {
        let (_dir, library) = opencode_library(fixture);
        let id = names(names_fixture);
        let related_ids = [id("impl"), id("fork"), id("fork2")];
        for entry in &library.catalog().entries {
            let found = lineage_of(&library, &entry.header.id);
            let related = !found.forks.is_empty() || !found.forked_from.is_empty();
            assert_eq!(
                related,
                related_ids.contains(&found.session.id),
                "{fixture}"
            );
            assert!(!found.cycle && found.gaps.is_empty());
            assert!(found.notices.is_empty(), "{:?}", found.notices);
        }
    }
}

#[test]
fn subagents_name_the_calls_that_started_them() {
    for (fixture, names_fixture) in FIXTURES {
        let (_dir, library) = opencode_library(fixture);
        let review = lineage_of(&library, &names(names_fixture)("review"));
        let chain = [
            (1, "Run the suite (@tester subagent)"),
            (2, "Check the clock (@general subagent)"),
        ];
        assert_eq!(titles(&review.child_sessions), chain);
        let last = lineage_of(&library, &review.child_sessions[1].session.id);
        let ancestors = [(1, chain[0].1), (2, "Quality review Plan 07")];
        assert_eq!(titles(&last.parent_sessions), ancestors);
        assert!(last.child_sessions.is_empty() && last.siblings.is_empty());
        // Each call is in a message of the parent and names the child.
        for (parent, child) in [
            (&review.session.id, 0),
            (&review.child_sessions[0].session.id, 1),
        ] {
            let child = &review.child_sessions[child];
            let catalog = library.catalog();
            let entry = catalog.get(parent).unwrap();
            let conversation = library.conversation(entry).unwrap();
            let message = child.message_id.as_deref().unwrap();
            let message = conversation
                .messages
                .iter()
                .find(|m| &*m.id == message)
                .unwrap();
            let call = message.parts.iter().find_map(|part| match &part.kind {
                PartKind::Tool(tool) if tool.child.as_deref() == Some(&child.session.id) => {
                    Some(tool)
                }
                _ => None,
            });
            assert_eq!(
                child.call_id.as_deref(),
                Some(&*call.unwrap().call_id),
                "{fixture}"
            );
        }
        assert_eq!(last.call_id, review.child_sessions[1].call_id);
    }
}

#[test]
fn subagents_in_a_tree_of_files_are_children() {
    let (_dir, library) = opencode_library("opencode-json-whole");
    let id = names("opencode-json-whole");
    let plan = lineage_of(&library, &id("plan"));
    assert_eq!(
        titles(&plan.child_sessions),
        [(1, "Map request counters (@general subagent)")]
    );
    assert!(plan.child_sessions[0].call_id.is_some());
    let tour = lineage_of(&library, &id("mention"));
    assert_eq!(
        titles(&tour.child_sessions),
        [(1, "Licence check (@general subagent)")]
    );
    let child = lineage_of(&library, &tour.child_sessions[0].session.id);
    assert_eq!(
        titles(&child.parent_sessions),
        [(1, "Tour of the repository")]
    );
    assert_eq!(child.message_id, tour.child_sessions[0].message_id);
}

#[test]
fn a_missing_parent_is_a_gap() {
    let dir = copy_of("opencode-json-whole");
    let id = names("opencode-json-whole");
    let parent = id("plan");
    let project = "d82cdb25e3fd8e4bddc64a620042cf815cd8b682";
    let folder = dir.path().join("storage/session").join(project);
    std::fs::remove_file(folder.join(format!("{parent}.json"))).unwrap();
    let library = Library::new(opencode::open(dir.path()).unwrap(), 8 << 20);
    let child = lineage_of(&library, "ses_44e90f368ffe14oamXJ6uXrFsM");
    assert_eq!(child.gaps, [parent]);
    assert!(child.parent_sessions.is_empty());
}

#[test]
fn a_subagent_of_claude_code_is_a_child() {
    let dir = copy_of("claude-code");
    let library = Library::new(claude_code::open(dir.path()).unwrap(), 8 << 20);
    let catalog = library.catalog();
    let parent = "1f9f6b92-f7fe-4d48-a077-9082ea2f9a8f";
    let found = lineage_of(&library, parent);
    assert_eq!(found.child_sessions.len(), 1);
    let child = &found.child_sessions[0];
    assert!(child.call_id.is_some() && child.message_id.is_some());
    let of_child = lineage_of(&library, &child.session.id);
    assert_eq!(of_child.parent_sessions[0].session.id, parent);
    for entry in &catalog.entries {
        let found = lineage_of(&library, &entry.header.id);
        assert!(found.forks.is_empty() && found.forked_from.is_empty());
        assert!(found.gaps.is_empty() && !found.cycle);
    }
}

#[test]
fn codex_sessions_are_unrelated() {
    let dir = copy_of("codex");
    let library = Library::new(codex::open(dir.path()).unwrap(), 8 << 20);
    let catalog = library.catalog();
    assert_eq!(catalog.entries.len(), 2);
    for entry in &catalog.entries {
        let found = lineage_of(&library, &entry.header.id);
        assert!(found.forks.is_empty() && found.forked_from.is_empty());
        assert!(found.child_sessions.is_empty() && found.gaps.is_empty());
    }
}
