//! Indexes of genuine histories: they hold what is there, follow what becomes of it, and are good after a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use filrouge_search::Spoken;
use filrouge_search::feed::{Known, SourceIndex, file_name, reach};
use filrouge_sources::{Source, claude_code, codex, opencode};
use filrouge_store::contract::text_index::Asking as _;
use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_store::text_index::{CandidateQuery, TextIndex};

use super::*;

const HISTORIES: [&str; 8] = [
    "opencode-json-whole",
    "opencode-json-legacy-whole",
    "opencode-sqlite",
    "opencode-sqlite-first",
    "opencode-sqlite-migrated",
    "opencode-sqlite-wal",
    "claude-code",
    "codex",
];

fn open(name: &str, path: &Path) -> Vec<Arc<dyn Source>> {
    let sources = match name {
        "claude-code" => claude_code::open(path),
        "codex" => codex::open(path),
        _ => opencode::open(path),
    };
    sources.unwrap()
}

/// A history, the index of the largest source in it, and what the index is to hold.
struct Place {
    name: &'static str,
    dir: tempfile::TempDir,
    index: Arc<dyn TextIndex>,
}

type Bodies = BTreeMap<(String, String), Vec<u8>>;

impl Place {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            dir: copy_of(name),
            index: Arc::new(MemoryIndex::default()),
        }
    }

    /// As a process that has just started sees it.
    fn opened(&self) -> SourceIndex {
        let sources = open(self.name, self.dir.path()).into_iter();
        let count = |source: &Arc<dyn Source>| source.list().unwrap().headers.len();
        let source = sources.max_by_key(count).unwrap();
        SourceIndex::new(source, self.index.clone(), None)
    }

    /// Brings in what has changed, and says which sessions were read. What the index then knows to be fresh is there, in it
    /// and in the source, and it is fresh for others too.
    fn follow(&self, opened: &SourceIndex) -> (usize, Arc<Known>) {
        // What was written within the last tick of the file system's clock is read once more.
        std::thread::sleep(Duration::from_millis(50));
        let read = opened.update(&mut |_| {}, &|| false).unwrap().sessions;
        let known = opened.known(Duration::ZERO);
        assert_eq!(known.pending, 0, "{}", self.name);
        let (fresh, whole) = said(&**opened.source());
        assert_eq!(known.fresh.keys().cloned().collect::<BTreeSet<_>>(), whole);
        assert!(held(&*self.index, &known) == fresh, "{}", self.name);
        let again = self.opened();
        let there = again.known(Duration::ZERO);
        assert_eq!(
            (&there.fresh, there.pending),
            (&known.fresh, 0),
            "{}",
            self.name
        );
        (read, known)
    }
}

/// What a source holds in sessions that can be read completely, and which those are.
fn said(source: &dyn Source) -> (Bodies, BTreeSet<Box<str>>) {
    let (mut all, mut whole) = (Bodies::new(), BTreeSet::new());
    for header in &source.list().unwrap().headers {
        let Ok(conversation) = source.read(&header.id) else {
            continue;
        };
        if !conversation.skipped.is_empty() {
            continue;
        }
        whole.insert(header.id.clone());
        let messages = conversation.messages.iter().map(Spoken::of);
        for spoken in Spoken::of_title(header).into_iter().chain(messages) {
            let key = (header.id.to_string(), spoken.id.to_string());
            all.insert(key, spoken.encode());
        }
    }
    (all, whole)
}

fn held(index: &dyn TextIndex, known: &Known) -> Bodies {
    let (reach, mut all) = (reach(), Bodies::new());
    for (id, no) in &known.fresh {
        let query = CandidateQuery {
            reach: &reach,
            sessions: Some(&[*no]),
            kinds: u32::MAX,
            since: None,
            until: None,
            wanted: filrouge_store::text_index::Wanted::All(&[]),
        };
        let found = index.candidates(&query).unwrap();
        let numbers: Vec<_> = found.iter().map(|one| one.document).collect();
        let each = &mut |_, body: &[u8]| {
            let key = Spoken::decode(body).unwrap().id.into_owned();
            all.insert((id.to_string(), key), body.to_vec());
            true
        };
        index.bodies(&numbers, each).unwrap();
    }
    all
}

/// All files below a folder.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for child in fs::read_dir(dir).unwrap() {
        let path = child.unwrap().path();
        match path.is_dir() {
            true => all.append(&mut files(&path)),
            false => all.push(path),
        }
    }
    all.sort();
    all
}

/// Everything below a folder was left alone for long.
fn age(dir: &Path) {
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_760_000_000);
    for child in fs::read_dir(dir).unwrap() {
        let path = child.unwrap().path();
        File::open(&path).unwrap().set_modified(then).unwrap();
        if path.is_dir() {
            age(&path);
        }
    }
}

#[test]
fn an_index_holds_a_history_and_is_good_after_a_restart() {
    for name in HISTORIES {
        let place = Place::new(name);
        let opened = place.opened();
        let (read, known) = place.follow(&opened);
        assert!(
            read >= known.fresh.len() && !known.fresh.is_empty(),
            "{name}"
        );
        assert_eq!(place.follow(&opened).0, 0, "{name}: nothing has changed");
        assert_eq!(place.follow(&place.opened()).0, 0, "{name}: a restart");
        let source = opened.source();
        let file = file_name(&**source).unwrap();
        assert!(file.starts_with(source.name()) && file.ends_with(".index"));
    }
}

