//! Tests of which files are read, and of the reports about unreadable files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::*;
use crate::object::Object;
use crate::{PartKind, Role};

/// A format that counts its calls. Every line is a message.
struct CountingFormat {
    dir: PathBuf,
    walks: AtomicUsize,
    heads: AtomicUsize,
    /// Simulates data outside the session files.
    extra: AtomicU64,
}

#[derive(Default)]
struct TestReader(MessageBuilder);

impl Format for CountingFormat {
    const NAME: &'static str = "counting";
    const GENERATION: &'static str = "jsonl";
    const TOKEN_RULE: TokenRule = TokenRule::Ledger;
    type Head = ();
    type Context = ();
    type LineReader = TestReader;

    fn list_files(&self, skipped: &mut Vec<Skipped>) -> Vec<LogFile> {
        self.walks.fetch_add(1, Ordering::SeqCst);
        list_folder(&self.dir, |_| true, skipped).1
    }

    fn read_head(&self, _: &LogFile) -> Result<(), Skipped> {
        self.heads.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn build_sessions(
        &self,
        files: Vec<(LogFile, Arc<()>)>,
        _: &mut Vec<Skipped>,
    ) -> Vec<Session<()>> {
        let extra = self.extra.load(Ordering::SeqCst);
        let session = |(file, _): (LogFile, _)| session(file, extra);
        files.into_iter().map(session).collect()
    }

    fn reader(&self, _: &Session<()>) -> TestReader {
        TestReader::default()
    }
}

fn session(file: LogFile, context_fingerprint: u64) -> Session<()> {
    let header = Header {
        id: stem(&file.path).unwrap().into(),
        source: CountingFormat::NAME,
        generation: CountingFormat::GENERATION,
        parent_id: None,
        fork_of: None,
        project_id: None,
        project_name: None,
        worktree: None,
        directory: None,
        title: None,
        title_is_derived: false,
        agent: None,
        agents: Vec::new(),
        version: None,
        created: 1,
        updated: 1,
        archived: None,
        changes: None,
        damaged: false,
        fingerprint: None,
    };
    Session {
        header: Arc::new(header),
        file,
        context: (),
        context_fingerprint,
    }
}

impl LineReader for TestReader {
    fn builder(&mut self) -> &mut MessageBuilder {
        &mut self.0
    }

    fn read_line(&mut self, number: u64, line: &str) -> Result<(), Refusal> {
        Object::parse(line)?;
        let record = RecordInfo {
            id: number.to_string().into(),
            at: 1,
            copied: false,
        };
        let message = self.0.add_message(&record, Role::User, None);
        let kind = PartKind::Text {
            text: line.into(),
            synthetic: false,
        };
        self.0.add_part(message, &record, 0, kind);
        Ok(())
    }

    fn finish(&mut self) -> Option<Self> {
        None
    }
}

fn logs(dir: &Path, files: usize) -> Logs<CountingFormat> {
    for index in 0..files {
        fs::write(dir.join(format!("s{index}.jsonl")), "{\"a\":1}\n").unwrap();
    }
    let format = CountingFormat {
        dir: dir.to_owned(),
        walks: AtomicUsize::new(0),
        heads: AtomicUsize::new(0),
        extra: AtomicU64::new(0),
    };
    Logs::new(format, dir)
}

impl Logs<CountingFormat> {
    fn walks(&self) -> usize {
        self.format.walks.load(Ordering::SeqCst)
    }

