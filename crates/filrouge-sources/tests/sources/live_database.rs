//! Tests of databases that are written while they are read.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use filrouge_sources::{Library, PartKind, Source, opencode};

use crate::databases::{database_of, of_generation, python};
use crate::fingerprint;

/// A script that adds a part to a session every 20 ms, as OpenCode does while a model answers. With a second argument,
/// it adds a part whenever it reads a line. It prints each part's session and number.
const WRITER: &str = r#"
import sqlite3, sys, time
c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=5)
c.execute('PRAGMA journal_mode = WAL')
s, m = c.execute("SELECT session_id, id FROM message ORDER BY time_created DESC LIMIT 1").fetchone()
on_request = len(sys.argv) > 2
for n in range(100000):
    if on_request: sys.stdin.readline()
    now = int(time.time() * 1000)
    c.execute('BEGIN IMMEDIATE')
    c.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?)", ('prt_zz%06d' % n, m, s, now, now, '{"type":"text","text":"live %d"}' % n))
    c.execute("UPDATE session SET time_updated = ? WHERE id = ?", (now, s))
    c.execute('COMMIT')
    print(s, n, flush=True)
    if not on_request: time.sleep(0.02)
"#;

/// A running process of [`WRITER`].
struct Writer {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Writer {
    /// A writer that commits every 20 ms.
    fn continuous(path: &Path) -> Self {
        Self::start(Command::new("python3").args(["-c", WRITER]).arg(path))
    }

    /// A writer that commits only when [`Writer::next`] requests it.
    fn on_request(path: &Path) -> Self {
        let mut command = Command::new("python3");
        let command = command.args(["-c", WRITER]).arg(path).arg("on_request");
        Self::start(command.stdin(Stdio::piped()))
    }

    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Waits for the next commit, and returns its session and number.
    fn next(&mut self) -> (String, String) {
        if let Some(requests) = &mut self.child.stdin {
            requests.write_all(b"\n").unwrap();
        }
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        let (session, number) = line.trim().split_once(' ').unwrap();
        (session.to_owned(), number.to_owned())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn contains_text(source: &dyn Source, session: &str, text: &str) -> bool {
    let read = source.read(session).unwrap();
    let mut parts = read.messages.iter().flat_map(|m| &m.parts);
    parts.any(|p| matches!(&p.kind, PartKind::Text { text: part_text, .. } if **part_text == *text))
}

#[test]
fn commits_are_seen_at_once() {
    let dir = database_of("opencode-sqlite");
    let path = dir.path().join("opencode.db");
    let sources = opencode::open(&path).unwrap();
    let source = of_generation(&sources, "sqlite");
    source.list().unwrap();
    let mut writer = Writer::on_request(&path);
    let mut last = None;
    for _ in 0..20 {
        let (session, number) = writer.next();
        let current = fingerprint(source, &session);
        assert_ne!(
            current, last,
            "every commit of the session changes its fingerprint"
        );
        last = current;
        assert!(contains_text(source, &session, &format!("live {number}")));
        let headers = source.list().unwrap().headers.clone();
        let newest = headers.iter().max_by_key(|h| h.updated).unwrap();
        assert_eq!(*newest.id, *session);
    }
    // Another session of the database does not change.
    let other = "ses_44e90d925ffeBM67k4fmNh04dz";
    let before = fingerprint(source, other);
    writer.next();
    writer.next();
    assert_eq!(fingerprint(source, other), before);
    assert!(before.is_some());
}

#[test]
fn the_library_sees_commits_through_its_cache() {
    let dir = database_of("opencode-sqlite-wal");
    let path = dir.path().join("opencode.db");
    let library = Library::new(opencode::open(&path).unwrap(), 1 << 24);
    let count = || {
        let catalog = library.catalog();
        let read = library.conversation(&catalog.entries[0]).unwrap();
        read.messages.iter().map(|m| m.parts.len()).sum::<usize>()
    };
    assert_eq!(count(), 4);
    let mut writer = Writer::continuous(&path);
    writer.next();
    let start = Instant::now();
    while count() < 6 {
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}

#[test]
fn a_database_is_read_after_its_last_writer_closed_it() {
    let dir = database_of("opencode-sqlite-wal");
    let path = dir.path().join("opencode.db");
    let sources = opencode::open(&path).unwrap();
    let source = of_generation(&sources, "sqlite");
    let session = source.list().unwrap().headers[0].id.clone();
    // When the script ends, no other process has the database open, and the log is checkpointed as far as our readers
    // allow.
    python(
        &path,
        "c.execute(\"UPDATE part SET data = '{\\\"type\\\":\\\"text\\\",\\\"text\\\":\\\"changed\\\"}'\"); c.execute('PRAGMA wal_checkpoint(TRUNCATE)'); c.close()",
    );
    assert!(contains_text(source, &session, "changed"));
    drop(sources);
    let sources = opencode::open(&path).unwrap();
    assert!(contains_text(
        of_generation(&sources, "sqlite"),
        &session,
        "changed"
    ));
}
