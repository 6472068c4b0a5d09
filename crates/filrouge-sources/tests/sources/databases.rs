//! Tests of OpenCode's databases: genuine ones are compared with independent counts and combined with other storages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use filrouge_sources::{
    Conversation, Fingerprint, Header, Library, Listing, LoadedSession, PartKind, ReadError, Role,
    Skipped, Source, SourceError, ToolStatus, opencode,
};
use serde_json::Value;

use crate::{copy, copy_of, fixture, json};

/// Runs a Python script with an open connection `c` to the database at `path`, and returns its output.
pub(crate) fn python(path: &Path, script: &str) -> String {
    let connect = "import sqlite3, sys, json, time\n\
                c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=5)\n";
    let output = Command::new("python3")
        .args(["-c", &format!("{connect}{script}")])
        .arg(path)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// A copy of a fixture's database without the other files of the fixture.
pub(crate) fn database_of(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in ["opencode.db", "opencode.db-wal"] {
        let from = fixture(name).join(file);
        if from.exists() {
            fs::copy(from, dir.path().join(file)).unwrap();
        }
    }
    dir
}

/// The sessions of one generation in a source.
struct OneGeneration(Arc<dyn Source>, String);

impl Source for OneGeneration {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn path(&self) -> Option<&Path> {
        self.0.path()
    }

    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        let mut listing = Listing::clone(&*self.0.list()?);
        listing.headers.retain(|header| header.generation == self.1);
        Ok(Arc::new(listing))
    }

    fn fingerprint(&self, header: &Header) -> Option<Fingerprint> {
        self.0.fingerprint(header)
    }

    fn read(&self, id: &str) -> Result<Conversation, ReadError> {
        self.0.read(id)
    }

    fn load(&self, id: &str) -> Result<LoadedSession, ReadError> {
        self.0.load(id)
    }

    fn orphans(&self) -> Result<Vec<Skipped>, SourceError> {
        self.0.orphans()
    }
}

/// The sessions of one generation in the first source. Leaks the source, so that tests do not have to keep it.
pub(crate) fn of_generation(sources: &[Arc<dyn Source>], generation: &str) -> &'static dyn Source {
    let generation_source = OneGeneration(sources[0].clone(), generation.to_owned());
    assert!(
        !generation_source.list().unwrap().headers.is_empty(),
        "{generation}"
    );
    Box::leak(Box::new(generation_source))
}

/// All conversations of all sources, by id.
pub(crate) fn conversations(path: &Path) -> BTreeMap<String, Conversation> {
    let mut conversations = BTreeMap::new();
    for source in opencode::open(path).unwrap() {
        for header in &source.list().unwrap().headers {
            let conversation = source.read(&header.id).unwrap();
            conversations
                .entry(header.id.to_string())
                .or_insert(conversation);
        }
    }
    conversations
}

pub(crate) fn role(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::System => "system",
    }
}

/// A script that prints counts of a database and the agent of each session's first message.
const COUNTS: &str = r#"
count = lambda sql: {k: n for k, n in c.execute(sql)}
print(json.dumps({
    'sessions': c.execute("SELECT count(*) FROM session").fetchone()[0],
    'roles': count("SELECT json_extract(data, '$.role'), count(*) FROM message GROUP BY 1"),
    'parts': count("SELECT json_extract(data, '$.type'), count(*) FROM part GROUP BY 1"),
    'agents': {k: v for k, v in c.execute("SELECT id, coalesce((SELECT json_extract(data, '$.agent') FROM message WHERE session_id = session.id ORDER BY time_created, id LIMIT 1), '') FROM session")},
}))
"#;

