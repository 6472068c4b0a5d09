//! Search by meaning: with vectors, without them, and page by page.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use filrouge_search::embed::{EmbedError, Embedder, Hashing, embed_documents};
use filrouge_search::feed::Indexes;
use filrouge_search::{Hit, Mode, Results, SearchRequest, Searcher};
use filrouge_sources::library::samples::{self, MemorySource};
use filrouge_sources::{Library, Message, PartKind, Role, Source};
use filrouge_store::text_index::memory::MemoryIndex;

const DAY: i64 = 86_400_000;

/// An embedder like [`Hashing`] that fails while the flag is set.
#[derive(Default)]
pub(crate) struct FailingEmbedder(pub(crate) AtomicBool);

impl Embedder for FailingEmbedder {
    fn id(&self) -> &str {
        Hashing.id()
    }

    fn dimensions(&self) -> usize {
        Hashing.dimensions()
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if self.0.load(Ordering::Relaxed) {
            return Err(EmbedError::Unavailable("no connection".to_owned()));
        }
        Hashing.embed(texts)
    }
}

/// A history with an index that has vectors of all messages.
pub(crate) struct MeaningWorld {
    _dir: tempfile::TempDir,
    pub(crate) embedder: Arc<FailingEmbedder>,
    pub(crate) searcher: Searcher,
}

/// A message of one text.
pub(crate) fn text(id: &str, role: Role, content: &str) -> Message {
    let mut message = samples::message(id, role, vec![samples::text("p", content)]);
    // Creation times follow the order of the ids.
    message.created = id.bytes().map(i64::from).sum();
    message
}

pub(crate) fn world(sessions: Vec<(&str, Vec<Message>)>) -> MeaningWorld {
    world_with_titles(sessions, |_| None)
}

fn world_with_titles(
    sessions: Vec<(&str, Vec<Message>)>,
    title: impl Fn(&str) -> Option<&'static str>,
) -> MeaningWorld {
    let source = MemorySource::default();
    for (n, (id, messages)) in sessions.into_iter().enumerate() {
        let mut header = samples::header(id, n as i64 * DAY);
        header.agent = (n % 2 == 0).then(|| "build".into());
        header.title = title(id).map(Into::into).or(header.title);
        source.put(header, samples::conversation(messages));
    }
    let sources: Vec<Arc<dyn Source>> = vec![Arc::new(source)];
    let dir = tempfile::tempdir().unwrap();
    let index = Arc::new(MemoryIndex::default());
    let open = move |_: &std::path::Path| Ok(index.clone() as _);
    let indexes = Arc::new(Indexes::new(&sources, dir.path(), true, Box::new(open)));
    let index = indexes.open_or_create(0).unwrap().unwrap();
    index.update(&mut |_| {}, &|| false).unwrap();
    while embed_documents(&**index.index(), &Hashing, 100).unwrap() > 0 {}
    let embedder = Arc::new(FailingEmbedder::default());
    let searcher = Searcher::new(Library::new(sources, 1 << 20)).with_indexes(indexes);
    let searcher = searcher.with_embedder(Some(embedder.clone()));
    MeaningWorld {
        _dir: dir,
        embedder,
        searcher,
    }
}

/// Conversations about failing uploads in similar words, and an unrelated one.
fn uploads() -> MeaningWorld {
    let mut call = samples::tool(Some("upload failed"));
    call.name = "curl".into();
    let mut with_call = text("c", Role::Assistant, "I retried the upload");
    with_call
        .parts
        .push(samples::part("t", PartKind::Tool(Box::new(call))));
    let mut only_call = text("m", Role::Assistant, "");
    let call = PartKind::Tool(Box::new(samples::tool(Some("x"))));
    only_call.parts = vec![samples::part("t", call)];
    world(vec![
        (
            "exact",
            vec![
                text("a", Role::User, "retry the failed upload"),
                text("b", Role::Assistant, "done, it is up"),
            ],
        ),
        (
            "like",
            vec![
                text("a", Role::User, "uploads fail, who retries them?"),
                with_call,
            ],
        ),
        (
            "far",
            vec![
                text("a", Role::User, "a walk by the sea"),
                text("b", Role::Assistant, "how nice"),
            ],
        ),
        (
            "twice",
            vec![
                text("a", Role::User, "failing uploads"),
                text("b", Role::User, "are the uploads retried?"),
                only_call,
                text("z", Role::Assistant, "yes, three times"),
            ],
        ),
    ])
}

