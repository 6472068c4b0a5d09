//! The pages of a search by meaning have neither gaps nor repetitions.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use filrouge_search::{Hit, Mode, Order, SearchRequest};
use filrouge_sources::Role;

use super::find_meaning::{request, similar, text, world};

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
        request("retry upload", Mode::Both),
        request("retry upload", Mode::Meaning),
        request("upload", Mode::Both),
        SearchRequest {
            order: Order::Newest,
            ..request("upload", Mode::Both)
        },
        similar("failed uploads"),
    ];
    for (question, max_candidates) in questions.iter().flat_map(|q| [(q, 1_000), (q, 3)]) {
        let searcher = world.searcher.clone().with_max_candidates(max_candidates);
        let search = |request: &SearchRequest| searcher.search(request, &|| false).unwrap();
        let one_page = search(&SearchRequest {
            limit: 500,
            ..question.clone()
        });
        assert!(one_page.sessions.len() > 6 && one_page.next_cursor.is_none() && one_page.exact);
        let matches: usize = one_page.sessions.iter().map(|hit| hit.matches).sum();
        assert_eq!(
            (one_page.total_sessions, one_page.total_matches),
            (one_page.sessions.len(), matches)
        );
        let (mut paged, mut request) = (
            Vec::new(),
            SearchRequest {
                limit: 3,
                ..question.clone()
            },
        );
        loop {
            let page = search(&request);
            paged.extend(page.sessions);
            request.cursor = page.next_cursor;
            if request.cursor.is_none() {
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
    let mut request = SearchRequest {
        limit: 3,
        ..request("retry upload", Mode::Both)
    };
    request.cursor = world.search(&request).next_cursor;
    set_failing(true);
    let error = world.searcher.search(&request, &|| false).unwrap_err();
    assert_eq!(error.code(), "overloaded");
    set_failing(false);
    let second: BTreeSet<String> = world.ids(&request).into_iter().collect();
    request.cursor = None;
    assert!(world.ids(&request).iter().all(|id| !second.contains(id)));
    set_failing(true);
    request.cursor = world.search(&request).next_cursor;
    let by_words = world.ids(&request);
    set_failing(false);
    assert_eq!(world.ids(&request), by_words);
    assert!(
        world
            .search(&request)
            .notices
            .iter()
            .any(|n| n.contains("as on the previous page"))
    );
}
