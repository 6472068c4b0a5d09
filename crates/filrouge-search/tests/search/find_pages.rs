//! The pages of a search by meaning have neither gaps nor repetitions.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use filrouge_search::{Ask, Hit, Mode, Order};
use filrouge_sources::Role;

use super::find_meaning::{ask, similar, text, world};

#[test]
fn the_pages_of_a_search_by_meaning_add_up_to_all_its_results() {
    let words = [
        "upload", "uploads", "failed", "retry", "retries", "sea", "walk",
    ];
    let names: Vec<String> = (0..40).map(|n| format!("s{n}")).collect();
    let sessions = names.iter().enumerate().map(|(n, name)| {
        let text_of =
            |m: usize| format!("{} {} number {n}", words[(n + m) % 7], words[(n * m) % 7]);
        let messages = (0..4).map(|m| {
            text(
                &format!("m{m}"),
                [Role::User, Role::Assistant][m % 2],
                &text_of(m),
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
    for (question, max_candidates) in questions.iter().flat_map(|q| [(q, 1_000), (q, 3)]) {
        let searcher = world.searcher.clone().with_max_candidates(max_candidates);
        let search = |ask: &Ask| searcher.search(ask, &|| false).unwrap();
        let one_page = search(&Ask {
            limit: 500,
            ..question.clone()
        });
        assert!(one_page.sessions.len() > 6 && one_page.next_cursor.is_none() && one_page.exact);
        let matches: usize = one_page.sessions.iter().map(|hit| hit.matches).sum();
        assert_eq!(
            (one_page.total_sessions, one_page.total_matches),
            (one_page.sessions.len(), matches)
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
        assert_eq!(ids(&paged), ids(&one_page.sessions), "{question:?}");
    }
    // A search whose first page used the embedding does not continue without it, and vice versa, because the pages
    // would not have one order.
    let set_failing = |failing: bool| world.embedder.0.store(failing, Ordering::Relaxed);
    let mut ask = Ask {
        limit: 3,
        ..ask("retry upload", Mode::Both)
    };
    ask.cursor = world.search(&ask).next_cursor;
    set_failing(true);
    let error = world.searcher.search(&ask, &|| false).unwrap_err();
    assert_eq!(error.code(), "overloaded");
    set_failing(false);
    let second: BTreeSet<String> = world.ids(&ask).into_iter().collect();
    ask.cursor = None;
    assert!(world.ids(&ask).iter().all(|id| !second.contains(id)));
    set_failing(true);
    ask.cursor = world.search(&ask).next_cursor;
    let by_words = world.ids(&ask);
    set_failing(false);
    assert_eq!(world.ids(&ask), by_words);
    assert!(
        world
            .search(&ask)
            .notices
            .iter()
            .any(|n| n.contains("as on the previous page"))
    );
}
