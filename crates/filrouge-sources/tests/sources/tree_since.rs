//! What an index asks of a tree: what has changed since it was read, and no more than that.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use filrouge_sources::{
    Look, Message, Overlooks, ReadError, ReadMessages, Since, Source, Stamp, opencode,
};
use filrouge_types::{Clock, FixedClock, SystemClock, Timestamp};
use proptest::prelude::*;

use crate::live_tree::{Later, age};
use crate::{Made, copy_of, put};

const HOUR: i64 = 60 * 60 * 1000;

/// The tree as a process sees it whose clock goes so much ahead.
fn opened(root: &Path, ahead: i64) -> Arc<dyn Source> {
    let mut sources = opencode::open_at(root, Arc::new(Later::by(ahead))).unwrap();
    assert_eq!(sources.len(), 1);
    sources.remove(0)
}

fn mark(source: &dyn Source) -> Stamp {
    source.lasting("s1").unwrap().unwrap()
}

fn since(source: &dyn Source, mark: Stamp) -> [Since; 2] {
    [Look::Quick, Look::Close].map(|look| source.since(&[("s1", mark)], look).unwrap()[0])
}

fn said(made: &Made, message: &str, part: &str, text: &str) {
    made.part(message, part, &format!(r#""type":"text","text":"{text}""#));
}

/// Two messages with two parts each.
fn made() -> Made {
    let made = Made::new();
    for message in ["m1", "m2"] {
        made.user(message, 1);
        said(&made, message, &format!("{message}p1"), "a");
        said(&made, message, &format!("{message}p2"), "b");
    }
    made
}

#[test]
fn a_quick_look_sees_what_is_at_work_and_a_close_one_everything() {
    let made = made();
    // It was written to this minute: each file is looked at.
    let at_work = opened(made.path(), 1_000);
    assert_eq!(at_work.overlooks(), Overlooks::BySession);
    let first = mark(&*at_work);
    assert_eq!(since(&*at_work, first), [Since::Same; 2]);
    said(&made, "m1", "m1p1", "in place");
    assert_eq!(since(&*at_work, first), [Since::Changed; 2]);
    // An hour later.
    let quiet = opened(made.path(), HOUR);
    let second = mark(&*at_work);
    let Since::SameAs(third) = since(&*quiet, second)[0] else {
        panic!("it is quiet now");
    };
    assert_eq!(since(&*quiet, third), [Since::Same; 2]);
    said(&made, "m1", "m1p1", "in place, again");
    assert_eq!(since(&*quiet, third), [Since::Same, Since::Changed]);
    // A new message and another title are seen by both.
    let fourth = mark(&*quiet);
    made.user("m3", 3);
    assert_eq!(since(&*quiet, fourth), [Since::Changed; 2]);
    let fifth = mark(&*quiet);
    made.session("p1", "s1", 20_000);
    assert_eq!(since(&*quiet, fifth), [Since::Changed; 2]);
    let sixth = mark(&*quiet);
    fs::remove_file(made.path().join("storage/part/m1/m1p2.json")).unwrap();
    assert_eq!(since(&*quiet, sixth), [Since::Same, Since::Changed]);
    let unknown = quiet.since(&[("s9", sixth)], Look::Quick).unwrap();
    assert_eq!(unknown, [Since::Changed]);
}

#[test]
fn of_many_sessions_at_work_a_quick_look_sees_those_last_written_to() {
    let made = Made::new();
    let root = made.path();
    let ids: Vec<String> = (0..40).map(|at| format!("t{at:02}")).collect();
    let text = |id: &str, text: &str| {
        let part = format!(r#"{{"type":"text","text":"{text}"}}"#);
        put(root, &format!("storage/part/m{id}/p{id}.json"), &part);
    };
    for (at, id) in (0u64..).zip(&ids) {
        made.session("p1", id, 1);
        let message = r#"{"role":"user","time":{"created":1}}"#;
        put(root, &format!("storage/message/{id}/m{id}.json"), message);
        text(id, "a");
        // The last ones were written to first.
        age(&root.join(format!("storage/session/p1/{id}.json")), at / 4);
        age(&root.join(format!("storage/message/{id}")), at / 4);
    }
    let source = opened(root, 1_000);
    source.list().unwrap();
    let marks: Vec<Stamp> = ids
        .iter()
        .map(|id| source.lasting(id).unwrap().unwrap())
        .collect();
    let known: Vec<(&str, Stamp)> = ids.iter().map(|id| &**id).zip(marks).collect();
    ids.iter().for_each(|id| text(id, "in place"));
    let changed = |look| {
        let since = source.since(&known, look).unwrap().into_iter();
        let changed = since
            .enumerate()
            .filter(|(_, since)| *since == Since::Changed);
        changed.map(|(at, _)| at).collect::<Vec<_>>()
    };
    assert_eq!(changed(Look::Quick), (0..16).collect::<Vec<_>>());
    assert_eq!(changed(Look::Close), (0..40).collect::<Vec<_>>());
}

/// A clock by which a second goes by whenever it is asked, once that is wished.
#[derive(Default)]
struct Hurried(AtomicBool, AtomicI64);

impl Clock for Hurried {
    fn now(&self) -> Timestamp {
        let ahead = match self.0.load(Ordering::SeqCst) {
            true => self.1.fetch_add(1_000, Ordering::SeqCst),
            false => 0,
        };
        let millis = SystemClock.now().as_millis() + ahead;
        Timestamp::from_millis(millis).unwrap()
    }
}

#[test]
fn what_settles_while_it_is_read_has_a_mark_that_lasts() {
    let made = made();
    let clock = Arc::new(Hurried::default());
    let source = opencode::open_at(made.path(), clock.clone())
        .unwrap()
        .remove(0);
    source.list().unwrap();
    said(&made, "m1", "m1p1", "in place");
    clock.0.store(true, Ordering::SeqCst);
    let read = source.read_since("s1", &HashMap::new()).unwrap();
    assert_eq!(read.mark, Some(mark(&*source)));
}

#[test]
fn what_is_written_in_place_in_a_quiet_session_is_seen_in_time() {
    let made = Made::new();
    made.user("m1", 1);
    made.part("m1", "p1", r#""type":"text","text":"a""#);
    let clock = Arc::new(Later::by(60 * 60 * 1000));
    let source = opencode::open_at(made.path(), clock.clone()).unwrap();
    let source = source[0].as_ref();
    let stamp = || source.stamp("s1").unwrap().unwrap();
    let quiet = stamp();
    clock.pass(5 * 60 * 1000);
    assert_eq!(stamp(), quiet);
    made.part("m1", "p1", r#""type":"text","text":"in place""#);
    clock.pass(5 * 60 * 1000 - 1_000);
    assert_eq!(stamp(), quiet);
    clock.pass(1_000);
    let later = stamp();
    assert_ne!(later, quiet);
    assert_eq!(stamp(), later);
    // Whoever looks closely tells the others.
    let mark = source.lasting("s1").unwrap().unwrap();
    made.part("m1", "p1", r#""type":"text","text":"in place, again""#);
    assert_eq!(stamp(), later);
    let since = source.since(&[("s1", mark)], Look::Close).unwrap();
    assert_eq!(since, [Since::Changed]);
    assert!(![quiet, later].contains(&stamp()));
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
        let (mut before, messages) = (std::mem::take(&mut self.messages), read.messages.unwrap());
        for id in read.same {
            let same = before.remove(&id).unwrap();
            self.messages.insert(id, same);
        }
        let ids = messages.iter().map(|message| message.id.to_string());
        let ids = ids.collect();
        for message in messages {
            let state = read.states[&message.id];
            assert_ne!(state, 0);
            self.messages.insert(message.id.clone(), (message, state));
        }
        self.whole = read.whole;
        assert_eq!(read.mark.unwrap(), mark(source));
        ids
    }

    /// Whether it is what the source says.
    fn is(&self, source: &dyn Source) -> bool {
        let conversation = source.conversation("s1").unwrap();
        let mut messages = conversation.messages;
        messages.sort_by(|a, b| a.id.cmp(&b.id));
        let own = self.messages.values().map(|(message, _)| message);
        own.eq(&messages) && self.whole == conversation.skipped.is_empty()
    }
}

#[test]
fn only_the_messages_that_have_changed_are_read() {
    let made = made();
    let source = opened(made.path(), HOUR);
    let mut held = Held::default();
    let mut follow = |expected: &[&str], whole: bool| {
        assert_eq!(held.follow(&*source), expected);
        assert!(held.is(&*source) && held.whole == whole, "{expected:?}");
    };
    follow(&["m1", "m2"], true);
    follow(&[], true);
    made.user("m3", 3);
    follow(&["m3"], true);
    said(&made, "m1", "m1p1", "in place");
    follow(&["m1"], true);
    said(&made, "m2", "m2p3", "one more");
    made.user("m3", 333_333);
    follow(&["m2", "m3"], true);
    fs::remove_file(made.path().join("storage/part/m2/m2p1.json")).unwrap();
    fs::remove_file(made.path().join("storage/message/s1/m1.json")).unwrap();
    follow(&["m2"], true);
    made.session("p1", "s1", 20_000);
    follow(&[], true);
    // What is torn costs a look at everything until it is whole.
    let torn = "storage/part/m3/p.json";
    put(made.path(), torn, "{\"type");
    follow(&["m3"], false);
    follow(&["m2", "m3"], false);
    put(made.path(), torn, r#"{"type":"text","text":"whole"}"#);
    follow(&["m2", "m3"], true);
    follow(&[], true);
    // Of a part in two messages one is read: all messages decide which.
    said(&made, "m2", "p", "twice");
    follow(&["m2", "m3"], false);
    fs::remove_file(made.path().join(torn)).unwrap();
    follow(&["m2", "m3"], true);
}

#[test]
fn a_session_that_cannot_be_read_has_a_mark_all_the_same() {
    let made = made();
    let source = opened(made.path(), HOUR);
    source.list().unwrap();
    put(made.path(), "storage/session/p1/s1.json", "{\"id\"");
    let read = source.read_since("s1", &HashMap::new()).unwrap();
    assert!(read.messages.is_none() && !read.whole);
    assert_eq!(since(&*source, read.mark.unwrap()), [Since::Same; 2]);
    fs::remove_file(made.path().join("storage/session/p1/s1.json")).unwrap();
    let gone = source.read_since("s1", &HashMap::new());
    assert!(matches!(gone, Err(ReadError::Gone)));
    let without = Made::new();
    let source = opened(without.path(), HOUR);
    let read = source.read_since("s1", &HashMap::new()).unwrap();
    assert!(read.whole && read.messages.unwrap().is_empty());
}

#[test]
fn a_file_that_may_still_be_written_without_a_trace_is_read_again() {
    let made = made();
    let changed = fs::metadata(made.path().join("storage/part/m2/m2p2.json")).unwrap();
    let millis = std::os::unix::fs::MetadataExt::ctime(&changed) * 1000
        + std::os::unix::fs::MetadataExt::ctime_nsec(&changed) / 1_000_000;
    let clock = FixedClock::at(millis * 1_000);
    let mut sources = opencode::open_at(made.path(), Arc::new(clock)).unwrap();
    let just_now = sources.remove(0);
    let mut held = Held::default();
    held.follow(&*just_now);
    assert!(held.is(&*just_now));
    assert!(held.follow(&*just_now).is_empty());
    let young = mark(&*just_now);
    let later = opened(made.path(), 10_000);
    assert_eq!(since(&*later, young)[1], Since::Changed);
    assert!(held.follow(&*later).contains(&"m2".to_owned()));
    let settled = mark(&*later);
    assert_eq!(since(&*later, settled), [Since::Same; 2]);
    assert!(held.follow(&*later).is_empty());
}

#[test]
fn genuine_sessions_are_followed_message_by_message() {
    for name in ["opencode-json-whole", "opencode-json-legacy-whole"] {
        let dir = copy_of(name);
        let source = opened(dir.path(), HOUR);
        for header in &source.list().unwrap().headers {
            let all = source.read_since(&header.id, &HashMap::new()).unwrap();
            let conversation = source.conversation(&header.id).unwrap();
            assert_eq!(
                all.messages,
                Some(conversation.messages),
                "{name} {}",
                header.id
            );
            assert_eq!(all.whole, conversation.skipped.is_empty());
            let known: HashMap<&str, u64> = all.states.iter().map(|(id, s)| (&**id, *s)).collect();
            let again = source.read_since(&header.id, &known).unwrap();
            assert_eq!(again.messages, Some(Vec::new()), "{name} {}", header.id);
            assert_eq!((again.same.len(), again.mark), (known.len(), all.mark));
        }
    }
}

#[derive(Debug, Clone)]
enum Change {
    Message(u8),
    Part(u8, u8),
    Torn(u8, u8),
    Shared(u8),
    RemovePart(u8, u8),
    RemoveMessage(u8),
    Title,
    Follow,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (0u8..4).prop_map(Change::Message),
        5 => (0u8..4, 0u8..3).prop_map(|(m, p)| Change::Part(m, p)),
        1 => (0u8..4, 0u8..3).prop_map(|(m, p)| Change::Torn(m, p)),
        1 => (0u8..4).prop_map(Change::Shared),
        2 => (0u8..4, 0u8..3).prop_map(|(m, p)| Change::RemovePart(m, p)),
        1 => (0u8..4).prop_map(Change::RemoveMessage),
        1 => Just(Change::Title),
        4 => Just(Change::Follow),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Whatever is written: what was read bit by bit is what is read at once, and a close look tells whenever it is not.
    #[test]
    fn what_is_followed_is_what_is_there(changes in proptest::collection::vec(change(), 1..24)) {
        let made = Made::new();
        let source = opened(made.path(), HOUR);
        let (mut held, mut last) = (Held::default(), None);
        let storage = made.path().join("storage");
        for (count, change) in changes.into_iter().enumerate() {
            // Of another size each time: a file system whose clock is slow tells by that.
            let at = 10i64.pow(u32::try_from(count % 15).unwrap());
            match change {
                Change::Message(m) => made.user(&format!("m{m}"), at),
                Change::Part(m, p) => {
                    said(&made, &format!("m{m}"), &format!("m{m}p{p}"), &format!("word {at}"));
                }
                Change::Torn(m, p) => put(&storage, &format!("part/m{m}/m{m}p{p}.json"), "{"),
                Change::Shared(m) => said(&made, &format!("m{m}"), "shared", "one of two"),
                Change::RemovePart(m, p) => {
                    let _ = fs::remove_file(storage.join(format!("part/m{m}/m{m}p{p}.json")));
                }
                Change::RemoveMessage(m) => {
                    let _ = fs::remove_file(storage.join(format!("message/s1/m{m}.json")));
                    let _ = fs::remove_file(storage.join(format!("part/m{m}/shared.json")));
                }
                Change::Title => made.session("p1", "s1", at),
                Change::Follow => {
                    held.follow(&*source);
                    prop_assert!(held.is(&*source));
                    last = Some(mark(&*source));
                }
            }
            let same = last.map(|last| since(&*source, last)[1] == Since::Same);
            if same == Some(true) {
                prop_assert!(held.is(&*source));
            }
        }
        held.follow(&*source);
        prop_assert!(held.is(&*source));
    }
}
