//! Compares searches with a simple reference that reads everything. The conversations have many characters that JSON
//! escapes or that folding changes.

mod indexed;
mod reference;
mod spelling;
mod terms;

use std::sync::Arc;

use proptest::prelude::*;
use unicode_normalization::UnicodeNormalization;

use super::fields::Field;
use super::query::{Kind, Term};
use super::unescaped_json::UnescapedJson;
use super::*;
use crate::answer::{Hit, Results};
use crate::find::DEFAULT_EXCERPTS;
use crate::matcher::Matcher;
use crate::search_document::SearchDocument;
use filrouge_sources::library::{Library, samples};
use filrouge_sources::{Conversation, Header, Message, MessageError, PartKind, Role};
use filrouge_store::text_index::fold;
use reference::{match_counts, texts};
use spelling::{Dice, GeneratedSource, spell};

/// Characters that JSON escapes, that have several cases or spellings, that combine, or that could be taken for an
/// escape.
const ALPHABET: [char; 54] = [
    'a', 'a', 'k', 'K', 's', 'S', 'ſ', '\u{212a}', 'İ', 'i', 'é', 'e', '\u{301}', 'É', 'ß', 'ẞ',
    'Σ', 'ς', 'ί', '日', '本', '😀', '"', '\\', '/', '\n', '\t', '\u{1b}', '\u{7f}', ' ', ' ', '_',
    '-', ':', 'u', '0', '4', '1', '\u{2028}', 'œ', 'o', 'ﬁ', 'Ｅ', '＂', '\u{3000}', 'か', 'が',
    '\u{3099}', '한', '하', '\u{1112}', '\u{1161}', '\u{11ab}', '\u{f900}',
];

/// A text of characters of [`ALPHABET`].
fn hostile_text(max_len: usize) -> impl Strategy<Value = String> {
    let chars = proptest::collection::vec(proptest::sample::select(&ALPHABET[..]), 0..=max_len);
    chars.prop_map(String::from_iter)
}

fn any_part() -> impl Strategy<Value = PartKind> {
    let boxed = |text: String| text.into_boxed_str();
    let text = hostile_text(12).prop_map(move |t| PartKind::Text {
        text: boxed(t),
        synthetic: false,
    });
    let tool = (
        hostile_text(8),
        hostile_text(8),
        any::<u64>(),
        any::<bool>(),
    );
    let tool = tool.prop_map(move |(argument, output, seed, other)| {
        let mut tool = samples::tool(Some(&output));
        tool.input = format!("{{\"q\":{}}}", spell(&argument, &mut Dice(seed))).into();
        if other {
            tool.name = "Read".into();
        }
        PartKind::Tool(Box::new(tool))
    });
    let patch = hostile_text(6).prop_map(move |t| PartKind::Patch {
        files: vec![boxed(t)],
    });
    let summary = hostile_text(8).prop_map(move |t| PartKind::Compaction {
        automatic: true,
        summary: Some(boxed(t)),
    });
    prop_oneof![4 => text, 3 => tool, 1 => patch, 1 => summary]
}

fn any_message() -> impl Strategy<Value = Message> {
    let role = proptest::sample::select(&[Role::User, Role::Assistant][..]);
    let agent = proptest::option::of(proptest::sample::select(&["build", "plan"][..]));
    let parts = proptest::collection::vec(any_part(), 0..4);
    let error = proptest::option::weighted(0.2, hostile_text(6));
    (role, parts, error, 0..20_i64, agent).prop_map(|(role, kinds, error, created, agent)| {
        let parts = kinds.into_iter().enumerate();
        let parts = parts
            .map(|(n, kind)| samples::part(&format!("p{n}"), kind))
            .collect();
        let mut message = samples::message("", role, parts);
        message.created = created;
        message.agent = agent.map(Into::into);
        message.error = error.map(|text| MessageError {
            name: "APIError".into(),
            message: text.into(),
            retryable: false,
        });
        message
    })
}

fn any_history() -> impl Strategy<Value = Vec<(Arc<Header>, Conversation)>> {
    let session = (
        hostile_text(10),
        proptest::collection::vec(any_message(), 0..4),
        0..3_i64,
    );
    proptest::collection::vec(session, 1..5).prop_map(|sessions| {
        let sessions = sessions
            .into_iter()
            .enumerate()
            .map(|(n, (title, mut messages, at))| {
                let mut header = samples::header(&format!("ses_{n}"), at);
                header.title = Some(title.into());
                header.agent = (n % 2 == 0).then(|| "build".into());
                header.project_name = (n % 3 == 0).then(|| "phare".into());
                for (m, message) in messages.iter_mut().enumerate() {
                    message.id = format!("msg_{m}").into();
                }
                (Arc::new(header), samples::conversation(messages))
            });
        sessions.collect()
    })
}

/// A random piece of an existing text, in the form of a query's word or phrase.
fn piece(sessions: &[(Arc<Header>, Conversation)], dice: &mut Dice) -> Option<String> {
    let mut texts_of_sessions: Vec<String> = sessions
        .iter()
        .filter_map(|s| s.0.title.as_deref())
        .map(str::to_owned)
        .collect();
    let messages = sessions.iter().flat_map(|s| &s.1.messages);
    texts_of_sessions.extend(messages.flat_map(texts).map(|(_, text)| text));
    let text: Vec<char> = texts_of_sessions
        .get(dice.roll(texts_of_sessions.len() as u64) as usize)?
        .chars()
        .collect();
    let start = dice.roll(text.len() as u64 + 1) as usize;
    let len = 1 + dice.roll(5) as usize;
    let piece: String = text.iter().skip(start).take(len).collect();
    let piece: String = match dice.roll(5) {
        0 => piece.to_uppercase(),
        1 => piece.nfc().collect(),
        2 => piece.nfd().collect(),
        3 => fold(&piece).into_owned(),
        _ => piece,
    };
    if piece.trim().is_empty() || fold(&piece).is_empty() {
        return None;
    }
    let is_word = !piece.contains(char::is_whitespace) && !piece.starts_with(['"', '-']);
    Some(match is_word {
        true => piece,
        false => format!("\"{}\"", piece.replace('"', "\\\"")),
    })
}

