//! Which files are looked at when, and what a scan tells of those it cannot read.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::view::GOOD_FOR;
use super::*;
use crate::{PartKind, Role};

/// A format that counts what it is asked for. Every line is a message.
struct Made {
    dir: PathBuf,
    walks: AtomicUsize,
    heads: AtomicUsize,
    /// What is beside the files.
    beside: AtomicU64,
}

struct Said;

impl Format for Made {
    const NAME: &'static str = "made";
    const GENERATION: &'static str = "jsonl";
    const RULE: TokenRule = TokenRule::Ledger;
    type Head = ();
    type Beside = u64;
    type Context = ();
    type Reader = Said;

    fn walk(&self, skipped: &mut Vec<Skipped>) -> Result<Vec<LogFile>, SourceError> {
        self.walks.fetch_add(1, Ordering::SeqCst);
        Ok(children(&self.dir, |_| true, skipped).1)
    }

    fn beside(&self, _: &mut Vec<Skipped>) -> u64 {
        self.beside.load(Ordering::SeqCst)
    }

    fn head(&self, _: &LogFile) -> Result<(), Skipped> {
        self.heads.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn settle(
        &self,
        files: Vec<(LogFile, Arc<()>)>,
        beside: &u64,
        _: &mut Vec<Skipped>,
    ) -> Vec<Session<()>> {
        let session = |(file, _): (LogFile, _)| session(file, *beside);
        files.into_iter().map(session).collect()
    }

    fn matters(_: &[u8]) -> bool {
        true
    }

    fn reader(&self, _: &Session<()>) -> Said {
        Said
    }
}

fn session(file: LogFile, mark: u64) -> Session<()> {
    let header = Header {
        id: stem(&file.path).unwrap().into(),
        source: Made::NAME,
        generation: Made::GENERATION,
        parent_id: None,
        fork_of: None,
        project_id: None,
        project_name: None,
        worktree: None,
        directory: None,
        title: None,
        agent: None,
        version: None,
        created: 1,
        updated: 1,
        archived: None,
        changes: None,
    };
    Session {
        header: Arc::new(header),
        file,
        context: (),
        mark,
    }
}

impl Reader for Said {
    fn line(&mut self, talk: &mut Talk, number: u64, line: &str) -> Result<(), Refusal> {
        let _: &serde_json::value::RawValue = record(line)?;
        let message = talk.add(number.to_string(), Role::User, 1);
        let kind = PartKind::Text {
            text: line.into(),
            synthetic: false,
        };
        talk.part(message, number.to_string(), 1, kind);
        Ok(())
    }

    fn end(self, _: &mut Talk) -> Option<Self> {
        None
    }
}

fn logs(dir: &Path, files: usize) -> Logs<Made> {
    for index in 0..files {
        fs::write(dir.join(format!("s{index}.jsonl")), "{\"a\":1}\n").unwrap();
    }
    let made = Made {
        dir: dir.to_owned(),
        walks: AtomicUsize::new(0),
        heads: AtomicUsize::new(0),
        beside: AtomicU64::new(0),
    };
    Logs::open(made, dir).unwrap()
}

impl Logs<Made> {
    fn walks(&self) -> usize {
        self.format.walks.load(Ordering::SeqCst)
    }

