//! Indexes of genuine histories contain the current documents, follow every change, and remain valid after a restart.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use filrouge_search::SearchDocument;
use filrouge_search::feed::{IndexSnapshot, SourceIndex, file_name, index_scope};
use filrouge_sources::{Source, claude_code, codex, opencode};
use filrouge_store::contract::text_index::IndexTestExt as _;
use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_store::text_index::{CandidateQuery, TextIndex};

use super::*;

/// The fixtures that the tests index.
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

/// Opens the sources of the history with this name.
fn open(name: &str, path: &Path) -> Vec<Arc<dyn Source>> {
    let sources = match name {
        "claude-code" => claude_code::open(path),
        "codex" => codex::open(path),
        _ => opencode::open(path),
    };
    sources.unwrap()
}

/// A copy of a fixture, and the index of the largest source in it.
struct HistoryCopy {
    name: &'static str,
    dir: tempfile::TempDir,
    index: Arc<dyn TextIndex>,
}

/// The bodies of documents by session and key.
type Bodies = BTreeMap<(String, String), Vec<u8>>;

impl HistoryCopy {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            dir: copy_of(name),
            index: Arc::new(MemoryIndex::default()),
        }
    }

    /// Opens the index, as a process that has just started does.
    fn open_index(&self) -> SourceIndex {
        let sources = open(self.name, self.dir.path()).into_iter();
        let count = |source: &Arc<dyn Source>| source.list().unwrap().headers.len();
        let source = sources.max_by_key(count).unwrap();
        SourceIndex::new(source, self.index.clone(), None)
    }

    /// Indexes the changed sessions, and returns the number of sessions that were read. Asserts that the fresh sessions
    /// have the same documents in the index as in the source, and that they are fresh in other processes, too.
    fn update(&self, source_index: &SourceIndex) -> (usize, Arc<IndexSnapshot>) {
        // Data written within the last tick of the file system's clock would be read twice.
        std::thread::sleep(Duration::from_millis(50));
        let read = source_index
            .update(&mut |_| {}, &|| false)
            .unwrap()
            .sessions;
        let snapshot = source_index.snapshot(Duration::ZERO);
        assert_eq!(snapshot.pending, 0, "{}", self.name);
        let (expected, readable) = readable_documents(&**source_index.source());
        assert_eq!(
            snapshot.fresh.keys().cloned().collect::<BTreeSet<_>>(),
            readable
        );
        assert!(
            indexed_documents(&*self.index, &snapshot) == expected,
            "{}: the index differs from the source",
            self.name
        );
        let reopened = self.open_index();
        let reopened_snapshot = reopened.snapshot(Duration::ZERO);
        assert_eq!(
            (&reopened_snapshot.fresh, reopened_snapshot.pending),
            (&snapshot.fresh, 0),
            "{}",
            self.name
        );
        (read, snapshot)
    }
}

/// The documents of the sessions of a source that can be read completely, and the ids of these sessions.
fn readable_documents(source: &dyn Source) -> (Bodies, BTreeSet<Box<str>>) {
    let (mut all, mut readable) = (Bodies::new(), BTreeSet::new());
    for header in &source.list().unwrap().headers {
        let Ok(conversation) = source.read(&header.id) else {
            continue;
        };
        if !conversation.skipped.is_empty() {
            continue;
        }
        readable.insert(header.id.clone());
        let messages = conversation
            .messages
            .iter()
            .map(SearchDocument::from_message);
        for doc in SearchDocument::from_title(header)
            .into_iter()
            .chain(messages)
        {
            let key = (header.id.to_string(), doc.id.to_string());
            all.insert(key, doc.encode());
        }
    }
    (all, readable)
}

