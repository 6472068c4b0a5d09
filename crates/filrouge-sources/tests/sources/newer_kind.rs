//! Tests of OpenCode sessions whose messages are in `session_message`: genuine sessions of 1.18, and generated
//! sessions of 2.x that follow its schema and the dumps of users.

use std::path::Path;

use filrouge_sources::{Conversation, Message, PartKind, Role, Source, Tool, ToolStatus, opencode};

use crate::databases::{database_of, occurrences, of_generation, python};

fn texts(message: &Message) -> Vec<(&str, bool)> {
    let mut texts = Vec::new();
    for part in &message.parts {
        if let PartKind::Text { text, synthetic } = &part.kind {
            texts.push((&**text, *synthetic));
        }
    }
    texts
}

fn tools(read: &Conversation) -> Vec<&Tool> {
    let mut tools = Vec::new();
    for part in read.messages.iter().flat_map(|m| &m.parts) {
        if let PartKind::Tool(tool) = &part.kind {
            tools.push(&**tool);
        }
    }
    tools
}

#[test]
fn genuine_sessions_are_read_completely() {
    let dir = database_of("opencode-sqlite");
    let sources = opencode::open(dir.path()).unwrap();
    let source = of_generation(&sources, "session_message");
    let headers = source.list().unwrap().headers.clone();
    let agents: Vec<_> = headers.iter().map(|h| h.agent.as_deref()).collect();
    assert_eq!(agents, [Some("plan"), Some("build")]);
    let secret = source.read("ses_380928b42ffeO7FjXGhh1PtBJr").unwrap();
    assert!(secret.skipped.is_empty());
    let roles: Vec<Role> = secret.messages.iter().map(|m| m.role).collect();
    use Role::{Assistant, System, User};
    assert_eq!(
        roles,
        [User, Assistant, Assistant, System, System, User, Assistant]
    );
    let seqs: Vec<_> = secret.messages.iter().map(|m| m.seq.unwrap()).collect();
    assert_eq!(seqs, [2, 3, 11, 15, 16, 18, 19]);
    assert_eq!(
        texts(&secret.messages[5]),
        [("journal entry 90: asked twice about the key", false)]
    );
    assert_eq!(secret.messages[3].parts[0].kind.name(), "agent-switched");
    assert_eq!(secret.messages[3].agent.as_deref(), Some("plan"));
    let answer = &secret.messages[1];
    assert_eq!(answer.model.as_deref(), Some("mock/atelier-1"));
    assert_eq!(answer.finish.as_deref(), Some("tool-calls"));
    assert_eq!(answer.completed, Some(1_771_664_407_567));
    assert_eq!(answer.tokens.unwrap().input, 1500);
    let tool = tools(&secret)[0];
    assert_eq!((&*tool.name, &*tool.call_id), ("bash", "call_00102_0"));
    assert_eq!(tool.status, ToolStatus::Completed);
    let output = tool.output.as_deref().unwrap();
    assert!(output.starts_with("AWS_ACCESS_KEY_ID") && output.ends_with("exited with code 0."));
    let review = source.read("ses_3809265faffegL75QlOVFplR7U").unwrap();
    assert_eq!(review.messages.len(), 5);
    let failed = tools(&review)[0];
    assert_eq!(failed.status, ToolStatus::Error);
    assert_eq!(failed.error.as_deref(), Some("Unknown tool: task"));
    let loaded = source.load(&headers[0].id).unwrap();
    assert!(loaded.turns.len() >= 2 && loaded.skipped.is_empty());
    let found = occurrences(source, "asked twice");
    let found: Vec<_> = found.iter().map(|f| (&*f.1, &*f.3)).collect();
    assert_eq!(found, [("msg_c7f6d8fac001bFBrqd66dzZEfP", "user")]);
}

