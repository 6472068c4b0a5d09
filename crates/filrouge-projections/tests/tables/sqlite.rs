//! What only SQLite does.

use std::path::Path;

use filrouge_projections::tables::{Tables, TablesSettings};
use filrouge_projections::{Target, TargetError};
use filrouge_sqlite::PlainFile;
use filrouge_store::plain::{PlainDatabase, Statement};

use crate::sessions::{key, short_session};
use crate::world::{Place, World};

fn contains(folder: &Path, words: &str) -> bool {
    let files = std::fs::read_dir(folder).unwrap();
    let mut contents = files.map(|file| std::fs::read(file.unwrap().path()).unwrap());
    contents.any(|bytes| bytes.windows(words.len()).any(|w| w == words.as_bytes()))
}

#[tokio::test]
async fn erased_words_are_in_no_file() {
    let world = World::on_sqlite();
    let Place::Sqlite(folder) = &world.place else {
        unreachable!()
    };
    let (erased, kept) = (key("acme", "erased"), key("acme", "kept"));
    let long = "Geheimwort ".repeat(2000);
    world.tables.create(1).await.unwrap();
    world.write(&short_session(&kept, 5, "Bleibewort")).await;
    world.write(&short_session(&erased, 5, &long)).await;
    // A redaction writes the session again.
    world.write(&short_session(&erased, 6, "Zweitwort")).await;
    assert!(contains(folder.path(), "Geheimwort"));
    let cleaned = world.tables.clean(&erased, 7).await.unwrap();
    assert_eq!(cleaned.remains, None);
    assert!(!contains(folder.path(), "Geheimwort"));
    assert!(!contains(folder.path(), "Zweitwort"));
    assert!(contains(folder.path(), "Bleibewort"));
}

#[tokio::test]
async fn a_reader_delays_the_removal_of_erased_words() {
    let world = World::on_sqlite();
    let Place::Sqlite(folder) = &world.place else {
        unreachable!()
    };
    let erased = key("acme", "erased");
    world.tables.create(1).await.unwrap();
    world.write(&short_session(&erased, 5, "Geheimwort")).await;
    let path = folder.path().join("tables.db");
    let reader = rusqlite::Connection::open(&path).unwrap();
    let read = "BEGIN; SELECT count(*) FROM turns_g1";
    reader.execute_batch(read).unwrap();
    let cleaned = world.tables.clean(&erased, 6).await.unwrap();
    assert!(cleaned.remains.is_some());
    assert!(contains(folder.path(), "Geheimwort"));
    reader.execute_batch("COMMIT").unwrap();
    let kept = short_session(&key("acme", "kept"), 7, "Bleibewort");
    world.write(&kept).await;
    assert!(!contains(folder.path(), "Geheimwort"));
}

#[tokio::test]
async fn the_file_is_its_owners() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/tables.db");
    let file = PlainFile::new(&path);
    file.run(vec![Statement::new("CREATE TABLE t (x TEXT)")])
        .await
        .unwrap();
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// The projector calls an absent target again, so a path that cannot be opened must not stop a server's start.
#[tokio::test]
async fn a_file_that_cannot_be_created_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let blocked = folder.path().join("blocked");
    std::fs::write(&blocked, "no folder").unwrap();
    let path = blocked.join("tables.db");
    let tables = Tables::sqlite(&path, TablesSettings::default()).unwrap();
    let away = tables.published().await;
    assert!(matches!(away, Err(TargetError::Unavailable(_))), "{away:?}");
    std::fs::remove_file(&blocked).unwrap();
    assert_eq!(tables.published().await.unwrap(), None);
    assert!(path.exists());
}
