//! The file: its permissions, the files that it replaces, and those that it refuses.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use filrouge_store::contract::text_index::{
    IndexTestExt as _, matching_bodies, shard, texts, tidy_fully,
};
use filrouge_store::text_index::TextIndex;
use filrouge_types::ErrorCode;
use rusqlite::Connection;

use super::index_at;

#[test]
fn only_the_owner_may_read_the_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new").join("index.db");
    let index = index_at(&path);
    index
        .apply(&[texts(&shard("r", "a"), "s", &["apple"])], None)
        .unwrap();
    for entry in fs::read_dir(path.parent().unwrap()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{:?}", entry.file_name());
    }
}

#[test]
fn other_files_are_refused_and_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    let other = Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE t (x)").unwrap();
    drop(other);
    let text = folder.path().join("notes.txt");
    fs::write(&text, "these are somebody's notes ".repeat(100)).unwrap();
    let ledger = folder.path().join("ledger.db");
    crate::fixture_at(&ledger, crate::keyring());
    for path in [path, text, ledger] {
        let before = fs::read(&path).unwrap();
        let refused = filrouge_sqlite::text_index::SqliteIndex::open(&path).err();
        assert_eq!(refused.unwrap().code, ErrorCode::Invalid, "{path:?}");
        assert!(fs::read(&path).unwrap() == before, "{path:?}");
    }
}

#[test]
fn an_index_of_another_format_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let a = shard("r", "a");
    let old = index_at(&path);
    old.apply(&[texts(&a, "s", &["apple"])], Some(b"1"))
        .unwrap();
    let old_no = old.session(b"r", "s").unwrap().unwrap().no;
    let raw = Connection::open(&path).unwrap();
    raw.pragma_update(None, "user_version", 77).unwrap();
    drop(raw);
    let new = index_at(&path);
    assert_eq!(new.position().unwrap(), None);
    new.apply(&[texts(&a, "s", &["pear"])], Some(b"2")).unwrap();
    let no = new.session(b"r", "s").unwrap().unwrap().no;
    assert!(no != old_no && no < 1 << 52, "{no} {old_no}");
    // A process that has the deleted file open switches to the new one.
    assert_eq!(old.position().unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(matching_bodies(&old, &a, &["pear"]), ["0=pear"]);
    old.forget(b"r", "s").unwrap();
    assert_eq!(matching_bodies(&new, &a, &["pear"]), [""; 0]);
}

#[test]
fn an_emptied_index_is_small() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let index = index_at(&path);
    let small = index.status().unwrap().bytes;
    let all: Vec<String> = (0..800_u64)
        .map(|n| {
            format!(
                "{:x}",
                u128::from(n).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060)
            )
        })
        .collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    index
        .apply(&[texts(&shard("r", "a"), "s", &all)], None)
        .unwrap();
    tidy_fully(&index);
    assert!(index.status().unwrap().bytes > 2 * small);
    index.clear().unwrap();
    // The WAL still contains the page of the write that ends the erasure.
    assert!(index.status().unwrap().bytes < small + 3 * 16_384);
}

#[test]
fn a_damaged_index_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.db");
    let a = shard("r", "a");
    // Damage right after the header is found when the file is opened; damage from the third page on is found later.
    for from in [100, 2 * 16_384] {
        let index = index_at(&path);
        index.clear().unwrap();
        let all: Vec<String> = (0..200).map(|n| format!("apple no{n} of all")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        index.apply(&[texts(&a, "s", &all)], Some(b"1")).unwrap();
        tidy_fully(&index);
        drop(index);
        let mut bytes = fs::read(&path).unwrap();
        assert!(bytes.len() > 5 * 16_384);
        for byte in &mut bytes[from..] {
            *byte = 0xAB;
        }
        fs::write(&path, bytes).unwrap();
        let index = index_at(&path);
        if index.apply(&[texts(&a, "s", &["pear"])], None).is_err() {
            index.apply(&[texts(&a, "s", &["pear"])], None).unwrap();
        }
        assert_eq!(index.position().unwrap(), None);
        assert_eq!(matching_bodies(&index, &a, &["pear"]), ["0=pear"]);
    }
}