#[test]
fn a_tree_is_followed_file_by_file() {
    for (name, quiet) in [
        ("opencode-json-whole", false),
        ("opencode-json-whole", true),
        ("opencode-json-legacy-whole", true),
    ] {
        let place = Place::new(name);
        let root = place.dir.path();
        if quiet {
            age(root);
        }
        let opened = place.opened();
        place.follow(&opened);
        let all = files(root);
        let of = |part: &str| {
            let has = |path: &&PathBuf| {
                let names = path.iter().any(|step| step == part);
                names && path.extension().is_some_and(|e| e == "json")
            };
            all.iter().filter(has).cloned().collect::<Vec<_>>()
        };
        let parts = of("part");
        let texts: Vec<_> = parts
            .iter()
            .filter(|path| {
                fs::read_to_string(path)
                    .unwrap()
                    .contains("\"type\": \"text\"")
            })
            .collect();
        let session = |path: &Path| fs::read_to_string(path).unwrap();
        // A part is written in place: what was said last is still being said.
        let part = texts.first().unwrap();
        let text = session(part).replacen("\"text\": \"", "\"text\": \"quarzwort ", 1);
        assert!(text.contains("quarzwort"));
        fs::write(part, &text).unwrap();
        assert_eq!(place.follow(&opened).0, 1, "{name}: a part was changed");
        fs::remove_file(part).unwrap();
        assert_eq!(place.follow(&opened).0, 1, "{name}: a part was removed");
        let other = texts.last().unwrap();
        fs::write(other, "{\"torn").unwrap();
        let (read, known) = place.follow(&opened);
        assert!(
            read == 1 && !known.stale.is_empty(),
            "{name}: a part is damaged"
        );
        // A message goes, which changes its folder.
        let messages = of("message");
        let message = messages.first().unwrap();
        fs::remove_file(message).unwrap();
        assert_eq!(place.follow(&opened).0, 1, "{name}: a message was removed");
    }
}

#[test]
fn titles_and_sessions_of_a_tree_are_followed() {
    let place = Place::new("opencode-json-whole");
    age(place.dir.path());
    let opened = place.opened();
    let (_, before) = place.follow(&opened);
    let session = files(&place.dir.path().join("storage/session")).remove(0);
    let text = fs::read_to_string(&session).unwrap();
    let new = text.replacen("\"title\": \"", "\"title\": \"quarzwort ", 1);
    assert_ne!(text, new);
    fs::write(&session, new).unwrap();
    assert_eq!(place.follow(&opened).0, 1, "a title");
    fs::remove_file(&session).unwrap();
    let (read, after) = place.follow(&opened);
    assert_eq!((read, after.fresh.len()), (0, before.fresh.len() - 1));
    let sessions = place.index.sessions(&reach()).unwrap();
    assert_eq!(sessions.len(), after.fresh.len() + after.stale.len());
}

#[test]
fn a_database_is_followed_row_by_row() {
    let place = Place::new("opencode-sqlite");
    let opened = place.opened();
    place.follow(&opened);
    let database = rusqlite::Connection::open(place.dir.path().join("opencode.db")).unwrap();
    let run = |sql: &str| assert_eq!(database.execute(sql, ()).unwrap(), 1, "{sql}");
    let of_text = "SELECT id FROM part WHERE json_extract(data, '$.type') = 'text' LIMIT 1";
    run(&format!(
        "UPDATE part SET data = json_set(data, '$.text', 'quarzwort'), time_updated = time_updated + 1 \
         WHERE id = ({of_text})"
    ));
    assert_eq!(place.follow(&opened).0, 1, "a part was changed");
    run(&format!("DELETE FROM part WHERE id = ({of_text})"));
    assert_eq!(place.follow(&opened).0, 1, "a part was removed");
    run(
        "INSERT INTO message SELECT 'msg_zzz', session_id, time_created, time_updated, data FROM message LIMIT 1",
    );
    assert_eq!(place.follow(&opened).0, 1, "a message was added");
    let first = "(SELECT session_id FROM message LIMIT 1)";
    run(&format!(
        "UPDATE session SET title = 'quarzwort' WHERE id = {first}"
    ));
    assert_eq!(place.follow(&opened).0, 1, "a title was changed");
    // The log is folded in, and everything is as it was.
    database
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))
        .unwrap();
    drop(database);
    assert_eq!(place.follow(&opened).0, 0, "a log was folded in");
    assert_eq!(place.follow(&place.opened()).0, 0, "after a restart");
}

#[test]
fn lines_are_followed() {
    for name in ["claude-code", "codex"] {
        let place = Place::new(name);
        let opened = place.opened();
        let (_, before) = place.follow(&opened);
        let all = files(place.dir.path());
        let log = all
            .iter()
            .filter(|path| path.extension().is_some_and(|e| e == "jsonl"))
            .max_by_key(|path| path.metadata().unwrap().len())
            .unwrap();
        let text = fs::read_to_string(log).unwrap();
        let (cut, _) = text.trim_end().rsplit_once('\n').unwrap();
        fs::write(log, format!("{cut}\n")).unwrap();
        assert_eq!(place.follow(&opened).0, 1, "{name}: a line less");
        fs::write(log, format!("{cut}\n{{\"torn")).unwrap();
        let (_, torn) = place.follow(&opened);
        assert_eq!(torn.fresh.len() + 1, before.fresh.len(), "{name}: torn");
    }
}