    fn heads(&self) -> usize {
        self.format.heads.load(Ordering::SeqCst)
    }
}

/// The sessions a scan for `word` found, and those it told it could not read.
fn scan(logs: &Logs<Made>, word: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (found, unread) = (Mutex::default(), Mutex::default());
    let put = |set: &Mutex<BTreeSet<String>>, id: &str| {
        set.lock().unwrap().insert(id.into());
    };
    let word = memchr::memmem::Finder::new(word);
    let scan = Scan {
        may_hold: &|line| word.find(line).is_some(),
        wanted: &|_| true,
        ids: None,
        roles: false,
        stopped: &|| false,
        found: &|one| put(&found, one.session),
        unread: &|id| put(&unread, id),
    };
    logs.scan(&scan).unwrap();
    (found.into_inner().unwrap(), unread.into_inner().unwrap())
}

fn set<const N: usize>(ids: [&str; N]) -> BTreeSet<String> {
    ids.map(str::to_owned).into()
}

#[test]
fn what_is_known_is_not_looked_for_again() {
    let dir = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let logs = logs(dir.path(), 50);
    for index in 0..50 {
        let id = format!("s{index}");
        logs.stamp(&id).unwrap();
        logs.conversation(&id).unwrap();
        logs.load(&id).unwrap();
    }
    // One look, and one more whenever it is too old; on a slow machine that is more than one.
    let allowed = 1 + began.elapsed().as_millis() / GOOD_FOR.as_millis();
    assert!(logs.walks() as u128 <= allowed, "{}", logs.walks());
    assert_eq!(logs.heads(), 50);
}

#[test]
fn a_folder_that_has_not_changed_gives_the_same_list() {
    let dir = tempfile::tempdir().unwrap();
    let logs = logs(dir.path(), 3);
    let first = logs.list().unwrap();
    assert!(Arc::ptr_eq(&first, &logs.list().unwrap()));
    let stamp = logs.stamp("s1").unwrap();

    fs::write(dir.path().join("s1.jsonl"), "{\"a\":1}\n{\"a\":2}\n").unwrap();
    let second = logs.list().unwrap();
    assert!(!Arc::ptr_eq(&first, &second));
    assert_eq!(logs.heads(), 4);
    assert_ne!(logs.stamp("s1").unwrap(), stamp);
    assert_eq!(logs.conversation("s1").unwrap().messages.len(), 2);

    let stamp = logs.stamp("s1").unwrap();
    logs.format.beside.store(1, Ordering::SeqCst);
    let third = logs.list().unwrap();
    assert!(!Arc::ptr_eq(&second, &third));
    assert!(Arc::ptr_eq(&third, &logs.list().unwrap()));
    assert_ne!(logs.stamp("s1").unwrap(), stamp);
    assert_eq!(logs.heads(), 4);
}

#[test]
fn what_comes_and_goes_is_seen_at_once() {
    let dir = tempfile::tempdir().unwrap();
    // More files than are looked at whenever somebody asks.
    for files in [3, 300] {
        let logs = logs(dir.path(), files);
        let path = dir.path().join("new.jsonl");
        assert!(matches!(logs.stamp("new"), Err(ReadError::Gone)));
        fs::write(&path, "{\"a\":1}\n").unwrap();
        assert_eq!(logs.conversation("new").unwrap().messages.len(), 1);
        fs::write(&path, "{\"a\":1}\n{\"a\":2}\n").unwrap();
        assert_eq!(logs.conversation("new").unwrap().messages.len(), 2);
        fs::remove_file(&path).unwrap();
        assert!(matches!(logs.conversation("new"), Err(ReadError::Gone)));
    }
}

#[test]
fn a_scan_names_what_it_cannot_read() {
    let dir = tempfile::tempdir().unwrap();
    let logs = logs(dir.path(), 3);
    let write = |name: &str, text: &[u8]| fs::write(dir.path().join(name), text).unwrap();
    // A line that cannot be taken is of interest only when it may hold what is looked for.
    write("torn.jsonl", b"{\"a\":1}\n{\"lamp\":");
    write("bytes.jsonl", b"{\"lens\":\"\xff\"}\n");
    write("both.jsonl", b"{\"lamp\":1}\n{\"lamp\":\0}\n");
    assert_eq!(scan(&logs, "lamp"), (set(["both"]), set(["both", "torn"])));
    assert_eq!(scan(&logs, "lens"), (set([]), set(["bytes"])));
    let all = set(["both", "s0", "s1", "s2", "torn"]);
    assert_eq!(scan(&logs, "\"").0, all);
    assert_eq!(scan(&logs, "nothing-of-this"), (set([]), set([])));
}

#[test]
fn a_scan_names_lines_that_are_too_long() {
    let dir = tempfile::tempdir().unwrap();
    let logs = logs(dir.path(), 1);
    let long = fs::File::create(dir.path().join("long.jsonl")).unwrap();
    long.set_len(LINE_BYTES_MAX as u64 + 1).unwrap();
    assert_eq!(scan(&logs, "\"a\""), (set(["s0"]), set(["long"])));
}

#[cfg(target_os = "linux")]
#[test]
fn a_scan_names_files_that_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let logs = logs(dir.path(), 1);
    // Unlike a file without permissions, nobody can read the beginning of this one, not even root.
    let path = PathBuf::from("/proc/self/mem");
    let state = State::of(&path).unwrap();
    let unread = Mutex::new(Vec::new());
    let scan = Scan {
        may_hold: &|_| true,
        wanted: &|_| true,
        ids: None,
        roles: false,
        stopped: &|| false,
        found: &|_| panic!("it holds nothing"),
        unread: &|id| unread.lock().unwrap().push(id.to_owned()),
    };
    let file = LogFile { path, state };
    let mut session = session(
        LogFile {
            path: dir.path().join("mem.jsonl"),
            state,
        },
        0,
    );
    session.file = file;
    logs.scan_one(&session, &scan);
    assert_eq!(*unread.lock().unwrap(), ["mem"]);
}