    fn heads(&self) -> usize {
        self.format.heads.load(Ordering::SeqCst)
    }
}

fn fingerprint(logs: &Logs<CountingFormat>, id: &str) -> Option<Fingerprint> {
    let listing = logs.list().unwrap();
    let header = listing.headers.iter().find(|header| *header.id == *id);
    header.unwrap().fingerprint
}

fn reasons(logs: &Logs<CountingFormat>, id: &str) -> Vec<SkipReason> {
    let read = logs.read(id).unwrap();
    read.skipped.iter().map(|skipped| skipped.reason).collect()
}

#[test]
fn cached_sessions_are_not_listed_again() {
    let dir = tempfile::tempdir().unwrap();
    let logs = logs(dir.path(), 50);
    for index in 0..50 {
        let id = format!("s{index}");
        logs.read(&id).unwrap();
        logs.load(&id).unwrap();
    }
    assert_eq!(logs.walks(), 1);
    assert_eq!(logs.heads(), 50);
}

#[test]
fn an_unchanged_folder_has_the_same_list() {
    let dir = tempfile::tempdir().unwrap();
    let logs = logs(dir.path(), 3);
    let first = logs.list().unwrap();
    assert_eq!(first.headers, logs.list().unwrap().headers);
    let before = fingerprint(&logs, "s1");

    fs::write(dir.path().join("s1.jsonl"), "{\"a\":1}\n{\"a\":2}\n").unwrap();
    let second = logs.list().unwrap();
    assert_ne!(first.headers, second.headers);
    assert_eq!(logs.heads(), 4);
    assert_ne!(fingerprint(&logs, "s1"), before);
    assert_eq!(logs.read("s1").unwrap().messages.len(), 2);

    let before = fingerprint(&logs, "s1");
    logs.format.extra.store(1, Ordering::SeqCst);
    let third = logs.list().unwrap();
    assert_ne!(second.headers, third.headers);
    assert_eq!(third.headers, logs.list().unwrap().headers);
    assert_ne!(fingerprint(&logs, "s1"), before);
    assert_eq!(logs.heads(), 4);
}

#[test]
fn new_and_removed_files_are_seen_at_once() {
    let dir = tempfile::tempdir().unwrap();
    for files in [3, 300] {
        let logs = logs(dir.path(), files);
        let path = dir.path().join("new.jsonl");
        assert!(matches!(logs.read("new"), Err(ReadError::Gone)));
        fs::write(&path, "{\"a\":1}\n").unwrap();
        assert_eq!(logs.read("new").unwrap().messages.len(), 1);
        fs::write(&path, "{\"a\":1}\n{\"a\":2}\n").unwrap();
        assert_eq!(logs.read("new").unwrap().messages.len(), 2);
        fs::remove_file(&path).unwrap();
        assert!(matches!(logs.read("new"), Err(ReadError::Gone)));
    }
}

#[test]
fn lines_that_cannot_be_read_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let logs = logs(dir.path(), 1);
    let write = |name: &str, text: &[u8]| fs::write(dir.path().join(name), text).unwrap();
    write("torn.jsonl", b"{\"a\":1}\n{\"lamp\":");
    write("bytes.jsonl", b"{\"lens\":\"\xff\"}\n");
    write("nul.jsonl", b"{\"lamp\":1}\n{\"lamp\":\0}\n");
    let long = fs::File::create(dir.path().join("long.jsonl")).unwrap();
    long.set_len(LINE_BYTES_MAX as u64 + 1).unwrap();
    for (id, reason) in [
        ("torn", SkipReason::Torn),
        ("bytes", SkipReason::NotUtf8),
        ("nul", SkipReason::Torn),
        ("long", SkipReason::TooLarge),
    ] {
        assert_eq!(reasons(&logs, id), [reason], "{id}");
    }
    assert!(reasons(&logs, "s0").is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_read_fails_its_session() {
    let dir = tempfile::tempdir().unwrap();
    let logs = logs(dir.path(), 1);
    // Unlike a file without permissions, no user can read the beginning of this one, not even root.
    let path = PathBuf::from("/proc/self/mem");
    let state = State::read(&path).unwrap();
    let path_of_id = dir.path().join("mem.jsonl");
    let mut session = session(
        LogFile {
            path: path_of_id,
            state,
        },
        0,
    );
    session.file = LogFile { path, state };
    assert!(matches!(
        logs.read_conversation(&session),
        Err(ReadError::Skipped(_))
    ));
}