#[test]
fn counts_equal_those_of_sql() {
    for name in [
        "opencode-sqlite",
        "opencode-sqlite-first",
        "opencode-sqlite-migrated",
        "opencode-sqlite-wal",
    ] {
        let dir = database_of(name);
        let sources = opencode::open(dir.path()).unwrap();
        let sessions: usize = sources
            .iter()
            .map(|s| s.list().unwrap().headers.len())
            .sum();
        let source = of_generation(&sources, "sqlite");
        let (mut roles, mut parts) = (BTreeMap::new(), BTreeMap::new());
        for header in &source.list().unwrap().headers {
            let read = source.read(&header.id).unwrap();
            assert!(read.skipped.is_empty(), "{name}: {:?}", read.skipped);
            for message in &read.messages {
                *roles.entry(role(message.role).to_owned()).or_insert(0) += 1;
                for part in &message.parts {
                    *parts.entry(part.kind.name().to_owned()).or_insert(0) += 1;
                }
            }
        }
        drop(sources);
        let other = database_of(name);
        let expected = json(&python(&other.path().join("opencode.db"), COUNTS));
        assert_eq!(sessions, expected["sessions"], "{name}");
        assert_eq!(
            serde_json::to_value(roles).unwrap(),
            expected["roles"],
            "{name}"
        );
        assert_eq!(
            serde_json::to_value(parts).unwrap(),
            expected["parts"],
            "{name}"
        );
    }
}

#[test]
fn headers_have_the_agent_of_the_row_or_of_the_first_message() {
    for name in ["opencode-sqlite-first", "opencode-sqlite-migrated"] {
        let dir = database_of(name);
        let source = opencode::open(&dir.path().join("opencode.db")).unwrap();
        let listing = of_generation(&source, "sqlite").list().unwrap();
        assert_eq!((listing.headers.len(), listing.skipped.len()), (22, 0));
        let expected = json(&python(&dir.path().join("opencode.db"), COUNTS));
        for header in &listing.headers {
            let agent = header.agent.as_deref().unwrap_or_default();
            assert_eq!(
                agent, expected["agents"][&*header.id],
                "{name} {}",
                header.id
            );
            assert!(header.worktree.is_some() && header.directory.is_some());
        }
        let agents: BTreeSet<_> = listing.headers.iter().map(|h| &h.agent).collect();
        assert!(agents.len() > 4, "{agents:?}");
        let archived = listing.headers.iter().filter(|h| h.archived.is_some());
        assert_eq!(archived.count(), 1);
    }
}

#[test]
fn a_session_in_the_log_is_read_with_its_running_tool() {
    let dir = database_of("opencode-sqlite-wal");
    let sources = opencode::open(dir.path()).unwrap();
    let source = of_generation(&sources, "sqlite");
    let headers = source.list().unwrap().headers.clone();
    let read = source.read(&headers[0].id).unwrap();
    assert_eq!((headers.len(), read.messages.len()), (1, 2));
    let parts = read.messages.iter().flat_map(|m| &m.parts);
    let running =
        |kind: &PartKind| matches!(kind, PartKind::Tool(t) if t.status == ToolStatus::Running);
    assert_eq!(parts.filter(|p| running(&p.kind)).count(), 1);
}

#[test]
fn a_session_whose_ids_wrap_around_is_in_order_of_time() {
    // Ids contain a truncated time, so later ids can be smaller.
    let dir = database_of("opencode-sqlite");
    let all = conversations(dir.path());
    let session = &all["ses_000008563ffeYQ7zbLtpl8wWVX"];
    let ids: Vec<&str> = session.messages.iter().map(|m| &*m.id).collect();
    assert!(ids[0].starts_with("msg_fff") && ids[ids.len() - 1].starts_with("msg_000"));
    assert!(session.messages.is_sorted_by_key(|m| m.created));
    let has_text = |m: &filrouge_sources::Message| {
        m.parts
            .iter()
            .any(|p| matches!(p.kind, PartKind::Text { .. }))
    };
    assert_eq!(
        session
            .messages
            .iter()
            .filter(|m| m.role == Role::User && has_text(m))
            .count(),
        6
    );
}

