//! An index and a full scan rank the session first that the user most likely searches for.

use std::sync::Arc;

use filrouge_search::feed::Indexes;
use filrouge_search::{Order, SearchRequest, Searcher};
use filrouge_sources::library::samples::{self, MemorySource};
use filrouge_sources::{Library, Message, PartKind, Role, Source};
use filrouge_sqlite::text_index::SqliteIndex;

const DAY: i64 = 86_400_000;
const NOW: i64 = 1_800_000_000_000;

/// Sessions: id, title, age in days, messages.
type Sessions<'a> = Vec<(&'a str, &'a str, i64, Vec<Message>)>;

/// A message of one text.
fn text(role: Role, content: &str) -> Message {
    let id = format!("{content:.20}");
    samples::message(&id, role, vec![samples::text("p", content)])
}

/// A message with one tool call, which has this output.
fn tool_output_message(output: &str) -> Message {
    let tool = samples::part("p", PartKind::Tool(Box::new(samples::tool(Some(output)))));
    samples::message(&format!("of {output:.20}"), Role::Assistant, vec![tool])
}

/// The ids of the hits in order. Asserts that a scan and an index give the same order.
fn ranked_ids(sessions: Sessions<'_>, query: &str, order: Order) -> Vec<String> {
    let found = hits(sessions, query, order).into_iter();
    found.map(|(id, _)| id).collect()
}

/// The ids of the hits in order, with the texts of their excerpts. Asserts that a scan and an index give the same.
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
        .open_or_create(0)
        .unwrap()
        .unwrap()
        .update(&mut |_| {}, &|| false)
        .unwrap();
    let scanning = Searcher::new(Library::new(sources, 1 << 20));
    let request = SearchRequest {
        query: query.to_owned(),
        now: Some(NOW),
        order,
        ..SearchRequest::default()
    };
    let search = |searcher: &Searcher| {
        let found = searcher.search(&request, &|| false).unwrap();
        let by_index = found.as_of.is_some();
        let hits = found.sessions.into_iter().map(|hit| {
            let texts = hit.excerpts.into_iter().map(|one| one.text);
            (hit.session.id, texts.collect())
        });
        (hits.collect::<Vec<(String, Vec<String>)>>(), by_index)
    };
    let (scanned, by_index) = search(&scanning);
    assert!(!by_index, "the scan used an index");
    assert_eq!(
        (scanned.clone(), true),
        search(&scanning.with_indexes(indexes))
    );
    scanned
}

#[test]
fn titles_rank_above_messages() {
    let sessions = vec![
        (
            "in-message",
            "Something",
            0,
            vec![text(Role::User, "the quince tart")],
        ),
        (
            "in-title",
            "A quince",
            0,
            vec![text(Role::User, "nothing here")],
        ),
    ];
    assert_eq!(
        ranked_ids(sessions, "quince", Order::Best),
        ["in-title", "in-message"]
    );
}

#[test]
fn messages_rank_above_tool_output() {
    let outputs = (0..30)
        .map(|n| tool_output_message(&format!("{n} quince in a list")))
        .collect();
    let sessions = vec![
        ("in-tool-output", "x", 0, outputs),
        ("in-answer", "x", 0, vec![text(Role::Assistant, "a quince")]),
        ("in-question", "x", 0, vec![text(Role::User, "a quince")]),
    ];
    assert_eq!(
        ranked_ids(sessions, "quince", Order::Best),
        ["in-question", "in-answer", "in-tool-output"]
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
        ("reversed", "x", 1, vec![text(Role::User, "a tart quince")]),
        ("adjacent", "x", 2, vec![text(Role::User, "a Quince tart")]),
    ];
    assert_eq!(
        ranked_ids(sessions, "quince tart", Order::Best),
        ["adjacent", "scattered", "reversed"]
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
        (
            "hyphenated",
            "x",
            2,
            vec![text(Role::User, "run cat-file now")],
        ),
    ];
    assert_eq!(
        ranked_ids(sessions, "cat", Order::Best),
        ["hyphenated", "whole", "part"]
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
        ranked_ids(sessions(), "quince", Order::Best),
        ["new", "old", "newest"]
    );
    assert_eq!(
        ranked_ids(sessions(), "quince", Order::Newest),
        ["newest", "new", "old"]
    );
}

#[test]
fn all_words_in_a_message_rank_above_one_word_in_tool_output() {
    // A session ranks by the least significant text that is needed to contain all words.
    let mixed = |id: &str, output: &str| {
        let tool = samples::part("t", PartKind::Tool(Box::new(samples::tool(Some(output)))));
        samples::message(
            id,
            Role::User,
            vec![samples::text("p", "why does quince"), tool],
        )
    };
    let sessions = vec![
        ("in-tool-output", "x", 0, vec![mixed("m", "a marmalade")]),
        (
            "in-message",
            "x",
            5,
            vec![text(Role::User, "marmalade of, say, quince")],
        ),
    ];
    assert_eq!(
        ranked_ids(sessions, "quince marmalade", Order::Best),
        ["in-message", "in-tool-output"]
    );
}

#[test]
fn excerpts_are_ordered_by_time() {
    // A history may store its messages in another order. The first five by time are shown.
    let messages = (0..8).map(|n| {
        let mut message = text(Role::User, &format!("{n} quinces"));
        message.created = [5, 2, 7, 1, 8, 3, 6, 4][n];
        message
    });
    let sessions = vec![("a", "Many quinces", 0, messages.collect())];
    let found = hits(sessions, "quinces", Order::Best);
    let texts = ["Many", "3", "1", "5", "7"].map(|before| format!("{before} «quinces»"));
    assert_eq!(found, [("a".to_owned(), texts.to_vec())]);
}
