//! What one process notes of a database for others: it saves reads, and nothing that has changed is overlooked for it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use filrouge_sources::{Header, Skipped, Source, opencode};

use crate::databases::{database_of, of, python};
use crate::live_tree::Later;
use crate::newer_kind;

const HOUR: i64 = 60 * 60 * 1000;

/// More sessions of the older kind.
const MORE: &str = r#"
c.execute('PRAGMA journal_mode = DELETE')
names = [row[1] for row in c.execute('PRAGMA table_info(session)') if row[1] != 'id']
for n in range(20):
    c.execute(f"INSERT INTO session (id, {', '.join(names)}) SELECT 'ses_more{n:022}', {', '.join(names)} FROM session ORDER BY id LIMIT 1")
"#;

/// A database of two kinds of sessions that is not written to.
fn made() -> tempfile::TempDir {
    let dir = database_of("opencode-sqlite");
    python(&dir.path().join("opencode.db"), MORE);
    dir
}

/// The database as a process sees it whose clock goes so much ahead.
fn ahead(dir: &Path, millis: i64) -> Vec<Arc<dyn Source>> {
    opencode::watch_at(dir, Arc::new(Later::by(millis)))
}

fn opened(dir: &Path) -> Vec<Arc<dyn Source>> {
    ahead(dir, HOUR)
}

type Told = Vec<Result<(Vec<Header>, Vec<Skipped>), String>>;

fn told(sources: &[Arc<dyn Source>]) -> Told {
    let one = |source: &Arc<dyn Source>| {
        let listing = source.list().map_err(|why| why.to_string())?;
        let headers = listing.headers.iter().map(|header| (**header).clone());
        Ok((headers.collect(), listing.skipped.clone()))
    };
    sources.iter().map(one).collect()
}

fn noted(sources: &[Arc<dyn Source>], kind: &str) -> Option<Vec<u8>> {
    told(sources);
    of(sources, kind).notes()
}

/// Keeps everybody else out, without writing.
struct Locked(Child);

