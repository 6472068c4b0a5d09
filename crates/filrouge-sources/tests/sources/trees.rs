//! Tests of the paths that can be opened, and of both kinds of trees together.

use std::fs;

use filrouge_sources::{SourceError, opencode};

use crate::{GeneratedTree, copy, fixture, put, read_all, reports};

#[test]
fn every_folder_that_a_user_may_pass_can_be_opened() {
    for path in ["opencode-json", "opencode-json/storage"] {
        assert_eq!(read_all(&fixture(path)).0.len(), 14, "{path}");
    }
    let project = "opencode-json-legacy/project/tmp-demo-atelier-api";
    let expected = read_all(&fixture("opencode-json-legacy")).0;
    for path in ["opencode-json-legacy/project", project] {
        assert_eq!(read_all(&fixture(path)).0, expected, "{path}");
    }
    for below in ["storage", "storage/session"] {
        assert_eq!(
            read_all(&fixture(project).join(below)).0,
            expected,
            "{below}"
        );
    }
    let source = crate::only_source(&fixture("opencode-json"));
    let listing = source.list().unwrap();
    assert_eq!(source.name(), "opencode");
    assert!(listing.headers.iter().all(|h| h.generation == "storage"));
}

#[test]
fn an_unrecognized_path_is_an_error_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &str| opencode::open(&dir.path().join(path)).err().unwrap();
    assert!(matches!(open("absent"), SourceError::NotFound { .. }));
    assert!(matches!(open(""), SourceError::Unrecognized { .. }));
    assert!(
        opencode::PROGRAM
            .hint_for(&open(""))
            .contains("~/.local/share/opencode")
    );
    put(dir.path(), "note.txt", "");
    assert!(matches!(open("note.txt"), SourceError::Unrecognized { .. }));

    // A folder without sessions or messages is not a history.
    put(dir.path(), "storage/session_diff/s1.json", "[]");
    assert!(matches!(open(""), SourceError::Unrecognized { .. }));
}

/// The data folder contains the two fixtures, and a newer copy of a legacy session's file in `storage`.
#[test]
fn both_file_storages_are_read_together() {
    let dir = tempfile::tempdir().unwrap();
    copy(&fixture("opencode-json"), dir.path());
    copy(&fixture("opencode-json-legacy"), dir.path());
    let id = "ses_72235f00affefvPj3zTqjv3F2b";
    let info = format!("project/tmp-demo-atelier-api/storage/session/info/{id}.json");
    let moved = format!("storage/session/d82cdb25e3fd8e4bddc64a620042cf815cd8b682/{id}.json");
    fs::copy(dir.path().join(&info), dir.path().join(&moved)).unwrap();
    let sources = opencode::open(dir.path()).unwrap();
    let listing = sources[0].list().unwrap();
    assert_eq!(
        (sources.len(), listing.generations()),
        (1, "project, storage".to_owned())
    );
    let shadowed: Vec<_> = listing
        .shadowed
        .iter()
        .map(|s| s.path.to_str().unwrap())
        .collect();
    assert_eq!(shadowed, [format!("{id} in project")]);
    let (loaded, _) = read_all(dir.path());
    assert_eq!(loaded.len(), 16);
    let session = loaded
        .iter()
        .find(|session| *session.session.id == *id)
        .unwrap();
    assert_eq!(
        session.session.project_id.as_deref().unwrap(),
        &moved[16..56]
    );

    // A newer file that cannot be read does not shadow an older one.
    fs::write(dir.path().join(&moved), "{").unwrap();
    let (loaded, skipped) = read_all(dir.path());
    assert_eq!(loaded.len(), 16);
    let reports = reports(dir.path(), &skipped);
    assert!(reports.contains(&(moved, "torn")), "{reports:?}");
    assert_eq!(
        loaded
            .iter()
            .find(|session| *session.session.id == *id)
            .unwrap()
            .turns
            .len(),
        2
    );
}

#[test]
fn one_id_in_two_projects_is_read_once() {
    let tree = GeneratedTree::new();
    tree.session("p0", "s1", 900);
    tree.session("p2", "s1", 2000);
    let (loaded, skipped) = read_all(tree.path());
    assert_eq!(loaded.len(), 1);
    assert_eq!(loaded[0].session.project_id.as_deref().unwrap(), "p2");
    let expected = ["storage/session/p0/s1.json", "storage/session/p1/s1.json"];
    assert_eq!(
        reports(tree.path(), &skipped),
        expected.map(|path| (path.to_owned(), "duplicate_id"))
    );
}

#[test]
fn sessions_of_the_same_time_are_ordered_by_id() {
    let tree = GeneratedTree::new();
    for id in ["s3", "s2", "t0"] {
        tree.session("p1", id, 1000);
    }
    tree.session("p0", "z", 999);
    let (loaded, _) = read_all(tree.path());
    let ids: Vec<&str> = loaded.iter().map(|session| &*session.session.id).collect();
    assert_eq!(ids, ["z", "s1", "s2", "s3", "t0"]);
}

#[test]
fn a_broken_project_file_loses_no_session() {
    let tree = GeneratedTree::new();
    put(tree.path(), "storage/project/p1.json", "{\"worktree\":");
    tree.session("p1", "s2", 2000);
    let (loaded, skipped) = read_all(tree.path());
    assert_eq!(loaded.len(), 2);
    assert_eq!(
        reports(tree.path(), &skipped),
        [("storage/project/p1.json".to_owned(), "torn")]
    );
}

#[test]
fn reading_does_not_change_the_tree() {
    let dir = crate::copy_of("opencode-json");
    let listing = |dir: &std::path::Path| {
        let mut entries = Vec::new();
        let mut pending = vec![dir.to_owned()];
        while let Some(folder) = pending.pop() {
            for child in fs::read_dir(folder).unwrap() {
                let child = child.unwrap();
                let meta = child.metadata().unwrap();
                if meta.is_dir() {
                    pending.push(child.path());
                }
                entries.push((child.path(), meta.len(), meta.modified().unwrap()));
            }
        }
        entries.sort();
        entries
    };
    let before = listing(dir.path());
    read_all(dir.path());
    assert_eq!(listing(dir.path()), before);
}