#[test]
fn trees_and_databases_together_list_each_session_once() {
    let dir = copy_of("opencode-json");
    copy(&fixture("opencode-json-legacy"), dir.path());
    let migrated = fixture("opencode-sqlite-migrated").join("opencode.db");
    fs::copy(migrated, dir.path().join("opencode.db")).unwrap();
    let newest = fixture("opencode-sqlite").join("opencode.db");
    fs::copy(newest, dir.path().join("opencode-dev.db")).unwrap();
    fs::write(dir.path().join("auth.json"), "secret").unwrap();
    let sources = opencode::open(dir.path()).unwrap();
    let catalog = Library::new(sources, 1 << 20).catalog();
    assert!(catalog.unavailable.is_empty());
    let ids: BTreeSet<_> = catalog
        .entries
        .iter()
        .map(|e| e.header.id.clone())
        .collect();
    assert_eq!(ids.len(), catalog.entries.len());
    let mut by_generation = BTreeMap::new();
    for entry in &catalog.entries {
        *by_generation.entry(entry.header.generation).or_insert(0) += 1;
    }
    // The migrated database has 22 sessions, including all of the tree; the newest database has 23, and 2 of the newer
    // kind; 2 sessions are only in the oldest tree.
    let expected = [("project", 2), ("session_message", 2), ("sqlite", 22 + 23)];
    assert_eq!(by_generation, BTreeMap::from(expected));
}

/// The places where a text occurs in a part or in a message's error: (session, message, part or none, role).
pub(crate) fn occurrences(
    source: &dyn Source,
    word: &str,
) -> BTreeSet<(String, String, String, String)> {
    let mut found = BTreeSet::new();
    for header in &source.list().unwrap().headers {
        for message in source.read(&header.id).unwrap().messages {
            let mut add = |part: &str| {
                let (session, id) = (header.id.to_string(), message.id.to_string());
                found.insert((session, id, part.to_owned(), role(message.role).to_owned()));
            };
            for part in &message.parts {
                if format!("{:?}", part.kind).contains(word) {
                    add(&part.id);
                }
            }
            if format!("{:?}", message.error).contains(word) {
                add("");
            }
        }
    }
    found
}

#[test]
fn errors_are_read_with_their_messages() {
    let dir = database_of("opencode-sqlite");
    let sources = opencode::open(dir.path()).unwrap();
    let errors = occurrences(of_generation(&sources, "sqlite"), "APIError");
    assert_eq!(errors.iter().filter(|f| f.2.is_empty()).count(), 1);
}

#[test]
fn secrets_and_events_are_never_read() {
    let dir = database_of("opencode-sqlite");
    let path = dir.path().join("opencode.db");
    python(
        &path,
        r#"
S = 'ses_44e90d925ffeBM67k4fmNh04dz'
c.execute("INSERT INTO session_share VALUES (?, 'x', 'the-share-secret', 'https://share.example/x', 1, 1)", (S,))
c.execute("UPDATE session SET share_url = 'https://share.example/x' WHERE id = ?", (S,))
"#,
    );
    let sources = opencode::open(&path).unwrap();
    for source in &sources {
        for header in &source.list().unwrap().headers {
            let loaded = source.load(&header.id).unwrap();
            let metadata = loaded.metadata.as_str();
            assert!(!metadata.contains("the-share-secret"));
            let shared = &*header.id == "ses_44e90d925ffeBM67k4fmNh04dz";
            assert_eq!(metadata.contains("https://share.example/x"), shared);
        }
    }
    let todo: Vec<Value> = sources
        .iter()
        .flat_map(|s| {
            let headers = s.list().unwrap().headers.clone();
            let load =
                |h: &Arc<filrouge_sources::Header>| json(s.load(&h.id).unwrap().metadata.as_str());
            headers.iter().map(load).collect::<Vec<_>>()
        })
        .filter(|m| m["opencode"]["todo"].is_array())
        .collect();
    assert!(!todo.is_empty());
    let first = &todo[0]["opencode"]["todo"][0];
    assert_eq!(
        first["content"],
        "Find every place that counts requests today"
    );
}