pub(crate) fn request(query: &str, mode: Mode) -> SearchRequest {
    SearchRequest {
        query: query.to_owned(),
        mode,
        now: Some(10 * DAY),
        ..SearchRequest::default()
    }
}

pub(crate) fn similar(question: &str) -> SearchRequest {
    SearchRequest {
        similar: Some(question.to_owned()),
        ..request("", Mode::Words)
    }
}

impl MeaningWorld {
    pub(crate) fn search(&self, request: &SearchRequest) -> Results {
        self.searcher.search(request, &|| false).unwrap()
    }

    pub(crate) fn ids(&self, request: &SearchRequest) -> Vec<String> {
        self.search(request)
            .sessions
            .into_iter()
            .map(|hit| hit.session.id)
            .collect()
    }
}

fn texts(hit: &Hit) -> Vec<&str> {
    hit.excerpts.iter().map(|one| one.text.as_str()).collect()
}

#[test]
fn a_search_by_meaning_counts_only_matches_that_contain_the_words() {
    let world = uploads();
    let found = world.search(&request("retry the failed upload", Mode::Both));
    assert_eq!(found.sessions[0].session.id, "exact");
    assert_eq!(found.sessions[0].matches, 1);
    let similar_hit = found
        .sessions
        .iter()
        .find(|hit| hit.session.id == "like")
        .unwrap();
    assert_eq!((similar_hit.matches, similar_hit.exact), (0, true));
    assert!(!similar_hit.excerpts.is_empty() && similar_hit.excerpts[0].text.contains("upload"));
    assert_eq!(found.total_sessions, found.sessions.len());
    assert_eq!((found.total_matches, found.exact), (1, true));
    assert!(
        found.as_of.is_some() && found.notices.is_empty(),
        "{:?}",
        found.notices
    );
    let by_meaning = world.search(&request("retry the failed upload", Mode::Meaning));
    assert_eq!(by_meaning.sessions[0].session.id, "exact");
    assert_eq!(
        (by_meaning.total_matches, by_meaning.total_sessions),
        (0, by_meaning.sessions.len())
    );
    assert!(by_meaning.as_of.is_some());
    // A query without text to embed is answered by its filters or its expression.
    for (query, mode) in [
        ("agent:build role:user", Mode::Meaning),
        ("/up.o/", Mode::Both),
    ] {
        let by_words = world.ids(&request(query, Mode::Words));
        assert!(!by_words.is_empty());
        assert_eq!(world.ids(&request(query, mode)), by_words);
    }
}

#[test]
fn a_search_by_meaning_respects_the_filters() {
    let world = uploads();
    for mode in [Mode::Meaning, Mode::Both] {
        let ids = |query: &str| -> BTreeSet<String> {
            world.ids(&request(query, mode)).into_iter().collect()
        };
        let set =
            |ids: &[&str]| -> BTreeSet<String> { ids.iter().map(|id| (*id).to_owned()).collect() };
        assert_eq!(
            ids("failed upload -session:exact -session:far"),
            set(&["like", "twice"])
        );
        assert_eq!(ids("failed upload session:like"), set(&["like"]));
        assert_eq!(ids("failed upload tool:curl"), set(&["like"]));
        let without = world.search(&request("failed upload -retry", mode));
        let mut shown = without.sessions.iter().flat_map(|hit| &hit.excerpts);
        assert!(without.sessions.len() > 2 && shown.all(|one| !one.text.contains("retry")));
        assert!(!ids("failed upload agent:build").contains("like"));
        assert_eq!(ids("failed upload source:codex"), set(&[]));
        for query in ["failed upload role:user", "failed upload role:assistant"] {
            let found = world.search(&request(query, mode));
            let role = if query.ends_with("user") {
                Role::User
            } else {
                Role::Assistant
            };
            let roles = found.sessions.iter().flat_map(|hit| &hit.excerpts);
            assert!(roles.clone().count() > 0 && roles.clone().all(|one| one.role == Some(role)));
        }
    }
}

