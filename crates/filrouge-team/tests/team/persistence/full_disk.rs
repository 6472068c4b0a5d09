//! Full disks. A preloaded library (`crates/filrouge/tests/crash/disk.c`) makes writes below a folder fail.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use filrouge_engine::Settings;
use filrouge_team::ledger::{OpenOptions, open_existing, open_new};
use filrouge_team::record::Record;
use filrouge_team::snapshot::{Problem, Snapshots};
use filrouge_types::SystemClock;
use tempfile::TempDir;

use crate::persistence::crash::{line_after_prefix, run_child};
use crate::persistence::world::{
    caller, context, engine_at, exchange, message, paused, record_message, team,
};

/// The variable that names the folder of a child process.
const FOLDER: &str = "FILROUGE_TEAM_TEST_FULL";

/// Compiles the library.
fn compile_library(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../filrouge/tests/crash/disk.c");
    let library = folder.join("disk.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-pthread", "-x", "c", "-o"]);
    let output = compiler.arg(&library).arg(source).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    library
}

/// Runs in a child process: records messages while the disk of the snapshot files is full, and once it has space again.
#[test]
#[ignore = "run by the test that fills its disk"]
fn child_records_while_the_disk_is_full() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let folder = PathBuf::from(folder);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = folder.join("filrouge.db");
        let (engine, _) = engine_at(&store, Arc::new(SystemClock), Settings::default());
        let options = OpenOptions {
            snapshots: Some(Snapshots::new(folder.join("watched"))),
            ..OpenOptions::new("a child")
        };
        let opened = open_new(engine, caller(), &team(), options).await.unwrap();
        exchange(&opened.record, 1).await;
        exchange(&opened.record, 3).await;
        let id = opened.record.session_id().to_owned();
        let snapshots = Snapshots::new(folder.join("watched"));
        let path = snapshots.file_path("crew", opened.created_at, &id);
        let warnings = opened.record.take_warnings();
        let failures = warnings.len();
        assert!(warnings.iter().all(|warning| {
            matches!(
                warning.problem,
                Problem::Io(std::io::ErrorKind::StorageFull, _)
            ) && warning.path == path
        }));
        std::fs::write(folder.join("free"), "").unwrap();
        exchange(&opened.record, 5).await;
        let written = snapshots.read(&path).unwrap().messages.len();
        opened.record.close(&paused()).await.unwrap();
        println!("\nSESSION {id} {failures} {written}");
    });
}

#[test]
fn a_full_disk_affects_only_the_snapshot_file() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let watched = root.join("watched");
    std::fs::create_dir(&watched).unwrap();
    let library = compile_library(&root);
    let mut child = run_child(
        "persistence::full_disk::child_records_while_the_disk_is_full",
        &[
            (FOLDER, &root),
            ("LD_PRELOAD", &library),
            ("DISK_ROOT", &watched),
            ("DISK_ENOSPC_AT", Path::new("0")),
            ("DISK_ENOSPC_OFF", &root.join("free")),
        ],
    );
    let reported = line_after_prefix(&mut child, "SESSION ");
    assert!(child.wait().unwrap().success());
    let reported: Vec<&str> = reported.split(' ').collect();
    assert_eq!(
        reported[1..],
        ["2", "6"],
        "two writes failed, and the next wrote all messages"
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = root.join("filrouge.db");
        let (engine, _) = engine_at(&store, Arc::new(SystemClock), Settings::default());
        let options = OpenOptions::new("after");
        let opened = open_existing(engine, caller(), &team(), reported[0], options).await;
        assert_eq!(opened.unwrap().restored.context.messages.len(), 6);
    });
}

/// Runs in a child process: records messages until the disk of the ledger is full, and continues once it has space.
#[test]
#[ignore = "run by the test that fills its disk"]
fn child_records_until_the_disk_is_full_and_continues() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let folder = PathBuf::from(folder);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = folder.join("watched/filrouge.db");
        let (engine, _) = engine_at(&store, Arc::new(SystemClock), Settings::default());
        let opened = open_new(engine, caller(), &team(), OpenOptions::new("a child")).await;
        let opened = opened.unwrap();
        let record = &opened.record;
        exchange(record, 1).await;
        std::fs::write(folder.join("arm"), "").unwrap();
        let question = message(3, "Ann", "what now?");
        let refused = record.write_message(&question).await.unwrap_err();
        println!("\nREFUSED {}", refused.code);
        std::fs::write(folder.join("free"), "").unwrap();
        // The ledger may go on refusing for a moment; repeating a message does not duplicate it.
        while record.write_message(&question).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        record_message(record, &message(4, "Planner", "we go on")).await;
        record.close(&paused()).await.unwrap();
        println!("\nSESSION {}", record.session_id());
    });
}

#[test]
fn a_ledger_on_a_full_disk_refuses_messages_and_loses_none() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let watched = root.join("watched");
    std::fs::create_dir(&watched).unwrap();
    let library = compile_library(&root);
    let mut child = run_child(
        "persistence::full_disk::child_records_until_the_disk_is_full_and_continues",
        &[
            (FOLDER, &root),
            ("LD_PRELOAD", &library),
            ("DISK_ROOT", &watched),
            ("DISK_ARM", &root.join("arm")),
            ("DISK_ENOSPC_AT", Path::new("0")),
            ("DISK_ENOSPC_OFF", &root.join("free")),
        ],
    );
    let id = line_after_prefix(&mut child, "SESSION ");
    assert!(child.wait().unwrap().success());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = watched.join("filrouge.db");
        let (engine, _) = engine_at(&store, Arc::new(SystemClock), Settings::default());
        let opened = open_existing(engine, caller(), &team(), &id, OpenOptions::new("after")).await;
        let messages = [
            message(1, "Ann", "question 1"),
            message(2, "Planner", "answer 1"),
            message(3, "Ann", "what now?"),
            message(4, "Planner", "we go on"),
        ];
        assert_eq!(opened.unwrap().restored.context, context(&messages));
    });
}