/// A script that creates the tables of 2.x, as its first migration does, and defines functions that insert rows.
const V2: &str = r#"
c.executescript('''
PRAGMA journal_mode = WAL;
CREATE TABLE project (id text PRIMARY KEY, worktree text NOT NULL, vcs text, name text, time_created integer, time_updated integer, time_active integer DEFAULT 0, sandboxes text);
CREATE TABLE session_v2 (id text PRIMARY KEY, project_id text NOT NULL, workspace_id text, parent_id text, fork_session_id text, fork_boundary text, slug text NOT NULL, directory text NOT NULL, path text, title text, version text NOT NULL, share_url text, summary_additions integer, summary_deletions integer, summary_files integer, summary_diffs text, metadata text, cost real DEFAULT 0 NOT NULL, tokens_input integer DEFAULT 0 NOT NULL, tokens_output integer DEFAULT 0 NOT NULL, tokens_reasoning integer DEFAULT 0 NOT NULL, tokens_cache_read integer DEFAULT 0 NOT NULL, tokens_cache_write integer DEFAULT 0 NOT NULL, revert text, permission text, agent text, model text, time_created integer NOT NULL, time_updated integer NOT NULL, time_idle integer, time_viewed integer, idle_outcome text, time_compacting integer, time_archived integer, time_suspended integer, resume_attempts integer DEFAULT 0 NOT NULL);
CREATE TABLE session_message (id text PRIMARY KEY, session_id text NOT NULL, type text NOT NULL, seq integer NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE UNIQUE INDEX session_message_session_seq_idx ON session_message (session_id, seq);
INSERT INTO project (id, worktree, name) VALUES ('p', '/w', 'Atelier');
''')
n = 0
def session(id, created, table='session_v2', **more):
    row = dict(id=id, project_id='p', slug='s', directory='/w', version='2.0.12', time_created=created, time_updated=created + 99, **more)
    c.execute('INSERT INTO %s (%s) VALUES (%s)' % (table, ', '.join(row), ', '.join('?' * len(row))), tuple(row.values()))
def message(session, kind, created, **data):
    global n
    n += 1
    data['time'] = dict(created=created, **data.pop('times', {}))
    c.execute('INSERT INTO session_message VALUES (?, ?, ?, ?, ?, ?, ?)', ('msg_%03d' % n, session, kind, n, created, created, json.dumps(data)))
"#;

/// A session with one message of every type.
const EVERYTHING: &str = r#"
session('ses_all', 1000, agent='build', time_idle=5, idle_outcome='succeeded', resume_attempts=1)
M = dict(id='m', providerID='p', variant='high')
message('ses_all', 'user', 1000, text='do it', files=[dict(uri='file:///w/a.rs', mime='text/plain', name='a.rs')], agents=[dict(name='explore')])
message('ses_all', 'assistant', 1001, agent='build', model=M, native=dict(sealed='blob'), finish='tool-calls', cost=0.5,
  tokens=dict(input=1, output=2, reasoning=3, cache=dict(read=4, write=5)), times=dict(completed=1010), content=[
    dict(type='reasoning', id='r', text='let me think', state=dict(sealed='blob'), time=dict(created=1002, completed=1003)),
    dict(type='text', id='t', text='I shall', providerState='blob'),
    dict(type='tool', id='call_0', name='read', state=dict(status='streaming', input='{"file'), time=dict(created=1004)),
    dict(type='tool', id='call_1', name='bash', state=dict(status='running', input=dict(command='ls'), content=[], metadata={}), time=dict(created=1004, ran=1005)),
    dict(type='tool', id='call_2', name='subagent', state=dict(status='completed', input=dict(prompt='x'), content=[dict(type='text', text='one'), dict(type='text', text='two'), dict(type='file', uri='data:image/png;base64,AAAA', mime='image/png')], metadata=dict(sessionID='ses_child')), time=dict(created=1004, ran=1005, completed=1006, pruned=1007)),
    dict(type='tool', id='call_3', name='edit', state=dict(status='error', input={}, content=[], metadata={}, error=dict(type='unknown', message='no such file')), time=dict(created=1004, completed=1006)),
    dict(type='hologram', id='h', shape='cube'),
    'a bare string',
])
message('ses_all', 'synthetic', 1011, text='continue', description='why')
message('ses_all', 'system', 1012, text='the context has changed')
message('ses_all', 'skill', 1013, name='review', text='how to review')
message('ses_all', 'shell', 1014, shellID='sh_1', command='make', status='exited', exit=2, output='boom', times=dict(completed=1015))
message('ses_all', 'agent-switched', 1016, agent='plan')
message('ses_all', 'model-switched', 1017, model=M)
message('ses_all', 'location-switched', 1018, location=dict(directory='/elsewhere'))
message('ses_all', 'idle', 1019, outcome='succeeded')
message('ses_all', 'compaction', 1020, status='failed', reason='auto', summary='half', recent='')
message('ses_all', 'compaction', 1021, status='completed', reason='auto', summary='what was said', recent='do it', cost=0.1, tokens=dict(input=7, output=1, reasoning=0, cache=dict(read=0, write=0)))
message('ses_all', 'user', 1022, text='go on')
message('ses_all', 'assistant', 1023, agent='plan', model=M, content=[], error=dict(type='provider.rate-limit', message='slow down'), times=dict(completed=1024))
message('ses_all', 'compaction', 1025, status='running', reason='manual', summary='so fa', recent='')
c.execute("INSERT INTO session_message VALUES ('msg_torn', 'ses_all', 'user', 900, 1026, 1026, '{\"text\":\"x')")
session('ses_child', 1004, parent_id='ses_all')
session('ses_fork', 2000, fork_session_id='ses_all', fork_boundary='{"type":"through"}', title='All (fork #1)')
message('ses_fork', 'user', 1000, text='do it')
message('ses_fork', 'user', 2001, text='do it otherwise')
"#;