/// The documents of the fresh sessions in an index.
fn indexed_documents(index: &dyn TextIndex, snapshot: &IndexSnapshot) -> Bodies {
    let (reach, mut all) = (index_scope(), Bodies::new());
    for (id, no) in &snapshot.fresh {
        let query = CandidateQuery {
            reach: &reach,
            sessions: Some(&[*no]),
            kinds: u32::MAX,
            since: None,
            until: None,
            wanted: filrouge_store::text_index::CandidateFilter::All(&[]),
        };
        let found = index.candidates(&query).unwrap();
        let numbers: Vec<_> = found.iter().map(|one| one.document).collect();
        let each = &mut |_, body: &[u8]| {
            let key = SearchDocument::decode(body).unwrap().id.into_owned();
            all.insert((id.to_string(), key), body.to_vec());
            true
        };
        index.bodies(&numbers, each).unwrap();
    }
    all
}

/// All files below a folder, sorted.
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

/// Sets old modification times for everything below a folder.
fn set_old_times(dir: &Path) {
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_760_000_000);
    for child in fs::read_dir(dir).unwrap() {
        let path = child.unwrap().path();
        File::open(&path).unwrap().set_modified(then).unwrap();
        if path.is_dir() {
            set_old_times(&path);
        }
    }
}

#[test]
fn an_index_contains_a_history_and_remains_valid_after_a_restart() {
    for name in HISTORIES {
        let copied = HistoryCopy::new(name);
        let source_index = copied.open_index();
        let (read, snapshot) = copied.update(&source_index);
        assert!(
            read >= snapshot.fresh.len() && !snapshot.fresh.is_empty(),
            "{name}"
        );
        assert_eq!(
            copied.update(&source_index).0,
            0,
            "{name}: nothing has changed"
        );
        assert_eq!(
            copied.update(&copied.open_index()).0,
            0,
            "{name}: after a restart"
        );
        let source = source_index.source();
        let file = file_name(&**source).unwrap();
        assert!(file.starts_with(source.name()) && file.ends_with(".index"));
    }
}

#[test]
fn an_index_follows_each_changed_file_of_a_tree() {
    for (name, has_old_times) in [
        ("opencode-json-whole", false),
        ("opencode-json-whole", true),
        ("opencode-json-legacy-whole", true),
    ] {
        let copied = HistoryCopy::new(name);
        let root = copied.dir.path();
        if has_old_times {
            set_old_times(root);
        }
        let source_index = copied.open_index();
        copied.update(&source_index);
        let all = files(root);
        let json_files_in = |folder: &str| {
            let is_wanted = |path: &&PathBuf| {
                let is_inside = path.iter().any(|step| step == folder);
                is_inside && path.extension().is_some_and(|e| e == "json")
            };
            all.iter().filter(is_wanted).cloned().collect::<Vec<_>>()
        };
        let parts = json_files_in("part");
        let texts: Vec<_> = parts
            .iter()
            .filter(|path| {
                fs::read_to_string(path)
                    .unwrap()
                    .contains("\"type\": \"text\"")
            })
            .collect();
        let content = |path: &Path| fs::read_to_string(path).unwrap();
        // A part is rewritten in place, as when the latest text of a session still grows. No fixture has "quarzwort".
        let part = texts.first().unwrap();
        let text = content(part).replacen("\"text\": \"", "\"text\": \"quarzwort ", 1);
        assert!(text.contains("quarzwort"));
        fs::write(part, &text).unwrap();
        assert_eq!(
            copied.update(&source_index).0,
            1,
            "{name}: a part was changed"
        );
        fs::remove_file(part).unwrap();
        assert_eq!(
            copied.update(&source_index).0,
            1,
            "{name}: a part was removed"
        );
        let last = texts.last().unwrap();
        fs::write(last, "{\"torn").unwrap();
        let (read, snapshot) = copied.update(&source_index);
        assert!(
            read == 1 && !snapshot.stale.is_empty(),
            "{name}: a part was damaged"
        );
        // The removal of a message changes only its folder.
        let messages = json_files_in("message");
        let message = messages.first().unwrap();
        fs::remove_file(message).unwrap();
        assert_eq!(
            copied.update(&source_index).0,
            1,
            "{name}: a message was removed"
        );
    }
}

