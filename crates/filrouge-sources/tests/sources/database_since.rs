//! What an index asks of a database: what has changed since it was read, and no more than that.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use filrouge_sources::{
    Look, Message, Overlooks, ReadError, ReadMessages, Since, Source, Stamp, opencode,
};
use proptest::prelude::*;
use rusqlite::{Connection, params};

use crate::databases::{database_of, of};
use crate::live_tree::Later;

const HOUR: i64 = 60 * 60 * 1000;
/// When everything was said, unless it is told otherwise.
const THEN: i64 = 1_700_000_000_000;

/// The tables and indexes that matter, as OpenCode makes them.
const SCHEMA: &str = "
CREATE TABLE session (id text PRIMARY KEY, project_id text NOT NULL, directory text NOT NULL, title text NOT NULL,
    version text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
    time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
    time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE INDEX message_session_time_created_id_idx ON message (session_id, time_created, id);
CREATE INDEX part_message_id_id_idx ON part (message_id, id);
CREATE INDEX part_session_idx ON part (session_id);
";

/// A database that is written to as OpenCode does.
struct Kept {
    dir: tempfile::TempDir,
    db: Connection,
}

impl Kept {
    fn new(schema: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let db = Connection::open(dir.path().join("opencode.db")).unwrap();
        db.pragma_update(None, "journal_mode", "wal").unwrap();
        db.execute_batch(schema).unwrap();
        Self { dir, db }
    }

    /// One that could hold so many rows that they are not all summed up for each look.
    fn large() -> Self {
        let kept = Self::new(SCHEMA);
        let far = "INSERT INTO part (rowid, id, message_id, session_id, time_created, time_updated, data) \
                   VALUES (?1, 'far', 'far', 'far', 0, 0, '{}')";
        kept.run(far, [1]);
        kept.run("UPDATE part SET id = 'first'", []);
        kept.run(far, [10_000_000]);
        kept
    }

    /// One session of two messages with two parts each.
    fn with_two(self) -> Self {
        let kept = self;
        kept.session("s1", "a title");
        for message in ["m1", "m2"] {
            kept.message(message, THEN);
            kept.part(message, &format!("{message}p1"), "a", THEN);
            kept.part(message, &format!("{message}p2"), "b", THEN);
        }
        kept
    }

    fn run(&self, sql: &str, values: impl rusqlite::Params) {
        self.db.execute(sql, values).unwrap();
    }

    fn session(&self, id: &str, title: &str) {
        let sql = "INSERT OR REPLACE INTO session VALUES (?1, 'p1', '/work', ?2, '1.2.0', ?3, ?3)";
        self.run(sql, params![id, title, THEN]);
    }

    /// Writes a message, over the one that is there.
    fn message(&self, id: &str, at: i64) {
        let data = format!(r#"{{"role":"user","time":{{"created":{at}}}}}"#);
        let sql = "INSERT INTO message VALUES (?1, 's1', ?2, ?2, ?3) \
                   ON CONFLICT (id) DO UPDATE SET time_updated = ?2, data = ?3";
        self.run(sql, params![id, at, data]);
    }

    /// Writes a part, over the one that is there.
    fn part(&self, message: &str, id: &str, text: &str, at: i64) {
        let data = format!(r#"{{"type":"text","text":"{text}"}}"#);
        self.raw(message, id, &data, at);
    }

    fn raw(&self, message: &str, id: &str, data: &str, at: i64) {
        let sql = "INSERT INTO part VALUES (?1, ?2, 's1', ?3, ?3, ?4) \
                   ON CONFLICT (id) DO UPDATE SET time_updated = ?3, data = ?4";
        self.run(sql, params![id, message, at, data]);
    }

    fn remove(&self, table: &str, id: &str) {
        self.run(&format!("DELETE FROM {table} WHERE id = ?1"), [id]);
        if table == "message" {
            self.run("DELETE FROM part WHERE message_id = ?1", [id]);
        }
    }

    /// As a process sees it whose clock is so far behind the moment when everything was said.
    fn opened(&self, after: i64) -> Arc<dyn Source> {
        opened(self.dir.path(), after)
    }
}

fn opened(dir: &Path, after: i64) -> Arc<dyn Source> {
    let now = filrouge_types::Clock::now(&filrouge_types::SystemClock).as_millis();
    let clock = Arc::new(Later::by(THEN + after - now));
    let sources = opencode::open_at(&dir.join("opencode.db"), clock).unwrap();
    let old = sources.iter().find(|one| one.generation() == "sqlite");
    old.unwrap().clone()
}

fn mark(source: &dyn Source) -> Stamp {
    source.lasting("s1").unwrap().unwrap()
}

/// By a quick look, and by a close one of another process.
fn since(kept: &Kept, after: i64, mark: Stamp) -> [Since; 2] {
    [Look::Quick, Look::Close]
        .map(|look| kept.opened(after).since(&[("s1", mark)], look).unwrap()[0])
}

#[test]
fn a_quick_look_counts_and_a_close_one_sums_up() {
    let kept = Kept::large().with_two();
    let source = kept.opened(HOUR);
    assert_eq!(source.overlooks(), Overlooks::Together);
    let now = || {
        let now = mark(&*source);
        assert_eq!(since(&kept, HOUR, now), [Since::Same; 2]);
        now
    };
    let changed = |known| assert_eq!(since(&kept, HOUR, known), [Since::Changed; 2]);
    let first = now();
    kept.part("m1", "m1p3", "one more", THEN);
    changed(first);
    let second = now();
    kept.remove("part", "m1p3");
    changed(second);
    assert_eq!(since(&kept, HOUR, first), [Since::Same; 2]);
    kept.remove("message", "m1");
    changed(first);
    let third = now();
    kept.session("s1", "another title");
    changed(third);
    // A row that is written over in a session that was left alone.
    let fourth = now();
    kept.part("m2", "m2p1", "written over", THEN);
    assert_eq!(since(&kept, HOUR, fourth), [Since::Same, Since::Changed]);
    let unknown = source.since(&[("s9", fourth)], Look::Quick).unwrap();
    assert_eq!(unknown, [Since::Changed]);
}

#[test]
fn of_a_session_at_work_every_row_is_looked_at() {
    let kept = Kept::large().with_two();
    let minute = 60 * 1000;
    let first = mark(&*kept.opened(minute));
    assert_eq!(since(&kept, minute, first), [Since::Same; 2]);
    kept.part("m1", "m1p1", "written over", THEN);
    assert_eq!(since(&kept, minute, first), [Since::Changed; 2]);
    // An hour later it is no longer at work: who had the old mark gets a cheaper one.
    let second = mark(&*kept.opened(minute));
    let [Since::SameAs(third), Since::SameAs(same)] = since(&kept, HOUR, second) else {
        panic!("it is quiet now");
    };
    assert_eq!(third, same);
    assert_eq!(since(&kept, HOUR, third), [Since::Same; 2]);
    kept.part("m1", "m1p1", "written over once more", THEN);
    assert_eq!(since(&kept, HOUR, third), [Since::Same, Since::Changed]);
    // What is written now is at work again.
    kept.part("m1", "m1p1", "and now", THEN + HOUR);
    let fourth = mark(&*kept.opened(HOUR + minute));
    kept.part("m1", "m1p1", "and a moment later", THEN + HOUR + minute);
    assert_eq!(since(&kept, HOUR + minute, fourth), [Since::Changed; 2]);
}

#[test]
fn of_many_sessions_at_work_a_quick_look_sees_those_last_written_to() {
    let kept = Kept::large();
    let ids: Vec<String> = (0..200).map(|at| format!("t{at:03}")).collect();
    for id in &ids {
        kept.session(id, "a title");
        let rows = "INSERT INTO message VALUES ('m' || ?1, ?1, ?2, ?2, '{}')";
        kept.run(rows, params![id, THEN]);
        let rows = "INSERT INTO part VALUES ('p' || ?1, 'm' || ?1, ?1, ?2, ?2, '{}')";
        kept.run(rows, params![id, THEN]);
    }
    let source = kept.opened(1000);
    let mark = |id: &String| source.lasting(id).unwrap().unwrap();
    let known: Vec<_> = ids.iter().map(|id| (&**id, mark(id))).collect();
    kept.run("UPDATE part SET data = '{\"a\":1}'", []);
    let changed = |look| {
        let since = kept.opened(1000).since(&known, look).unwrap().into_iter();
        let changed = since.enumerate().filter(|(_, one)| *one == Since::Changed);
        changed.map(|(at, _)| at).collect::<Vec<_>>()
    };
    assert_eq!(changed(Look::Quick), (184..200).collect::<Vec<_>>());
    assert_eq!(changed(Look::Close), (0..200).collect::<Vec<_>>());
    // Rows that were given other numbers, of all sessions: nothing has changed.
    let known: Vec<_> = ids.iter().map(|id| (&**id, mark(id))).collect();
    kept.run("UPDATE part SET rowid = rowid + 1000000", []);
    for look in [Look::Quick, Look::Close] {
        let since = kept.opened(1000).since(&known, look).unwrap();
        assert!(since.iter().all(|one| matches!(one, Since::SameAs(_))));
    }
}

#[test]
fn of_few_rows_a_quick_look_is_a_close_one() {
    let kept = Kept::new(SCHEMA).with_two();
    let first = mark(&*kept.opened(HOUR));
    assert_eq!(since(&kept, HOUR, first), [Since::Same; 2]);
    kept.part("m1", "m1p1", "written over", THEN);
    assert_eq!(since(&kept, HOUR, first), [Since::Changed; 2]);
}

#[test]
fn without_an_index_a_quick_look_is_a_close_one() {
    let kept = Kept::large().with_two();
    kept.db
        .execute_batch("DROP INDEX part_session_idx")
        .unwrap();
    let first = mark(&*kept.opened(HOUR));
    assert_eq!(since(&kept, HOUR, first), [Since::Same; 2]);
    kept.part("m1", "m1p1", "written over", THEN);
    assert_eq!(since(&kept, HOUR, first), [Since::Changed; 2]);
    // One that leaves rows out is none.
    let some = "CREATE INDEX some ON part (session_id) WHERE id > 'm1p1'";
    kept.db.execute_batch(some).unwrap();
    let second = mark(&*kept.opened(HOUR));
    kept.part("m1", "m1p1", "written over once more", THEN);
    assert_eq!(since(&kept, HOUR, second), [Since::Changed; 2]);
}

/// What an index knows of the session: its messages and their states.
#[derive(Default)]
struct Held {
    messages: BTreeMap<Box<str>, (Message, u64)>,
    whole: bool,
}

impl Held {
    /// Reads what has changed; the ids of the messages that were read.
    fn follow(&mut self, source: &dyn Source) -> Vec<String> {
        let states = self.messages.iter().filter(|_| self.whole);
        let known: HashMap<&str, u64> = states.map(|(id, (_, state))| (&**id, *state)).collect();
        let read: ReadMessages = source.read_since("s1", &known).unwrap();
        let mut before = std::mem::take(&mut self.messages);
        for id in read.same {
            let same = before.remove(&id).unwrap();
            self.messages.insert(id, same);
        }
        let messages = read.messages.unwrap();
        let ids = messages.iter().map(|message| message.id.to_string());
        let ids = ids.collect();
        for message in messages {
            // A source that reads the session as a whole knows of no states.
            let state = read.states.get(&message.id).copied().unwrap_or(0);
            self.messages.insert(message.id.clone(), (message, state));
        }
        self.whole = read.whole && self.messages.values().all(|(_, state)| *state != 0);
        assert_eq!(read.mark.unwrap(), mark(source));
        ids
    }

    /// Whether it is what the source says.
    fn is(&self, source: &dyn Source) -> bool {
        let conversation = source.conversation("s1").unwrap();
        let mut messages = conversation.messages;
        messages.sort_by(|a, b| a.id.cmp(&b.id));
        self.messages
            .values()
            .map(|(message, _)| message)
            .eq(&messages)
    }
}

#[test]
fn only_the_messages_that_have_changed_are_read() {
    let kept = Kept::large().with_two();
    let ids: Vec<String> = (10..40).map(|at| format!("m{at}")).collect();
    for id in &ids {
        kept.message(id, THEN);
        kept.part(id, &format!("{id}p1"), "a", THEN);
    }
    let source = kept.opened(HOUR);
    let mut held = Held::default();
    let mut follow = |expected: &[&str]| {
        let mut read = held.follow(&*source);
        read.sort();
        assert_eq!(read, expected);
        assert!(held.is(&*source) && held.whole, "{expected:?}");
    };
    let mut all: Vec<&str> = ids.iter().map(String::as_str).collect();
    all.extend(["m1", "m2"]);
    all.sort_unstable();
    follow(&all);
    follow(&[]);
    kept.message("m3", THEN + 3);
    follow(&["m3"]);
    kept.part("m1", "m1p1", "written over", THEN);
    follow(&["m1"]);
    kept.part("m2", "m2p3", "one more", THEN);
    kept.message("m3", THEN + 333_333);
    follow(&["m2", "m3"]);
    kept.remove("part", "m2p1");
    kept.remove("message", "m1");
    follow(&["m2"]);
    kept.session("s1", "another title");
    follow(&[]);
    // Of so many that it takes less, all is read.
    ids.iter().for_each(|id| kept.message(id, THEN + 1));
    all.retain(|id| *id != "m1");
    all.push("m3");
    all.sort_unstable();
    follow(&all);
}

#[test]
fn what_is_torn_costs_a_look_at_everything_until_it_is_whole() {
    let kept = Kept::large().with_two();
    let source = kept.opened(HOUR);
    let read = |known: &HashMap<&str, u64>| source.read_since("s1", known).unwrap();
    let first = read(&HashMap::new());
    assert!(first.whole);
    kept.raw("m2", "m2p2", "{\"type", THEN);
    assert!(!read(&HashMap::new()).whole);
    kept.raw("m2", "m2p2", r#"{"type":"text","text":"whole"}"#, THEN);
    assert!(read(&HashMap::new()).whole);
    kept.run("DELETE FROM session", []);
    let gone = source.read_since("s1", &HashMap::new());
    assert!(matches!(gone, Err(ReadError::Gone)));
}

#[test]
fn genuine_sessions_are_followed_message_by_message() {
    let dir = database_of("opencode-sqlite");
    let sources = opencode::open(dir.path()).unwrap();
    let (mut followed, mut as_a_whole) = (0, 0);
    for generation in ["sqlite", "session_message"] {
        let source = of(&sources, generation);
        for header in &source.list().unwrap().headers {
            let all = source.read_since(&header.id, &HashMap::new()).unwrap();
            let conversation = source.conversation(&header.id).unwrap();
            assert_eq!(all.messages, Some(conversation.messages), "{}", header.id);
            assert_eq!(all.whole, conversation.skipped.is_empty());
            assert_eq!(all.mark, source.lasting(&header.id).unwrap());
            let known: HashMap<&str, u64> = all.states.iter().map(|(id, s)| (&**id, *s)).collect();
            if known.is_empty() {
                as_a_whole += 1;
                continue;
            }
            followed += 1;
            assert!(known.values().all(|state| *state != 0));
            let again = source.read_since(&header.id, &known).unwrap();
            let read = again.messages.unwrap().len();
            assert!(again.mark == all.mark && read + again.same.len() == known.len());
            assert!(read == 0 || known.len() < 8, "{}", header.id);
        }
    }
    assert!(followed > 3 && as_a_whole > 0, "{followed} {as_a_whole}");
}

#[derive(Debug, Clone)]
enum Change {
    Message(u8),
    Part(u8, u8),
    RemovePart(u8, u8),
    RemoveMessage(u8),
    Title,
    Fold,
    Follow,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (0u8..12).prop_map(Change::Message),
        5 => (0u8..12, 0u8..3).prop_map(|(m, p)| Change::Part(m, p)),
        2 => (0u8..12, 0u8..3).prop_map(|(m, p)| Change::RemovePart(m, p)),
        1 => (0u8..12).prop_map(Change::RemoveMessage),
        1 => Just(Change::Title),
        1 => Just(Change::Fold),
        4 => Just(Change::Follow),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// Whatever is written: what was read bit by bit is what is read at once, and a close look tells whenever it is not; a
    /// quick one does of what comes and goes.
    #[test]
    fn what_is_followed_is_what_is_there(
        large in any::<bool>(),
        changes in proptest::collection::vec(change(), 1..40),
    ) {
        let kept = if large { Kept::large() } else { Kept::new(SCHEMA) };
        let kept = kept.with_two();
        (0..12).for_each(|m| kept.message(&format!("m{m}"), THEN));
        let source = kept.opened(HOUR);
        let (mut held, mut last, mut written_over) = (Held::default(), None, false);
        for (count, change) in (1i64..).zip(changes) {
            match change {
                Change::Message(m) => {
                    written_over = true;
                    kept.message(&format!("m{m}"), THEN + count);
                }
                Change::Part(m, p) => {
                    written_over = true;
                    let text = "x".repeat(usize::try_from(count).unwrap());
                    kept.part(&format!("m{m}"), &format!("m{m}p{p}"), &text, THEN + count);
                }
                Change::RemovePart(m, p) => kept.remove("part", &format!("m{m}p{p}")),
                Change::RemoveMessage(m) => kept.remove("message", &format!("m{m}")),
                Change::Title => kept.session("s1", &format!("title {count}")),
                Change::Fold => drop(kept.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))),
                Change::Follow => {
                    held.follow(&*source);
                    prop_assert!(held.is(&*source));
                    (last, written_over) = (Some(mark(&*source)), false);
                }
            }
            if let Some(last) = last {
                let [quick, close] = since(&kept, HOUR, last);
                prop_assert!(close != Since::Same || held.is(&*source));
                let overlooked = large && written_over;
                prop_assert!(quick != Since::Same || overlooked || held.is(&*source));
            }
        }
        held.follow(&*source);
        prop_assert!(held.is(&*source));
    }
}