#[test]
fn similar_questions_are_shown_with_their_answers() {
    let world = uploads();
    let found = world.search(&similar("who retries a failed upload?"));
    let by_id = |id: &str| {
        found
            .sessions
            .iter()
            .find(|hit| hit.session.id == id)
            .unwrap()
    };
    assert_eq!(
        texts(by_id("exact")),
        ["retry the failed upload", "done, it is up"]
    );
    assert_eq!(
        texts(by_id("like")),
        ["uploads fail, who retries them?", "I retried the upload"]
    );
    // Two consecutive questions have one answer: the first message with text, after a tool call.
    let twice = texts(by_id("twice"));
    assert_eq!(twice.len(), 4);
    assert!(twice.contains(&"are the uploads retried?"));
    assert_eq!(
        (twice[1], twice[3]),
        ("yes, three times", "yes, three times")
    );
    assert_eq!(by_id("exact").matches, 0);
    // `excerpts` counts questions, each with its answer.
    let one = world.search(&SearchRequest {
        excerpts: 1,
        ..similar("who retries a failed upload?")
    });
    for hit in &one.sessions {
        let roles: Vec<_> = hit.excerpts.iter().map(|one| one.role.unwrap()).collect();
        assert_eq!(roles, [Role::User, Role::Assistant], "{}", hit.session.id);
    }
    // One session is shown on several pages.
    let mut one_session = SearchRequest {
        session_id: Some("twice".to_owned()),
        excerpts: 1,
        ..similar("uploads retried")
    };
    let first = world.search(&one_session);
    one_session.cursor = first.next_cursor.clone();
    let second = world.search(&one_session);
    let both: BTreeSet<_> = [&first, &second]
        .into_iter()
        .map(|page| page.sessions[0].excerpts[0].text.clone())
        .collect();
    assert_eq!(both.len(), 2);
    assert_eq!(second.next_cursor, None);
    let error = world
        .searcher
        .search(&similar("  "), &|| false)
        .unwrap_err();
    assert_eq!(error.code(), "invalid_argument");
}

#[test]
fn a_search_is_by_words_only_if_the_query_cannot_be_embedded() {
    let world = uploads();
    world.embedder.0.store(true, Ordering::Relaxed);
    let both = world.search(&request("failed upload", Mode::Both));
    let by_words_notices = both
        .notices
        .iter()
        .filter(|n| n.contains("by words only") && !n.contains("no connection"));
    assert_eq!(by_words_notices.count(), 1, "{:?}", both.notices);
    assert_eq!(both.sessions[0].session.id, "exact");
    assert_eq!(
        both.total_matches,
        world
            .search(&request("failed upload", Mode::Words))
            .total_matches
    );
    let by_meaning = world.search(&request("retries", Mode::Meaning));
    assert!(
        by_meaning
            .sessions
            .iter()
            .any(|hit| hit.session.id == "like")
    );
    assert!(
        !world
            .search(&similar("who retries uploads?"))
            .sessions
            .is_empty()
    );
    let without = world.searcher.clone().with_embedder(None);
    let results = without
        .search(&similar("who retries uploads?"), &|| false)
        .unwrap();
    assert!(
        results
            .notices
            .iter()
            .any(|n| n.contains("no embedder is set up"))
            && !results.sessions.is_empty()
    );
}

/// A matching title ranks above a session that is in all lists because of its messages.
#[test]
fn a_search_by_meaning_ranks_a_matching_title_above_messages() {
    let sessions = vec![
        ("titled", vec![text("a", Role::User, "a walk by the sea")]),
        (
            "in-message",
            vec![text("a", Role::User, "the failed one: retry that upload?")],
        ),
    ];
    let world = world_with_titles(sessions, |id| {
        (id == "titled").then_some("Retry the failed upload")
    });
    for mode in [Mode::Both, Mode::Meaning] {
        let found = world.search(&request("retry the failed upload", mode));
        let ids: Vec<&str> = found.sessions.iter().map(|h| &*h.session.id).collect();
        assert_eq!(ids, ["titled", "in-message"], "{mode:?}");
        assert_eq!(found.sessions[0].excerpts[0].field, "title", "{mode:?}");
    }
    // A title is not a question and has no answer.
    let ids = world.ids(&similar("retry the failed upload"));
    assert!(!ids.is_empty() && ids[0] == "in-message", "{ids:?}");
    assert_eq!(
        world.ids(&request("failed upload role:user", Mode::Meaning))[0],
        "in-message"
    );
}