/// A random query of words and phrases of these sessions, with a random filter; `None` if the query is invalid.
fn random_request(
    sessions: &[(Arc<Header>, Conversation)],
    dice: &mut Dice,
) -> Option<SearchRequest> {
    let mut words = vec![piece(sessions, dice)?];
    for _ in 0..dice.roll(3) {
        let minus = if dice.roll(3) == 0 { "-" } else { "" };
        words.extend(piece(sessions, dice).map(|word| format!("{minus}{word}")));
    }
    let mut request = SearchRequest {
        query: words.join(" "),
        limit: 1 + dice.roll(3) as usize,
        order: crate::Order::Newest,
        ..SearchRequest::default()
    };
    match dice.roll(8) {
        0 => request.role = Some(Role::User),
        1 => request.tool = Some("read".to_owned()),
        2 => request.agent = Some("build".to_owned()),
        3 => (request.since, request.until) = (Some(4), Some(15)),
        _ => {}
    }
    let query = query::parse(&request.query, &request.date_context()).ok()?;
    // A query is refused if a term consists of accents only.
    Matcher::new(&query, &[], false, &|| false).ok()?;
    let is_word = |term: &Term| !matches!(term.kind, Kind::Regex(_));
    query.terms.iter().all(is_word).then_some(request)
}

/// Searches page by page. Returns all hits, and the first page.
fn all_pages(library: &Library, mut request: SearchRequest) -> (Vec<Hit>, Results) {
    let first = search(library, &request).unwrap();
    let (mut hits, mut next) = (first.sessions.clone(), first.next_cursor.clone());
    while let Some(cursor) = next {
        request.cursor = Some(cursor);
        let page = search(library, &request).unwrap();
        assert!(
            !page.sessions.is_empty(),
            "the cursor leads to an empty page"
        );
        hits.extend(page.sessions);
        next = page.next_cursor;
    }
    (hits, first)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_search_finds_what_the_reference_finds(sessions in any_history(), seed in any::<u64>()) {
        let mut dice = Dice(seed);
        let Some(request) = random_request(&sessions, &mut dice) else {
            return Ok(());
        };
        let expected = match_counts(&sessions, &request);
        let source = GeneratedSource { sessions };
        let library = Library::new(vec![Arc::new(source)], 1 << 20);
        let (hits, first) = all_pages(&library, request.clone());
        let found: Vec<_> = hits.iter().map(|h| (h.session.id.clone(), h.matches)).collect();
        prop_assert_eq!(&found, &expected, "{:?}", request);
        prop_assert_eq!(first.total_sessions, expected.len());
        prop_assert_eq!(first.total_matches, expected.iter().map(|e| e.1).sum::<usize>());
        for hit in hits {
            prop_assert!(!hit.excerpts.is_empty() && hit.excerpts.len() <= DEFAULT_EXCERPTS);
            for excerpt in hit.excerpts {
                prop_assert!(excerpt.text.contains('«') && excerpt.text.contains('»'), "{:?}", excerpt);
            }
        }
    }

    #[test]
    fn matching_documents_contain_the_index_terms(text in hostile_text(14), words in hostile_text(5), pattern in 0..REGEXES.len()) {
        for query in [REGEXES[pattern].to_owned(), format!("\"{}\"", words.replace('"', ""))] {
            let Ok(query) = query::parse(&query, &SearchRequest::default().date_context()) else {
                continue;
            };
            let Ok(matcher) = Matcher::new(&query, &[], false, &|| false) else {
                continue;
            };
            let part = [samples::text("p", &text)];
            let message = samples::message("m", Role::User, part.to_vec());
            let doc = SearchDocument::from_message(&message);
            let folded = doc.folded();
            let contains = |alternatives: &Vec<String>| alternatives.iter().any(|one| folded.contains(one.as_str()));
            if matcher.required != 0 && matcher.is_in(&doc) {
                prop_assert!(matcher.literals().iter().all(contains), "{:?} in {:?}", matcher.literals(), folded);
            }
        }
    }

    #[test]
    fn a_view_resolves_any_spelling_of_a_string(text in hostile_text(20), seed in any::<u64>()) {
        let input = format!("{{\"q\":{}}}", spell(&text, &mut Dice(seed)));
        let read = UnescapedJson::new(&input).map_or(input.clone(), |unescaped| unescaped.text);
        prop_assert_eq!(read, format!("{{\"q\":\"{}\"}}", text));
    }
}

/// Expressions that match some of the generated texts.
const REGEXES: [&str; 14] = [
    "/k[sS]/",
    "/(?i)ka|s_/",
    "/a+ *é/i",
    "/[kK]s/x",
    "/^s.*k$/s",
    "/(a|ab)(s|k)/i",
    "/\\bask/i",
    "/日本|😀/",
    "/é|e\u{301}/i",
    "/\\d{2}u/",
    "/ß/i",
    "/(?:ΣS)?k:/i",
    "/a\\/s/",
    "/\"[^\"]+s\"/",
];
