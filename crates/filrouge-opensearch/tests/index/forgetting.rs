//! What remains in OpenSearch's files.

use std::path::Path;
use std::time::{Duration, Instant};

use filrouge_store::contract::text_index::{IndexTestExt as _, shard, texts};
use filrouge_store::text_index::TextIndex as _;

use super::{index_at, new_prefix, server};

/// The longest word of the text, which a file contains in clear as long as it contains the text.
const WORD: &str = "floccinaucinihilipilification";

/// Whether a file below a folder contains the word.
fn holds_word(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else {
        // The server deletes folders and files meanwhile.
        return false;
    };
    entries.flatten().any(|entry| {
        let path = entry.path();
        match path.is_dir() {
            true => holds_word(&path),
            false => {
                let bytes = std::fs::read(&path).unwrap_or_default();
                bytes
                    .windows(WORD.len())
                    .any(|part| part == WORD.as_bytes())
            }
        }
    })
}

/// Forgotten text leaves all files after the pause before a merge. Also compares with the files before, so that the test
/// fails if it looks in the wrong place.
#[test]
fn no_file_keeps_forgotten_text() {
    let Some(server) = server() else { return };
    let index = index_at(server, &new_prefix()).with_merge_pause(Duration::from_secs(40));
    let a = shard("r", "a");
    let mut session = texts(&a, "s", &[WORD]);
    if let filrouge_store::text_index::IndexUpdate::Session(update) = &mut session {
        // The body would be found in another encoding.
        update.documents[0].body.clear();
    }
    index
        .apply(&[session, texts(&a, "t", &["other"])], None)
        .unwrap();
    let data = server.folder();
    if !is_readable(data) {
        return;
    }
    assert!(holds_word(data));
    assert_eq!(index.forget(b"r", "s").unwrap(), 1);
    let began = Instant::now();
    while holds_word(data) {
        assert!(began.elapsed() < Duration::from_secs(240));
        assert!(!index.tidy().unwrap());
        std::thread::sleep(Duration::from_secs(1));
    }
    assert_eq!(index.status().unwrap().documents, 1);
}

/// Whether this process may read the server's files: the server may run as another user.
fn is_readable(data: &Path) -> bool {
    std::fs::read_dir(data.join("opensearch/data")).is_ok()
}
