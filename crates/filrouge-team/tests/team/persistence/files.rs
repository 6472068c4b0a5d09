//! Snapshot files are replaced atomically and are private to their owner. Unreadable ones are reported and left alone.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use filrouge_team::record::Record;
use filrouge_team::snapshot::{Problem, Seal, SessionSnapshot, Snapshots};
use filrouge_types::Timestamp;

use crate::persistence::world::{World, exchange, message, paused};

fn snapshot(session: &str, count: u64) -> SessionSnapshot {
    let messages = (1..=count).map(|n| message(n, "Ann", "hello")).collect();
    let at = Timestamp::from_micros(1_700_000_000_000_000);
    SessionSnapshot::new("crew".into(), session.into(), at, messages, None)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_session_has_one_file_that_only_its_owner_can_read() {
    let folder = tempfile::tempdir().unwrap();
    let snapshots = Snapshots::new(folder.path().join("a/sessions"));
    let mut inodes = Vec::new();
    for count in 1..=3 {
        let path = snapshots.write(&snapshot("s", count)).unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(snapshots.read(&path).unwrap(), snapshot("s", count));
        inodes.push(fs::metadata(&path).unwrap().ino());
        // A file that another program made readable for others is private again after the next write.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    }
    assert_ne!(
        inodes[0], inodes[1],
        "the file is replaced, never overwritten"
    );
    let team = snapshots.team_folder("crew");
    assert_eq!(names(&team), ["1700000000000-s.json"]);
    for folder in [
        &team,
        snapshots.folder(),
        snapshots.folder().parent().unwrap(),
    ] {
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
    }
}

#[test]
fn the_temporary_file_of_a_killed_writer_is_ignored_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let snapshots = Snapshots::new(folder.path());
    let path = snapshots.write(&snapshot("s", 1)).unwrap();
    let temporary = snapshots
        .team_folder("crew")
        .join(".1700000000000-s.json.tmp");
    fs::write(&temporary, r#"{"schemaVersion":"1.0","te"#).unwrap();
    let (files, unreadable) = snapshots.list("crew").unwrap();
    assert_eq!((files.len(), unreadable.len()), (1, 0));
    snapshots.write(&snapshot("s", 2)).unwrap();
    assert!(!temporary.exists());
    assert_eq!(snapshots.read(&path).unwrap().messages.len(), 2);
}

#[test]
fn unreadable_files_are_reported_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let snapshots = Snapshots::new(folder.path());
    let good = snapshots.write(&snapshot("s", 2)).unwrap();
    let text = fs::read_to_string(&good).unwrap();
    let team = snapshots.team_folder("crew");
    let other_team = text.replace("\"teamId\":\"crew\"", "\"teamId\":\"crow\"");
    let unreadable_files = [
        (
            "1-cut.json",
            text[..text.len() / 2].to_owned(),
            "snapshot_cut",
        ),
        (
            "2-corrupt.json",
            text.replace("\"messages\"", "\"massages\""),
            "snapshot_corrupt",
        ),
        (
            "3-foreign.json",
            r#"{"name":"package"}"#.to_owned(),
            "snapshot_foreign",
        ),
        (
            "4-newer.json",
            text.replace("\"1.0\"", "\"2.0\""),
            "snapshot_newer",
        ),
        ("5-other.json", other_team, "snapshot_other_team"),
        ("6-empty.json", String::new(), "snapshot_cut"),
        (
            "7-sealed.json.age",
            "age-encryption.org/v1\n-> X25519 x\n".to_owned(),
            "snapshot_encrypted",
        ),
    ];
    for (name, text, _) in &unreadable_files {
        fs::write(team.join(name), text).unwrap();
    }
    fs::write(team.join("notes.txt"), "not a snapshot").unwrap();
    fs::create_dir(team.join("8-folder.json")).unwrap();
    let before = names(&team);
    let (files, unreadable) = snapshots.list("crew").unwrap();
    assert_eq!(files.len(), 1);
    assert_eq!((files[0].message_count, &files[0].path), (2, &good));
    let reported: Vec<_> = unreadable
        .iter()
        .map(|warning| (warning.path.clone(), warning.problem.code()))
        .collect();
    let mut expected: Vec<_> = unreadable_files
        .iter()
        .map(|(name, _, code)| (team.join(name), *code))
        .collect();
    expected.push((team.join("8-folder.json"), "snapshot_io"));
    assert_eq!(reported, expected);
    assert!(
        unreadable[3].to_string().contains("2.0"),
        "{}",
        unreadable[3]
    );
    assert_eq!(names(&team), before, "nothing was deleted");
    for (name, text, _) in &unreadable_files {
        assert_eq!(fs::read_to_string(team.join(name)).unwrap(), *text);
    }
    let none = snapshots.list("nobody").unwrap();
    assert!(none.0.is_empty() && none.1.is_empty());
}

/// If another program has saved a session under several names, the list shows the newest file, and marks the others as
/// outdated.
#[test]
fn all_but_the_newest_file_of_a_session_are_outdated() {
    let folder = tempfile::tempdir().unwrap();
    let snapshots = Snapshots::new(folder.path());
    let text = |count| {
        let path = snapshots.write(&snapshot("s", count)).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        fs::remove_file(path).unwrap();
        text
    };
    let (one, three, two) = (text(1), text(3), text(2));
    let team = snapshots.team_folder("crew");
    for (name, text) in [("1-s.json", one), ("2-s.json", three), ("3-s.json", two)] {
        fs::write(team.join(name), text).unwrap();
    }
    let (files, _) = snapshots.list("crew").unwrap();
    let listed: Vec<_> = files
        .iter()
        .map(|file| (file.message_count, file.is_outdated))
        .collect();
    assert_eq!(listed, [(3, false), (2, true), (1, true)]);
}

/// A folder that cannot be created is only a warning: the conversation continues.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_cannot_be_created_is_a_warning() {
    let world = World::new();
    // A file has the folder's name, so nobody can create the folder, not even root.
    fs::write(world.folder.path().join("sessions"), "a file").unwrap();
    let opened = world.open_new().await;
    let id = opened.record.session_id().to_owned();
    exchange(&opened.record, 1).await;
    let warnings = opened.record.take_warnings();
    assert_eq!(warnings.len(), 1);
    assert_eq!(warnings[0].path, world.snapshot_path(&opened));
    assert!(
        matches!(warnings[0].problem, Problem::Io(..)),
        "{warnings:?}"
    );
    for first in (3..60).step_by(2) {
        exchange(&opened.record, first).await;
    }
    assert_eq!(
        opened.record.take_warnings().len(),
        16,
        "only the newest warnings are retained"
    );
    fs::remove_file(world.folder.path().join("sessions")).unwrap();
    opened.record.close(&paused()).await.unwrap();
    assert!(opened.record.take_warnings().is_empty());
    let path = world.snapshot_path(&opened);
    assert_eq!(world.snapshots().read(&path).unwrap().messages.len(), 60);
    assert_eq!(world.open(&id).await.restored.context.messages.len(), 60);
}

