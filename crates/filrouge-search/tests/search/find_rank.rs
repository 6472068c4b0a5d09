//! The session that was meant comes first, by an index and by looking through everything.

use std::sync::Arc;

use filrouge_search::feed::Indexes;
use filrouge_search::{Ask, Order, Searcher};
use filrouge_sources::library::made::{self, Made};
use filrouge_sources::{Library, Message, PartKind, Role, Source};
use filrouge_sqlite::text_index::SqliteIndex;

const DAY: i64 = 86_400_000;
const NOW: i64 = 1_800_000_000_000;

/// Sessions with what was said in each, by name, title and age in days.
type Told<'a> = Vec<(&'a str, &'a str, i64, Vec<Message>)>;

fn text(role: Role, said: &str) -> Message {
    let id = format!("{said:.20}");
    made::message(&id, role, vec![made::text("p", said)])
}

fn printed(output: &str) -> Message {
    let tool = made::part("p", PartKind::Tool(Box::new(made::tool(Some(output)))));
    made::message(&format!("of {output:.20}"), Role::Assistant, vec![tool])
}

/// The order in which sessions are found, by looking through them and by an index.
fn order(told: Told<'_>, query: &str, order: Order) -> Vec<String> {
    let found = hits(told, query, order).into_iter();
    found.map(|(id, _)| id).collect()
}

/// Sessions with the texts of their excerpts, in the order in which they are found in both ways.
fn hits(told: Told<'_>, query: &str, order: Order) -> Vec<(String, Vec<String>)> {
    let made = Made::default();
    for (id, title, age, messages) in told {
        let mut header = made::header(id, NOW - age * DAY);
        header.title = Some(title.into());
        made.put(header, made::conversation(messages));
    }
    let sources: Vec<Arc<dyn Source>> = vec![Arc::new(made)];
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
fn find_the_title_before_the_text() {
    let told = vec![
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
    assert_eq!(order(told, "quince", Order::Best), ["titled", "said"]);
}

#[test]
fn find_what_was_said_before_what_was_printed() {
    let many = (0..30)
        .map(|n| printed(&format!("{n} quince in a list")))
        .collect();
    let told = vec![
        ("printed", "x", 0, many),
        ("answered", "x", 0, vec![text(Role::Assistant, "a quince")]),
        ("asked", "x", 0, vec![text(Role::User, "a quince")]),
    ];
    assert_eq!(
        order(told, "quince", Order::Best),
        ["asked", "answered", "printed"]
    );
}

#[test]
fn find_words_side_by_side_before_scattered_ones() {
    let told = vec![
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
        order(told, "quince tart", Order::Best),
        ["together", "scattered", "turned"]
    );
}

#[test]
fn find_whole_words_before_parts_of_words() {
    let told = vec![
        (
            "part",
            "x",
            0,
            vec![text(Role::User, "concatenated strings")],
        ),
        ("whole", "x", 3, vec![text(Role::User, "the cat sat")]),
        ("name", "x", 2, vec![text(Role::User, "run cat-file now")]),
    ];
    assert_eq!(order(told, "cat", Order::Best), ["name", "whole", "part"]);
}

#[test]
fn find_the_new_before_the_old() {
    let told = || {
        vec![
            ("old", "x", 400, vec![text(Role::User, "a quince")]),
            ("new", "x", 1, vec![text(Role::User, "a quince")]),
            ("newest", "x", 0, vec![printed("a quince")]),
        ]
    };
    assert_eq!(
        order(told(), "quince", Order::Best),
        ["new", "old", "newest"]
    );
    assert_eq!(
        order(told(), "quince", Order::Newest),
        ["newest", "new", "old"]
    );
}

#[test]
fn find_all_words_where_they_were_said_before_where_one_was_printed() {
    // The least telling of the places without which not all words are there counts.
    let mixed = |id: &str, output: &str| {
        let tool = made::part("t", PartKind::Tool(Box::new(made::tool(Some(output)))));
        made::message(
            id,
            Role::User,
            vec![made::text("p", "why does quince"), tool],
        )
    };
    let told = vec![
        ("printed", "x", 0, vec![mixed("m", "a marmalade")]),
        (
            "said",
            "x",
            5,
            vec![text(Role::User, "marmalade of, say, quince")],
        ),
    ];
    assert_eq!(
        order(told, "quince marmalade", Order::Best),
        ["said", "printed"]
    );
}

#[test]
fn find_in_the_order_in_which_it_was_said() {
    // A history need not keep its messages in that order; the first five are shown.
    let said = (0..8).map(|n| {
        let mut message = text(Role::User, &format!("{n} quinces"));
        message.created = [5, 2, 7, 1, 8, 3, 6, 4][n];
        message
    });
    let told = vec![("a", "Many quinces", 0, said.collect())];
    let found = hits(told, "quinces", Order::Best);
    let texts = ["Many", "3", "1", "5", "7"].map(|before| format!("{before} «quinces»"));
    assert_eq!(found, [("a".to_owned(), texts.to_vec())]);
}