/// A database of 2.x with the rows that a script inserts.
pub(crate) fn database_from_script(script: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    python(
        &dir.path().join("opencode-next.db"),
        &format!("{V2}{script}"),
    );
    dir
}

/// The sources of a database of 2.x, and its session `ses_all`.
fn open_v2(path: &Path) -> (Vec<std::sync::Arc<dyn Source>>, Conversation) {
    let sources = opencode::open(path).unwrap();
    let read = of_generation(&sources, "session_v2")
        .read("ses_all")
        .unwrap();
    (sources, read)
}

#[test]
fn every_type_of_2_x_is_converted() {
    let dir = database_from_script(EVERYTHING);
    let (_sources, read) = open_v2(dir.path());
    let roles: Vec<Role> = read.messages.iter().map(|m| m.role).collect();
    use Role::{Assistant, System, User};
    assert_eq!(
        roles,
        [
            User, Assistant, User, System, User, Assistant, System, System, System, System, User,
            User, User, Assistant, User
        ]
    );
    let kinds = |at: usize| -> Vec<&str> {
        read.messages[at]
            .parts
            .iter()
            .map(|p| p.kind.name())
            .collect()
    };
    assert_eq!(kinds(0), ["text", "file", "agent"]);
    let expected = [
        "reasoning",
        "text",
        "tool",
        "tool",
        "tool",
        "tool",
        "hologram",
        "unknown",
    ];
    assert_eq!(kinds(1), expected);
    assert_eq!(texts(&read.messages[2]), [("continue", true)]);
    assert_eq!(
        texts(&read.messages[3]),
        [("the context has changed", true)]
    );
    assert_eq!(texts(&read.messages[4]), [("how to review", true)]);
    for (at, kind) in [
        (6, "agent-switched"),
        (7, "model-switched"),
        (8, "location-switched"),
        (9, "idle"),
    ] {
        assert_eq!(kinds(at), [kind]);
    }
    let answer = &read.messages[1];
    assert_eq!(
        (answer.cost, answer.tokens.unwrap().cache_write),
        (Some(0.5), 5)
    );
    assert_eq!(
        (answer.parts[0].start, answer.parts[0].end),
        (Some(1002), Some(1003))
    );
    let failed = &read.messages[13];
    let error = failed.error.as_ref().unwrap();
    assert_eq!(
        (&*error.name, &*error.message),
        ("provider.rate-limit", "slow down")
    );
    let shown = format!("{read:?}");
    assert!(!shown.contains("sealed") && !shown.contains("blob"));
    assert_eq!(read.skipped.len(), 1);
    assert!(
        read.skipped[0]
            .path
            .ends_with("opencode-next.db#session_message/msg_torn")
    );
    assert_eq!(read.skipped[0].reason.as_str(), "torn");
}

