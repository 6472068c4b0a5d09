//! Searches for parts of a credential reveal nothing about it, and no embedder receives a credential.

use std::sync::{Arc, Mutex};

use filrouge_search::embed::{EmbedError, Embedder, Hashing, embed_documents};
use filrouge_search::{Mode, SearchRequest};
use filrouge_sources::Role;
use filrouge_store::text_index::memory::MemoryIndex;
use filrouge_store::text_index::{
    Coverage, IndexUpdate, NewDocument, SessionEntry, SessionUpdate, Shard, TextIndex,
};

use super::find_meaning::{request, similar, text, world};

/// A made-up API key.
fn key() -> String {
    format!("sk-ant-api03-{}-AAAA", "QzXw7Kp2Lm9Vt4Rb8Nc1".repeat(4))
}

#[test]
fn searches_for_parts_of_a_key_reveal_nothing() {
    let key = key();
    let leaked = format!("the quince has the key {key} now");
    let reply = format!("use {key}, then");
    let messages = vec![
        text("a", Role::User, &leaked),
        text("b", Role::Assistant, &reply),
    ];
    let world = world(vec![
        ("leaky", messages),
        ("other", vec![text("a", Role::User, "pears and medlars")]),
    ]);
    let searcher = world.searcher.clone().with_embedder(None);
    let in_all_modes = |query: &str| {
        [
            request(query, Mode::Words),
            request(query, Mode::Meaning),
            request(query, Mode::Both),
            similar(query),
        ]
    };
    let totals = |request: &SearchRequest, masked: bool| {
        let request = SearchRequest {
            mask: masked,
            ..request.clone()
        };
        let found = searcher.search(&request, &|| false).unwrap();
        let excerpts = found.sessions.iter().flat_map(|hit| &hit.excerpts);
        assert!(!masked || excerpts.clone().all(|one| !one.text.contains("QzXw7Kp2")));
        (found.total_sessions, found.total_matches, found.exact)
    };
    // A part of the key, and the same part with a wrong last character.
    let (right, wrong) = ("sk-ant-api03-QzXw7Kp2", "sk-ant-api03-QzXw7Kp3");
    for parts in [(right, wrong), ("QzXw7Kp2Lm9", "QzXw7Kp2Lm8")] {
        for (right, wrong) in in_all_modes(parts.0).iter().zip(&in_all_modes(parts.1)) {
            assert_eq!(totals(right, true), totals(wrong, true), "{right:?}");
            assert_eq!(totals(right, true).0, 0, "{right:?}");
            assert_eq!(totals(right, false).0, 1, "{right:?}");
        }
        // Next to words that match, the order and the totals are the same, too.
        let with_words = |part: &str| in_all_modes(&format!("quince medlars {part}"));
        for (right, wrong) in with_words(parts.0).iter().zip(&with_words(parts.1)) {
            let ids = |request: &SearchRequest| {
                let found = searcher.search(
                    &SearchRequest {
                        mask: true,
                        ..request.clone()
                    },
                    &|| false,
                );
                let hits = found.unwrap().sessions.into_iter();
                hits.map(|hit| hit.session.id).collect::<Vec<_>>()
            };
            assert_eq!(ids(right), ids(wrong), "{right:?}");
            assert_eq!(totals(right, true), totals(wrong, true), "{right:?}");
        }
    }
    for request in in_all_modes("quince key") {
        assert_eq!(totals(&request, true).0, 1, "{request:?}");
    }
}

/// An embedder that records the texts it receives.
#[derive(Default)]
struct RecordingEmbedder(Mutex<Vec<String>>);

impl Embedder for RecordingEmbedder {
    fn id(&self) -> &str {
        "recording"
    }

    fn dimensions(&self) -> usize {
        Hashing.dimensions()
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let received = texts.iter().map(|text| (*text).to_owned());
        self.0.lock().unwrap().extend(received);
        Hashing.embed(texts)
    }
}

#[test]
fn no_credential_reaches_the_embedder() {
    let (index, embedder) = (
        MemoryIndex::default(),
        Arc::new(RecordingEmbedder::default()),
    );
    let leaked = format!("here: {} is it", key());
    let message = text("a", Role::User, &leaked);
    let doc = filrouge_search::SearchDocument::from_message(&message);
    let document = NewDocument {
        key: "a".into(),
        unit: 0,
        kind: doc.kind(),
        created: 0,
        digest: 0,
        folded: doc.folded(),
        body: doc.encode(),
    };
    let update = SessionUpdate {
        shard: Shard {
            realm: Box::default(),
            owner: Box::default(),
        },
        entry: SessionEntry {
            key: "s".into(),
            stamp: [1, 1],
            updated: 0,
            project: None,
        },
        coverage: Coverage::All,
        documents: vec![document],
    };
    index
        .change(None, &[IndexUpdate::Session(update)], None)
        .unwrap();
    assert_eq!(embed_documents(&index, &*embedder, 10), Ok(1));
    let world = world(vec![("s", vec![text("a", Role::User, "pears")])]);
    let searcher = world.searcher.clone();
    let searcher = searcher.with_embedder(Some(embedder.clone()));
    let question = similar(&format!("what is {} for", key()));
    searcher.search(&question, &|| false).unwrap();
    // A question that consists of a credential leaves no text to embed.
    searcher.search(&similar(&key()), &|| false).unwrap();
    let received = embedder.0.lock().unwrap().clone();
    assert_eq!(received, ["here:  is it", "what is  for"]);
}
