//! Pages of what means the like follow each other.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use filrouge_search::{Ask, Hit, Mode, Order};
use filrouge_sources::Role;

use super::find_meaning::{ask, similar, text, world};

#[test]
fn find_the_like_page_by_page() {
    let words = [
        "upload", "uploads", "failed", "retry", "retries", "sea", "walk",
    ];
    let names: Vec<String> = (0..40).map(|n| format!("s{n}")).collect();
    let sessions = names.iter().enumerate().map(|(n, name)| {
        let said = |m: usize| format!("{} {} number {n}", words[(n + m) % 7], words[(n * m) % 7]);
        let messages = (0..4).map(|m| {
            text(
                &format!("m{m}"),
                [Role::User, Role::Assistant][m % 2],
                &said(m),
            )
        });
        (name.as_str(), messages.collect())
    });
    let world = world(sessions.collect());
    let questions = [
        ask("retry upload", Mode::Both),
        ask("retry upload", Mode::Meaning),
        ask("upload", Mode::Both),
        Ask {
            order: Order::Newest,
            ..ask("upload", Mode::Both)
        },
        similar("failed uploads"),
    ];
    for (question, most) in questions.iter().flat_map(|q| [(q, 1_000), (q, 3)]) {
        let searcher = world.searcher.clone().looking_through(most);
        let search = |ask: &Ask| searcher.search(ask, &|| false).unwrap();
        let whole = search(&Ask {
            limit: 500,
            ..question.clone()
        });
        assert!(whole.sessions.len() > 6 && whole.next_cursor.is_none() && whole.exact);
        let matches: usize = whole.sessions.iter().map(|hit| hit.matches).sum();
        assert_eq!(
            (whole.total_sessions, whole.total_matches),
            (whole.sessions.len(), matches)
        );
        let (mut paged, mut ask) = (
            Vec::new(),
            Ask {
                limit: 3,
                ..question.clone()
            },
        );
        loop {
            let page = search(&ask);
            paged.extend(page.sessions);
            ask.cursor = page.next_cursor;
            if ask.cursor.is_none() {
                break;
            }
        }
        let ids = |hits: &[Hit]| {
            hits.iter()
                .map(|hit| hit.session.id.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(&paged), ids(&whole.sessions), "{question:?}");
    }
    // What has begun by meaning does not go on without it, nor the other way round: pages would not follow each other.
    let fails = |it: bool| world.moody.0.store(it, Ordering::Relaxed);
    let mut ask = Ask {
        limit: 3,
        ..ask("retry upload", Mode::Both)
    };
    ask.cursor = world.search(&ask).next_cursor;
    fails(true);
    let why = world.searcher.search(&ask, &|| false).unwrap_err();
    assert_eq!(why.code(), "overloaded");
    fails(false);
    let second: BTreeSet<String> = world.ids(&ask).into_iter().collect();
    ask.cursor = None;
    assert!(world.ids(&ask).iter().all(|id| !second.contains(id)));
    fails(true);
    ask.cursor = world.search(&ask).next_cursor;
    let by_words = world.ids(&ask);
    fails(false);
    assert_eq!(world.ids(&ask), by_words);
    assert!(
        world
            .search(&ask)
            .notices
            .iter()
            .any(|n| n.contains("as on the page before"))
    );
}
