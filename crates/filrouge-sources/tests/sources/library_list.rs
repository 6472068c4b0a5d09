//! Compares lists of genuine histories with what the programs themselves list.

use std::collections::BTreeSet;
use std::fs;

use filrouge_sources::library::list::{ListRequest, list};
use serde_json::Value;

use crate::library_lineage::opencode_library;
use crate::{fixture, json};

/// The output of `opencode session list` for each project of the fixture.
fn oracles(name: &str) -> Vec<(String, Vec<Value>)> {
    let mut lists = Vec::new();
    for file in fs::read_dir(fixture(name).join("oracle")).unwrap() {
        let path = file.unwrap().path();
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        if let Some(project) = stem.strip_prefix("list-") {
            let listed = json(&fs::read_to_string(&path).unwrap());
            lists.push((project.to_owned(), listed.as_array().unwrap().clone()));
        }
    }
    assert!(!lists.is_empty());
    lists
}

#[test]
fn roots_of_a_project_are_those_that_opencode_lists() {
    for name in [
        "opencode-json-whole",
        "opencode-sqlite",
        "opencode-sqlite-first",
    ] {
        let (_dir, library) = opencode_library(name);
        let stored: BTreeSet<_> = library
            .catalog()
            .entries
            .iter()
            .map(|e| e.header.id.to_string())
            .collect();
        for (project, expected) in oracles(name) {
            let request = ListRequest {
                project_id: Some(project.clone()),
                roots: true,
                ..ListRequest::default()
            };
            let page = list(&library, &request).unwrap();
            let actual: BTreeSet<_> = page.sessions.iter().map(|s| s.id.clone()).collect();
            let ids = expected
                .iter()
                .map(|s| s["id"].as_str().unwrap().to_owned());
            // Some fixtures do not contain all sessions.
            let ids: BTreeSet<_> = ids.filter(|id| stored.contains(id)).collect();
            assert_eq!(actual, ids, "{name} {project}");
            for row in &page.sessions {
                let Some(listed) = expected.iter().find(|s| s["id"] == row.id.as_str()) else {
                    continue;
                };
                assert_eq!(Some(&*row.title.clone().unwrap()), listed["title"].as_str());
                assert_eq!(Some(row.created), listed["created"].as_i64());
                assert_eq!(Some(row.updated), listed["updated"].as_i64());
            }
        }
    }
}

#[test]
fn all_pages_together_equal_the_list() {
    let (_dir, library) = opencode_library("opencode-sqlite");
    let all = list(
        &library,
        &ListRequest {
            limit: 500,
            ..ListRequest::default()
        },
    )
    .unwrap();
    assert_eq!(
        (all.sessions.len(), all.total, all.next_cursor),
        (25, 25, None)
    );
    let mut order = all.sessions.clone();
    order.sort_by(|a, b| b.updated.cmp(&a.updated).then_with(|| a.id.cmp(&b.id)));
    assert_eq!(order, all.sessions);
    let (mut paged, mut cursor) = (Vec::new(), None);
    loop {
        let page = list(
            &library,
            &ListRequest {
                limit: 4,
                cursor,
                ..ListRequest::default()
            },
        )
        .unwrap();
        paged.extend(page.sessions);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(paged, all.sessions);
}

#[test]
fn a_name_matches_part_of_a_title_or_a_project() {
    let (_dir, library) = opencode_library("opencode-json-whole");
    let list_by_name = |name: &str| {
        let request = ListRequest {
            session_name: Some(name.to_owned()),
            ..ListRequest::default()
        };
        list(&library, &request).unwrap()
    };
    let accueil = list_by_name("PAGE D'ACCUEIL");
    assert_eq!(accueil.sessions.len(), 1);
    assert_eq!(accueil.project_id, accueil.sessions[0].project_id);
    assert_eq!(list_by_name("de\u{301}po\u{302}t GIT").total, 1);
    // No title contains this name, so it selects a project.
    let project = list_by_name("atelier-api");
    assert!(
        project.total >= 4 && project.project_id.is_some(),
        "{project:?}"
    );
}
