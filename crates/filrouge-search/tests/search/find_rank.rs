//! The session that the user most likely searches for is ranked first, by an index and by a full scan.

use std::sync::Arc;

use filrouge_search::feed::Indexes;
use filrouge_search::{Ask, Order, Searcher};
use filrouge_sources::library::samples::{self, MemorySource};
use filrouge_sources::{Library, Message, PartKind, Role, Source};
use filrouge_sqlite::text_index::SqliteIndex;

const DAY: i64 = 86_400_000;
const NOW: i64 = 1_800_000_000_000;

/// Sessions: id, title, age in days, messages.
type Sessions<'a> = Vec<(&'a str, &'a str, i64, Vec<Message>)>;

fn text(role: Role, said: &str) -> Message {
    let id = format!("{said:.20}");
    samples::message(&id, role, vec![samples::text("p", said)])
}

fn tool_output_message(output: &str) -> Message {
    let tool = samples::part("p", PartKind::Tool(Box::new(samples::tool(Some(output)))));
    samples::message(&format!("of {output:.20}"), Role::Assistant, vec![tool])
}

/// The ids of the sessions found, in order; asserts that a scan and an index give the same order.
fn order(sessions: Sessions<'_>, query: &str, order: Order) -> Vec<String> {
    let found = hits(sessions, query, order).into_iter();
    found.map(|(id, _)| id).collect()
}

/// Sessions with the texts of their excerpts, in the order found; asserts that a scan and an index give the same.
fn hits(sessions: Sessions<'_>, query: &str, order: Order) -> Vec<(String, Vec<String>)> {
    let source = MemorySource::default();
    for (id, title, age, messages) in sessions {
        let mut header = samples::header(id, NOW - age * DAY);
        header.title = Some(title.into());
        source.put(header, samples::conversation(messages));
    }
    let sources: Vec<Arc<dyn Source>> = vec![Arc::new(source)];
    let dir = tempfile::tempdir().unwrap();
    let open = |file: &std::path::Path| Ok(Arc::new(SqliteIndex::open(file)?) as _);
    let indexes = Arc::new(Indexes::new(&sources, dir.path(), true, Box::new(open)));
    indexes
        .make(0)
        .unwrap()
        .unwrap()
        .update(&mut |_| {}, &|| false)
        .unwrap();
    let scanning = Searcher::new(Library::new(sources, 1 << 20));
    let ask = Ask {
        query: query.to_owned(),
        now: Some(NOW),
        order,
        ..Ask::default()
    };
    let found = |searcher: &Searcher| {
        let found = searcher.search(&ask, &|| false).unwrap();
        let by_index = found.as_of.is_some();
        let hits = found.sessions.into_iter().map(|hit| {
            let texts = hit.excerpts.into_iter().map(|one| one.text);
            (hit.session.id, texts.collect())
        });
        (hits.collect::<Vec<(String, Vec<String>)>>(), by_index)
    };
    let (scanned, by_index) = found(&scanning);
    assert!(!by_index);
    assert_eq!(
        (scanned.clone(), true),
        found(&scanning.with_indexes(indexes))
    );
    scanned
}

#[test]
fn titles_rank_above_messages() {
    let sessions = vec![
        (
            "said",
            "Something",
            0,
            vec![text(Role::User, "the quince tart")],
        ),
        (
            "titled",
            "A quince",
            0,
            vec![text(Role::User, "nothing here")],
        ),
    ];
    assert_eq!(order(sessions, "quince", Order::Best), ["titled", "said"]);
}

#[test]
fn text_that_was_said_ranks_above_tool_output() {
    let many = (0..30)
        .map(|n| tool_output_message(&format!("{n} quince in a list")))
        .collect();
    let sessions = vec![
        ("printed", "x", 0, many),
        ("answered", "x", 0, vec![text(Role::Assistant, "a quince")]),
        ("asked", "x", 0, vec![text(Role::User, "a quince")]),
    ];
    assert_eq!(
        order(sessions, "quince", Order::Best),
        ["asked", "answered", "printed"]
    );
}

#[test]
fn adjacent_words_rank_above_scattered_ones() {
    let sessions = vec![
        (
            "scattered",
            "x",
            0,
            vec![text(Role::User, "tart or sweet, a pear or a quince")],
        ),
        ("turned", "x", 1, vec![text(Role::User, "a tart quince")]),
        ("together", "x", 2, vec![text(Role::User, "a Quince tart")]),
    ];
    assert_eq!(
        order(sessions, "quince tart", Order::Best),
        ["together", "scattered", "turned"]
    );
}

#[test]
fn whole_words_rank_above_parts_of_words() {
    let sessions = vec![
        (
            "part",
            "x",
            0,
            vec![text(Role::User, "concatenated strings")],
        ),
        ("whole", "x", 3, vec![text(Role::User, "the cat sat")]),
        ("name", "x", 2, vec![text(Role::User, "run cat-file now")]),
    ];
    assert_eq!(
        order(sessions, "cat", Order::Best),
        ["name", "whole", "part"]
    );
}

#[test]
fn recent_sessions_rank_above_old_ones() {
    let sessions = || {
        vec![
            ("old", "x", 400, vec![text(Role::User, "a quince")]),
            ("new", "x", 1, vec![text(Role::User, "a quince")]),
            ("newest", "x", 0, vec![tool_output_message("a quince")]),
        ]
    };
    assert_eq!(
        order(sessions(), "quince", Order::Best),
        ["new", "old", "newest"]
    );
    assert_eq!(
        order(sessions(), "quince", Order::Newest),
        ["newest", "new", "old"]
    );
}

#[test]
fn all_words_in_messages_rank_above_one_in_tool_output() {
    // The least significant text that is needed to cover all words counts.
    let mixed = |id: &str, output: &str| {
        let tool = samples::part("t", PartKind::Tool(Box::new(samples::tool(Some(output)))));
        samples::message(
            id,
            Role::User,
            vec![samples::text("p", "why does quince"), tool],
        )
    };
    let sessions = vec![
        ("printed", "x", 0, vec![mixed("m", "a marmalade")]),
        (
            "said",
            "x",
            5,
            vec![text(Role::User, "marmalade of, say, quince")],
        ),
    ];
    assert_eq!(
        order(sessions, "quince marmalade", Order::Best),
        ["said", "printed"]
    );
}

#[test]
fn excerpts_are_ordered_by_time() {
    // A history may store its messages in another order than by time; the first five by time are shown.
    let said = (0..8).map(|n| {
        let mut message = text(Role::User, &format!("{n} quinces"));
        message.created = [5, 2, 7, 1, 8, 3, 6, 4][n];
        message
    });
    let sessions = vec![("a", "Many quinces", 0, said.collect())];
    let found = hits(sessions, "quinces", Order::Best);
    let texts = ["Many", "3", "1", "5", "7"].map(|before| format!("{before} «quinces»"));
    assert_eq!(found, [("a".to_owned(), texts.to_vec())]);
}
