//! The queries of the speed measurements: words of every frequency, phrases, pieces of identifiers, regular
//! expressions. All come from the history itself and are the same in every run.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use filrouge_search::SearchDocument;
use filrouge_sources::Library;

use super::corpora::History;
use crate::Setup;
use crate::workload::Rng;

/// Queries of one kind.
pub(super) struct Class {
    pub(super) name: &'static str,
    /// Whether an index narrows them: each contains three consecutive literal characters.
    pub(super) narrow: bool,
    pub(super) queries: Vec<String>,
}

/// A rare word occurs in at most this many messages; planted words are rare too.
const RARE: u32 = 5;
/// A middling word, neither rare nor common, occurs in this many messages.
const MIDDLING: std::ops::RangeInclusive<u32> = 50..=500;

/// Regular expressions that each contain three or more consecutive literal characters.
const WITH_LITERAL: &[&str] = &[
    r"/zephyrine-\d+/",
    r"/quillon-[0-9]{4}/",
    r"/fn \w+_parser\(/",
    r"/test \w+::lantern \.\.\. FAILED/",
    r"/Result<Harbour>/",
    r"/let (mut )?cinnamon\b/",
    r"/\bORCHARD (and|or) \w+/i",
    r"/timeout.{0,20}retry/",
    r"/src\/parser\/\w+\.rs/",
    r"/(anchor|compass|meadow)_\w+_pebble/",
];

/// Queries that an index cannot narrow, so everything is scanned.
const WITHOUT_LITERAL: &[&str] = &[
    r"/\b[a-z]{2}\d\b/",
    r"/[A-Z]{3,}/",
    r"/\(\w+, 4\d{3}\)/",
    r"/\b\w{14,}\b/",
    r"/^\d+: \}$/",
];

/// The number of messages that contain each word.
fn word_counts(library: &Library) -> Result<BTreeMap<String, u32>> {
    let mut counts = BTreeMap::new();
    for entry in &library.catalog().entries {
        for message in &library.conversation(entry)?.messages {
            let document = SearchDocument::from_message(message);
            let texts = document.pieces.iter().map(|piece| &*piece.text);
            let words = texts.flat_map(|text| text.split(|c: char| !c.is_ascii_alphabetic()));
            let words: BTreeSet<&str> = words.filter(|word| word.len() >= 4).collect();
            for word in words {
                match counts.get_mut(word) {
                    Some(count) => *count += 1,
                    None => drop(counts.insert(word.to_owned(), 1)),
                }
            }
        }
    }
    Ok(counts)
}

/// Pairs of adjacent words, and pieces of identifiers, from random messages.
fn phrases_and_pieces(
    library: &Library,
    rng: &mut Rng,
) -> Result<(BTreeSet<String>, BTreeSet<String>)> {
    let catalog = library.catalog();
    let (mut phrases, mut pieces) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..200 {
        let entry = catalog.entries.get(rng.below(catalog.entries.len().max(1)));
        let Some(entry) = entry else { break };
        let read = library.conversation(entry)?;
        let Some(message) = read.messages.get(rng.below(read.messages.len().max(1))) else {
            continue;
        };
        for piece in SearchDocument::from_message(message).pieces {
            let words: Vec<&str> = piece.text.split(' ').collect();
            let Some([first, second]) = words.get(words.len() / 2..words.len() / 2 + 2) else {
                continue;
            };
            let plain =
                |word: &str| word.len() >= 3 && word.bytes().all(|b| b.is_ascii_lowercase());
            if plain(first) && plain(second) {
                phrases.insert(format!("\"{first} {second}\""));
            }
            let is_name = |word: &&&str| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            if let Some(name) = words.iter().filter(is_name).find(|word| word.contains('_')) {
                let at = name.find('_').unwrap_or(0);
                let (from, to) = (at.saturating_sub(3), (at + 4).min(name.len()));
                pieces.insert(name.get(from..to).unwrap_or(name).to_owned());
            }
        }
    }
    Ok((phrases, pieces))
}

/// Selects `count` of the texts, evenly spaced.
fn evenly_spaced(all: impl IntoIterator<Item = String>, count: usize) -> Vec<String> {
    let all: Vec<String> = all.into_iter().collect();
    let step = (all.len() / count.max(1)).max(1);
    all.into_iter().step_by(step).take(count).collect()
}

/// The queries of all kinds.
pub(super) fn mix(setup: &Setup, history: &History, library: &Library) -> Result<Vec<Class>> {
    let counts = word_counts(library)?;
    let words_with = |is_wanted: &dyn Fn(u32) -> bool, count: usize| {
        let words = counts
            .iter()
            .filter(|(_, n)| is_wanted(**n))
            .map(|(word, _)| word.clone());
        evenly_spaced(words, setup.size(count, 3))
    };
    let mut rare: Vec<String> = history.truth.needles.keys().cloned().collect();
    rare.extend(words_with(&|n| n <= RARE, 27));
    let mut common: Vec<(&String, &u32)> = counts.iter().collect();
    common.sort_by_key(|(word, count)| (std::cmp::Reverse(**count), *word));
    let common = common.into_iter().take(10).map(|(word, _)| word.clone());
    let (phrases, pieces) = phrases_and_pieces(library, &mut Rng::new(11))?;
    let class = |name, narrow, queries| Class {
        name,
        narrow,
        queries,
    };
    let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
    Ok(vec![
        class("rare words", true, rare),
        class(
            "middling words",
            true,
            words_with(&|n| MIDDLING.contains(&n), 30),
        ),
        class("common words", true, common.collect()),
        class("phrases", true, evenly_spaced(phrases, setup.size(20, 3))),
        class(
            "pieces of identifiers",
            true,
            evenly_spaced(pieces, setup.size(20, 3)),
        ),
        class("regexes with a literal", true, owned(WITH_LITERAL)),
        class("other regexes", false, owned(WITHOUT_LITERAL)),
    ])
}
