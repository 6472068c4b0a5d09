//! Tests of what a session has beside its messages.

use std::fs;

use filrouge_sources::library::extras::Extras;
use filrouge_sources::library::history::{HistoryRequest, history};
use filrouge_sources::{Library, opencode};

use crate::library_lineage::{names, opencode_library};
use crate::{copy_of, json, put};

/// The to-do list, the session diff and the share of a session are on its first page.
#[test]
fn a_history_begins_with_what_the_session_has_beside_its_messages() {
    for fixture in ["opencode-json-whole", "opencode-sqlite"] {
        let (_dir, library) = opencode_library(fixture);
        let extras = |id: &str| history(&library, &HistoryRequest::new(id)).unwrap().extras;
        let all: Vec<Extras> = {
            let catalog = library.catalog();
            let ids = catalog.entries.iter().map(|entry| &*entry.header.id);
            ids.map(extras).collect()
        };
        let todos = all.iter().flat_map(|extras| &extras.todos);
        let bucket = "Write a token bucket with an injectable clock";
        let todo = todos.clone().find(|todo| todo.content == bucket);
        let todo = todo.unwrap_or_else(|| panic!("{fixture}: {:?}", todos.collect::<Vec<_>>()));
        assert_eq!(todo.priority.as_deref(), Some("high"), "{fixture}");
    }
    let dir = copy_of("opencode-json-whole");
    let storage = dir.path().join("storage");
    let id = names("opencode-json-whole")("small");
    let key = format!("AKIA{}", "Q7RT5VWX2YZ3ABCD");
    let diff = format!(
        r#"[{{"file":"src/{key} x","before":"","after":"x","additions":3,"deletions":1}},{{"file":7}}]"#
    );
    put(&storage, &format!("session_diff/{id}.json"), &diff);
    let sessions = storage.join("session");
    let projects = fs::read_dir(&sessions).unwrap();
    let mut files = projects.map(|project| project.unwrap().path().join(format!("{id}.json")));
    let file = files.find(|file| file.exists()).unwrap();
    let mut record = json(&fs::read_to_string(&file).unwrap());
    record["share"] = json(r#"{"url":"https://opencode.ai/s/x1","secret":"hidden-word"}"#);
    fs::write(&file, record.to_string()).unwrap();
    let library = Library::new(opencode::open(dir.path()).unwrap(), 1 << 20);
    let request = HistoryRequest {
        limit: 1,
        ..HistoryRequest::new(&id)
    };
    let first = history(&library, &request).unwrap();
    assert_eq!(
        first.extras.share_url.as_deref(),
        Some("https://opencode.ai/s/x1")
    );
    let [changed] = first.extras.changed_files.as_slice() else {
        panic!("{:?}", first.extras);
    };
    assert_eq!((changed.additions, changed.deletions), (3, 1));
    let text = serde_json::to_string(&first).unwrap();
    assert!(
        !text.contains(&key) && !text.contains("hidden-word"),
        "{text}"
    );
    let next = HistoryRequest {
        cursor: first.next_cursor,
        ..request
    };
    assert_eq!(history(&library, &next).unwrap().extras, Extras::default());
}