#[test]
fn tools_of_2_x_have_their_states() {
    let dir = database_from_script(EVERYTHING);
    let (_sources, read) = open_v2(dir.path());
    let tools = tools(&read);
    let states: Vec<_> = tools.iter().map(|t| (&*t.name, t.status)).collect();
    use ToolStatus::{Completed, Error, Pending, Running};
    let expected = [
        ("read", Pending),
        ("bash", Running),
        ("subagent", Completed),
        ("edit", Error),
        ("bash", Completed),
    ];
    assert_eq!(states, expected);
    assert_eq!(&*tools[1].input, r#"{"command": "ls"}"#);
    assert_eq!(tools[2].output.as_deref(), Some("one\ntwo"));
    assert_eq!(tools[2].child.as_deref(), Some("ses_child"));
    assert_eq!(tools[2].pruned, Some(1007));
    assert_eq!(tools[3].error.as_deref(), Some("no such file"));
    assert_eq!(tools[4].output.as_deref(), Some("boom"));
    assert_eq!(
        (&*tools[4].call_id, &*tools[4].input),
        ("sh_1", r#"{"command":"make"}"#)
    );
}

#[test]
fn only_finished_compactions_drop_messages() {
    let dir = database_from_script(EVERYTHING);
    let (_sources, read) = open_v2(dir.path());
    let boundaries: Vec<_> = read
        .boundaries
        .iter()
        .map(|b| (b.at, b.automatic))
        .collect();
    assert_eq!(boundaries, [(11, Some(true))]);
    let PartKind::Compaction { summary, automatic } = &read.messages[11].parts[0].kind else {
        panic!("{:?}", read.messages[11]);
    };
    assert_eq!(
        (summary.as_deref(), *automatic),
        (Some("what was said"), true)
    );
}

#[test]
fn forks_and_children_of_2_x_are_recorded() {
    let dir = database_from_script(EVERYTHING);
    let (sources, _) = open_v2(dir.path());
    let source = of_generation(&sources, "session_v2");
    let headers = source.list().unwrap().headers.clone();
    let relations: Vec<_> = headers
        .iter()
        .map(|h| {
            (
                &*h.id,
                h.parent_id.as_deref(),
                h.fork_of.as_deref(),
                h.title.as_deref(),
            )
        })
        .collect();
    assert_eq!(
        relations,
        [
            ("ses_all", None, None, None),
            ("ses_child", Some("ses_all"), None, None),
            ("ses_fork", None, Some("ses_all"), Some("All (fork #1)")),
        ]
    );
    assert_eq!(headers[0].project_name.as_deref(), Some("Atelier"));
    let fork = source.read("ses_fork").unwrap();
    let copied: Vec<_> = fork.messages.iter().map(|m| m.copied).collect();
    assert_eq!(copied, [true, false]);
    let found = occurrences(source, "do it");
    assert_eq!(found.iter().filter(|f| f.0 == "ses_fork").count(), 2);
}

#[test]
fn builds_that_kept_the_old_table_name_are_read() {
    let script = format!(
        "{V2}\nc.execute('ALTER TABLE session_v2 RENAME TO session')\n{}",
        EVERYTHING
            .replace("def session", "def unused")
            .replace("session('ses", "session(table='session', id='ses")
            .replace("ses_all', 1000", "ses_all', created=1000")
            .replace("ses_child', 1004", "ses_child', created=1004")
            .replace("ses_fork', 2000", "ses_fork', created=2000")
    );
    let dir = tempfile::tempdir().unwrap();
    python(&dir.path().join("opencode.db"), &script);
    let sources = opencode::open(dir.path()).unwrap();
    let source = of_generation(&sources, "session_message");
    let headers = source.list().unwrap().headers.clone();
    // The child has no messages. Without a table for messages of the older kind, it belongs to this generation too.
    let ids: Vec<&str> = headers.iter().map(|h| &*h.id).collect();
    assert_eq!(
        (sources.len(), ids),
        (1, vec!["ses_all", "ses_child", "ses_fork"])
    );
    let read = source.read("ses_all").unwrap();
    assert_eq!(read.messages.len(), 15);
    assert_eq!(occurrences(source, "let me think").len(), 1);
}

#[test]
fn an_unfinished_import_hides_no_messages() {
    let dir = database_of("opencode-sqlite");
    let path = dir.path().join("opencode.db");
    let sources = opencode::open(&path).unwrap();
    let old = sources[0].read("ses_44e90ece5ffeNgzx3noAXP34ja").unwrap();
    // The new table has one session with its messages and one without them; the old table has all sessions.
    python(
        &path,
        r#"
c.execute("PRAGMA foreign_keys = OFF")
c.execute("CREATE TABLE session_v2 AS SELECT * FROM session WHERE id IN ('ses_44e90d925ffeBM67k4fmNh04dz', 'ses_44e90ece5ffeNgzx3noAXP34ja')")
c.execute("INSERT INTO session_message VALUES ('msg_new', 'ses_44e90d925ffeBM67k4fmNh04dz', 'user', 1, 1, 1, '{\"text\":\"imported\",\"time\":{\"created\":1}}')")
"#,
    );
    let sources = opencode::open(&path).unwrap();
    let listing = sources[0].list().unwrap();
    assert_eq!(listing.generations(), "session_message, session_v2, sqlite");
    assert_eq!(listing.shadowed.len(), 2);
    let newest = of_generation(&sources, "session_v2");
    assert_eq!(newest.list().unwrap().headers.len(), 2);
    let imported = newest.read("ses_44e90d925ffeBM67k4fmNh04dz").unwrap();
    assert_eq!(texts(&imported.messages[0]), [("imported", false)]);
    let not_imported = newest.read("ses_44e90ece5ffeNgzx3noAXP34ja").unwrap();
    assert!(not_imported.messages.len() > 4);
    assert_eq!(not_imported.messages, old.messages);
    let found = occurrences(newest, "TokenBucket");
    assert!(
        found
            .iter()
            .all(|f| f.0 == "ses_44e90ece5ffeNgzx3noAXP34ja")
    );
}

#[test]
fn a_session_of_both_kinds_is_read_once() {
    let dir = database_of("opencode-sqlite");
    let path = dir.path().join("opencode.db");
    python(
        &path,
        r#"
S = 'ses_44e90d925ffeBM67k4fmNh04dz'
first, last = c.execute("SELECT min(time_created), max(time_updated) FROM message WHERE session_id = ?", (S,)).fetchone()
for n, (id, at) in enumerate([('msg_twin', first + 1), ('msg_later', last + 5000)]):
    c.execute("INSERT INTO session_message VALUES (?, ?, 'user', ?, ?, ?, ?)", (id, S, n, at, at, json.dumps(dict(text='said in ' + id, time=dict(created=at)))))
"#,
    );
    let sources = opencode::open(&path).unwrap();
    let source = of_generation(&sources, "sqlite");
    let read = source.read("ses_44e90d925ffeBM67k4fmNh04dz").unwrap();
    let texts_read: Vec<_> = read
        .messages
        .iter()
        .flat_map(texts)
        .filter(|t| t.0.starts_with("said in"))
        .collect();
    assert_eq!(texts_read, [("said in msg_later", false)]);
    let skipped: Vec<_> = read.skipped.iter().map(|s| s.reason.as_str()).collect();
    assert_eq!(skipped, ["shadowed"]);
    let found = occurrences(source, "said in");
    assert_eq!(
        found.iter().map(|f| &*f.1).collect::<Vec<_>>(),
        ["msg_later"]
    );
}