/// In a read-only folder, root can write the file; all others get a warning.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_in_a_read_only_folder_is_a_warning() {
    let world = World::new();
    let team = world.snapshots().team_folder("crew");
    fs::create_dir_all(&team).unwrap();
    fs::set_permissions(&team, fs::Permissions::from_mode(0o500)).unwrap();
    let writable = fs::write(team.join("probe"), "").is_ok();
    let opened = world.open_new().await;
    exchange(&opened.record, 1).await;
    opened.record.close(&paused()).await.unwrap();
    let warnings = opened.record.take_warnings();
    assert_eq!(warnings.len(), if writable { 0 } else { 2 });
    let path = world.snapshot_path(&opened);
    for warning in warnings {
        assert_eq!(warning.path, path);
        let denied = matches!(
            warning.problem,
            Problem::Io(std::io::ErrorKind::PermissionDenied, _)
        );
        assert!(denied, "{warning}");
    }
    fs::set_permissions(&team, fs::Permissions::from_mode(0o700)).unwrap();
}

/// A substitute for encryption that reverses the bytes, after the first line of encrypted files.
struct ReversingSeal;

impl Seal for ReversingSeal {
    fn seal(&self, plain: &[u8]) -> Result<Vec<u8>, String> {
        let reversed = plain.iter().rev().copied();
        Ok(b"age-encryption.org/v1"
            .iter()
            .copied()
            .chain(reversed)
            .collect())
    }

    fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, String> {
        let reversed = sealed.strip_prefix(b"age-encryption.org/v1");
        let reversed = reversed.ok_or("another key")?;
        Ok(reversed.iter().rev().copied().collect())
    }
}

#[test]
fn an_encrypted_file_replaces_the_plain_one() {
    let folder = tempfile::tempdir().unwrap();
    let plain = Snapshots::new(folder.path());
    let encrypted = plain.clone().encrypted_by(Arc::new(ReversingSeal));
    let first = plain.write(&snapshot("s", 1)).unwrap();
    plain.write(&snapshot("other", 1)).unwrap();
    let second = encrypted.write(&snapshot("s", 2)).unwrap();
    assert!(!first.exists() && second.to_str().unwrap().ends_with("-s.json.age"));
    assert_eq!(mode(&second), 0o600);
    assert!(!fs::read_to_string(&second).unwrap().contains("hello"));
    assert_eq!(encrypted.read(&second).unwrap(), snapshot("s", 2));
    assert!(matches!(plain.read(&second), Err(Problem::Encrypted(_))));
    let (files, unreadable) = encrypted.list("crew").unwrap();
    assert_eq!((files.len(), unreadable.len()), (2, 0));
    let (files, unreadable) = plain.list("crew").unwrap();
    assert_eq!(
        (files.len(), unreadable[0].problem.code()),
        (1, "snapshot_encrypted")
    );
    plain.write(&snapshot("s", 3)).unwrap();
    assert!(!second.exists());
}