impl Locked {
    fn on(file: &Path) -> Self {
        let script = "import sqlite3, sys, time\n\
                      c = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
                      c.execute('BEGIN EXCLUSIVE')\n\
                      print('locked', flush=True)\n\
                      time.sleep(60)\n";
        let mut child = Command::new("python3")
            .args(["-c", script])
            .arg(file)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        assert_eq!(line, "locked\n");
        Self(child)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_was_noted_is_not_read_again() {
    let dir = made();
    let first = opened(dir.path());
    let all = told(&first);
    let counts: Vec<_> = all
        .iter()
        .map(|one| one.as_ref().unwrap().0.len())
        .collect();
    assert_eq!(counts, [0, 2, 43, 0, 0]);
    let notes = of(&first, "sqlite").notes().unwrap();
    assert_eq!(of(&first, "sqlite").notes(), None);
    // Each kind has notes of its own, which are as good for the others.
    let others = of(&first, "session_message").notes().unwrap();
    for (kind, notes) in [("sqlite", &notes), ("session_message", &others)] {
        let later = opened(dir.path());
        of(&later, kind).recall(notes);
        let locked = Locked::on(&dir.path().join("opencode.db"));
        assert_eq!(told(&later), all);
        assert!(told(&opened(dir.path())).iter().any(Result::is_err));
        drop(locked);
        // Everything else is as if it had been read here.
        for source in &later {
            for header in &source.list().unwrap().headers {
                let own = of(&first, source.generation());
                let (one, other) = (
                    source.conversation(&header.id),
                    own.conversation(&header.id),
                );
                assert_eq!(one.unwrap().messages.len(), other.unwrap().messages.len());
                let marks = [source.as_ref(), own].map(|one| one.lasting(&header.id).unwrap());
                assert_eq!(marks[0], marks[1]);
            }
        }
    }
}

#[test]
fn all_that_a_header_tells_is_noted() {
    let dir = newer_kind::made(
        "for n in range(40):\n    session(f'ses_{n}', n, fork_session_id='ses_all', parent_id='ses_child', \
         title=f'été {n}', agent='plan', summary_additions=n, summary_files=2, time_archived=n + 7)\n\
         c.execute('PRAGMA journal_mode = DELETE')\n",
    );
    let sources = opened(dir.path());
    let all = told(&sources);
    let notes = of(&sources, "session_v2").notes().unwrap();
    let later = opened(dir.path());
    of(&later, "session_v2").recall(&notes);
    let _locked = Locked::on(&dir.path().join("opencode-next.db"));
    assert_eq!(told(&later), all);
    let one = of(&later, "session_v2").list().unwrap();
    let one = one.headers.iter().find(|header| &*header.id == "ses_9");
    let one = one.unwrap();
    assert_eq!(one.fork_of.as_deref(), Some("ses_all"));
    assert_eq!(one.project_name.as_deref(), Some("Atelier"));
    assert_eq!(
        (one.archived, one.changes.unwrap().additions),
        (Some(16), 9)
    );
}

#[test]
fn whatever_is_written_makes_notes_worthless_and_takes_them_away() {
    let dir = made();
    let notes = noted(&opened(dir.path()), "sqlite").unwrap();
    let file = dir.path().join("opencode.db");
    let holds = |notes: &[u8]| memchr::memmem::find(notes, b"ses_more").is_some();
    assert!(holds(&notes));
    for change in [
        "c.execute(\"UPDATE session SET title = 'another' WHERE id LIKE 'ses_more%3'\")",
        "c.execute(\"DELETE FROM session WHERE id LIKE 'ses_more%'\")",
        "c.execute('PRAGMA journal_mode = WAL'); c.execute(\"UPDATE project SET name = 'other'\")",
    ] {
        python(&file, change);
        let later = opened(dir.path());
        of(&later, "sqlite").recall(&notes);
        assert_eq!(told(&later), told(&opened(dir.path())), "{change}");
    }
    // While it may still be written to, nothing else is noted; what has gone leaves the notes all the same.
    python(&file, "c.execute('DELETE FROM todo')");
    let now = ahead(dir.path(), 0);
    of(&now, "sqlite").recall(&notes);
    let cleared = noted(&now, "sqlite").unwrap();
    assert!(!holds(&cleared));
    assert_eq!(of(&now, "sqlite").notes(), None);
    let later = opened(dir.path());
    of(&later, "sqlite").recall(&cleared);
    assert_eq!(told(&later), told(&opened(dir.path())));
}

#[test]
fn what_cannot_be_told_by_headers_alone_is_not_noted() {
    // Few sessions are sooner read.
    let few = database_of("opencode-sqlite-migrated");
    assert_eq!(noted(&opened(few.path()), "sqlite"), None);
    // What was left out is told by who reads.
    let odd = made();
    let file = odd.path().join("opencode.db");
    python(
        &file,
        "c.execute(\"UPDATE session SET revert = '{' WHERE id LIKE 'ses_more%7'\")",
    );
    let sources = opened(odd.path());
    assert!(
        told(&sources)
            .iter()
            .any(|one| !one.as_ref().unwrap().1.is_empty())
    );
    assert_eq!(of(&sources, "sqlite").notes(), None);
    // What is being written to has no mark that lasts.
    let now = made();
    assert_eq!(noted(&ahead(now.path(), -HOUR), "sqlite"), None);
}

#[test]
fn damaged_and_foreign_notes_are_worth_nothing() {
    let dir = made();
    let notes = noted(&opened(dir.path()), "sqlite").unwrap();
    let all = told(&opened(dir.path()));
    let with = |dir: &Path, notes: &[u8]| {
        let later = opened(dir);
        of(&later, "sqlite").recall(notes);
        told(&later)
    };
    for at in (0..notes.len()).step_by(97) {
        let mut damaged = notes.clone();
        damaged[at] ^= 0x20;
        assert_eq!(with(dir.path(), &damaged), all);
        assert_eq!(with(dir.path(), &notes[..at]), all);
    }
    // Of another database, in another place or in this one.
    let other = database_of("opencode-sqlite-first");
    assert_eq!(with(other.path(), &notes), told(&opened(other.path())));
    let file = dir.path().join("opencode.db");
    fs::copy(other.path().join("opencode.db"), dir.path().join("new")).unwrap();
    fs::rename(dir.path().join("new"), &file).unwrap();
    assert_eq!(with(dir.path(), &notes), told(&opened(dir.path())));
}