#[test]
fn an_index_follows_titles_and_removed_sessions_of_a_tree() {
    let copied = HistoryCopy::new("opencode-json-whole");
    set_old_times(copied.dir.path());
    let source_index = copied.open_index();
    let (_, before) = copied.update(&source_index);
    let session = files(&copied.dir.path().join("storage/session")).remove(0);
    let text = fs::read_to_string(&session).unwrap();
    let new = text.replacen("\"title\": \"", "\"title\": \"quarzwort ", 1);
    assert_ne!(text, new);
    fs::write(&session, new).unwrap();
    assert_eq!(copied.update(&source_index).0, 1, "a title was changed");
    fs::remove_file(&session).unwrap();
    let (read, after) = copied.update(&source_index);
    assert_eq!((read, after.fresh.len()), (0, before.fresh.len() - 1));
    let sessions = copied.index.sessions(&index_scope()).unwrap();
    assert_eq!(sessions.len(), after.fresh.len() + after.stale.len());
}

#[test]
fn an_index_follows_each_changed_row_of_a_database() {
    let copied = HistoryCopy::new("opencode-sqlite");
    let source_index = copied.open_index();
    copied.update(&source_index);
    let database = rusqlite::Connection::open(copied.dir.path().join("opencode.db")).unwrap();
    let run = |sql: &str| assert_eq!(database.execute(sql, ()).unwrap(), 1, "{sql}");
    let first_text = "SELECT id FROM part WHERE json_extract(data, '$.type') = 'text' LIMIT 1";
    run(&format!(
        "UPDATE part SET data = json_set(data, '$.text', 'quarzwort'), time_updated = time_updated + 1 \
         WHERE id = ({first_text})"
    ));
    assert_eq!(copied.update(&source_index).0, 1, "a part was changed");
    run(&format!("DELETE FROM part WHERE id = ({first_text})"));
    assert_eq!(copied.update(&source_index).0, 1, "a part was removed");
    run(
        "INSERT INTO message SELECT 'msg_zzz', session_id, time_created, time_updated, data FROM message LIMIT 1",
    );
    assert_eq!(copied.update(&source_index).0, 1, "a message was added");
    let first = "(SELECT session_id FROM message LIMIT 1)";
    run(&format!(
        "UPDATE session SET title = 'quarzwort' WHERE id = {first}"
    ));
    assert_eq!(copied.update(&source_index).0, 1, "a title was changed");
    // A checkpoint of the write-ahead log changes no content.
    database
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))
        .unwrap();
    drop(database);
    assert_eq!(copied.update(&source_index).0, 0, "a checkpoint of the log");
    assert_eq!(copied.update(&copied.open_index()).0, 0, "after a restart");
}

#[test]
fn an_index_follows_each_changed_line_of_a_log() {
    for name in ["claude-code", "codex"] {
        let copied = HistoryCopy::new(name);
        let source_index = copied.open_index();
        let (_, before) = copied.update(&source_index);
        let all = files(copied.dir.path());
        let log = all
            .iter()
            .filter(|path| path.extension().is_some_and(|e| e == "jsonl"))
            .max_by_key(|path| path.metadata().unwrap().len())
            .unwrap();
        let text = fs::read_to_string(log).unwrap();
        let (cut, _) = text.trim_end().rsplit_once('\n').unwrap();
        fs::write(log, format!("{cut}\n")).unwrap();
        assert_eq!(
            copied.update(&source_index).0,
            1,
            "{name}: a line was removed"
        );
        fs::write(log, format!("{cut}\n{{\"torn")).unwrap();
        let (_, torn) = copied.update(&source_index);
        assert_eq!(
            torn.fresh.len() + 1,
            before.fresh.len(),
            "{name}: the last line is torn"
        );
    }
}
