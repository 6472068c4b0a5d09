//! The spool's folder after its process was killed at any moment.

use std::fs;
use std::path::PathBuf;

use super::super::folder::folders;
use super::world::{ConnectionState, SpoolWorld, expected_texts, sid};
use crate::spool::SpoolAdmin;

/// The queue file of the only folder.
fn queue_file(world: &SpoolWorld) -> PathBuf {
    let folders = folders(&world.folder.path().join("store")).unwrap();
    assert_eq!(folders.len(), 1, "{folders:?}");
    folders[0].join("queue")
}

#[tokio::test]
async fn queued_writes_outlive_the_process() {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let process = world.process();
    process.webhook(&s, 0).await.unwrap();
    process.connection.set(ConnectionState::Down);
    process.webhook(&s, 1).await.unwrap();
    process.kill().await;
    let next = world.process();
    next.wait_until_drained().await;
    assert_eq!(world.texts(&s).await, expected_texts(0..2));
    assert_eq!(fs::metadata(queue_file(&world)).unwrap().len(), 0);
    next.webhook(&s, 2).await.unwrap();
    assert_eq!(world.texts(&s).await, expected_texts(0..3));
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(queue_file(&world))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_folder_is_not_drained_by_others_while_its_process_runs() {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let first = world.process();
    first.webhook(&s, 0).await.unwrap();
    first.connection.set(ConnectionState::Down);
    first.webhook(&s, 1).await.unwrap();
    let second = world.process();
    assert_eq!(second.spool.view().entries, 0);
    second.kill().await;
    first.kill().await;
    let third = world.process();
    third.wait_until_drained().await;
    assert_eq!(world.texts(&s).await, expected_texts(0..2));
}

#[tokio::test]
async fn a_truncated_file_drains_up_to_its_last_complete_entry() {
    for cut in 0..24 {
        let (world, s) = (SpoolWorld::new(), sid("s"));
        let process = world.process();
        process.webhook(&s, 0).await.unwrap();
        process.connection.set(ConnectionState::Down);
        process.webhook(&s, 1).await.unwrap();
        process.kill().await;
        let path = queue_file(&world);
        let length = fs::metadata(&path).unwrap().len();
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(length * cut / 24).unwrap();
        let next = world.process();
        next.wait_until_drained().await;
        let expected = expected_texts(0..2);
        let texts = world.texts(&s).await;
        assert_eq!(texts, expected[..texts.len()], "cut {cut}");
        assert_eq!(next.spool.view().dead_letters, 0);
    }
}

#[tokio::test]
async fn a_changed_entry_becomes_a_dead_letter_and_the_others_are_drained() {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let process = world.process();
    process.webhook(&s, 0).await.unwrap();
    let fence = process.resume(&s, "h").await.unwrap().fence;
    process.connection.set(ConnectionState::Down);
    process.start(&s, "r1", fence).await.unwrap();
    process.append(&s, "r1", "first", fence).await.unwrap();
    process.append(&s, "r1", "other", fence).await.unwrap();
    process.kill().await;
    let path = queue_file(&world);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(5).position(|w| w == b"first").unwrap();
    bytes[at] = b'F';
    fs::write(&path, bytes).unwrap();
    let next = world.process();
    assert_eq!(next.spool.view().counts.unreadable, 1);
    next.wait_until_drained().await;
    let mut expected = expected_texts(0..1);
    expected.extend(["r1 ask", "other"].map(str::to_owned));
    assert_eq!(world.texts(&s).await, expected);
    assert_eq!(next.spool.view().dead_letters, 1);
    // The dead letter is kept exactly once.
    next.kill().await;
    assert_eq!(world.process().spool.view().dead_letters, 1);
}

#[tokio::test]
async fn an_unusable_folder_is_kept_and_reported() {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let broken = world.folder.path().join("store/broken");
    fs::create_dir_all(broken.join("lock")).unwrap();
    let process = world.process();
    assert_eq!(process.spool.view().counts.unreadable, 1);
    process.webhook(&s, 0).await.unwrap();
    process.connection.set(ConnectionState::Down);
    process.webhook(&s, 1).await.unwrap();
    process.connection.set(ConnectionState::Up);
    process.wait_until_drained().await;
    assert_eq!(world.texts(&s).await, expected_texts(0..2));
    assert!(broken.join("lock").exists());
}

#[tokio::test]
async fn dropping_dead_letters_keeps_an_unreadable_one() {
    let (world, s) = (SpoolWorld::new(), sid("s"));
    let (first, second) = (world.process(), world.process_with(world.options(), 2));
    first.webhook(&s, 0).await.unwrap();
    first.connection.set(ConnectionState::Down);
    first.webhook(&s, 1).await.unwrap();
    second.webhook(&s, 2).await.unwrap();
    second.kill().await;
    first.connection.set(ConnectionState::Up);
    first.wait_until_drained().await;
    first.kill().await;
    let paths = folders(&world.folder.path().join("store")).unwrap();
    let dead = paths.iter().map(|f| f.join("dead"));
    let dead = dead.max_by_key(|d| fs::metadata(d).unwrap().len()).unwrap();
    let mut bytes = fs::read(&dead).unwrap();
    let at = bytes.windows(6).position(|w| w == b"r1 saw").unwrap();
    bytes[at] = b'R';
    fs::write(&dead, bytes).unwrap();
    let entropy = std::sync::Arc::new(filrouge_store::OsEntropy);
    let admin = SpoolAdmin::new(world.folder.path(), world.keyring.clone(), "store", entropy);
    assert_eq!(admin.list(false).unwrap().len(), 4);
    assert_eq!(admin.drop(None).unwrap(), 3, "the readable letters");
    let remaining = admin.list(true).unwrap();
    assert_eq!(remaining.len(), 1, "{remaining:?}");
    assert_eq!(remaining[0].code.as_deref(), Some("integrity_error"));
    // Dropped letters do not become entries again.
    let restarted = world.process();
    assert_eq!(restarted.spool.view().entries, 0);
}
