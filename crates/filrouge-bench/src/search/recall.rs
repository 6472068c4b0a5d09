//! `search --recall`: searches for planted needles, the literal judged queries, and random pieces of every kind of
//! text, with a complete index, with half an index, and with none. All pages are compared with the expected results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use filrouge_search::feed::SourceIndex;
use filrouge_search::{SearchRequest, Searcher};
use filrouge_sources::Source;
use regex::{Regex, RegexBuilder};

use super::brute::{AllDocuments, Condition};
use super::corpora::{self, History};
use super::judged::{JudgedCorpus, Kind, queries};
use super::searchers::{self, SourceIndexes};
use crate::Setup;
use crate::report::{Line, Section, Target};
use crate::workload::Rng;

/// Sessions per page: few enough that common words take several pages.
const PAGE: usize = 50;
/// The number of random pieces of each kind of text, full and with `--quick`.
const PIECES: (usize, usize) = (24, 2);

/// A query, and the condition that its results must meet.
struct Needle {
    query: String,
    condition: Condition,
}

impl Needle {
    fn phrase(text: &str) -> Self {
        Self {
            query: format!("\"{text}\""),
            condition: Condition::Words(vec![text.to_owned()]),
        }
    }

    fn words(words: &[&str]) -> Self {
        Self {
            query: words.join(" "),
            condition: Condition::Words(words.iter().map(|word| (*word).to_owned()).collect()),
        }
    }

    fn regex(pattern: &str, any_case: bool) -> Result<Self> {
        let flag = if any_case { "i" } else { "" };
        Ok(Self {
            query: format!("/{pattern}/{flag}"),
            condition: Condition::Pattern(build_regex(pattern, any_case)?),
        })
    }
}

fn build_regex(pattern: &str, any_case: bool) -> Result<Regex> {
    let mut builder = RegexBuilder::new(pattern);
    Ok(builder
        .case_insensitive(any_case)
        .multi_line(true)
        .build()?)
}

/// A generated history, the invented conversations and the genuine ones in one library.
fn sources(setup: &Setup, dir: &std::path::Path) -> Result<(Vec<Arc<dyn Source>>, History)> {
    let size = [
        setup.size(400, 40),
        setup.size(8000, 400),
        setup.size(40_000, 2000),
    ];
    let history = History::write(dir, "json", size)?;
    let mut sources = history.sources()?;
    for corpus in [JudgedCorpus::Made, JudgedCorpus::Genuine] {
        sources.extend(corpora::sources(corpus, dir)?);
    }
    Ok((sources, history))
}

/// `search --recall`.
pub(super) fn measure(setup: &Setup, section: &mut Section) -> Result<()> {
    let dir = setup.dir()?;
    let (sources, history) = sources(setup, dir.path())?;
    let library = corpora::library(sources.clone());
    let documents = AllDocuments::read(&library)?;
    let mut needles = needles(setup, &history, &documents)?;
    if setup.quick {
        needles = needles.into_iter().step_by(5).collect();
    }
    let expected: Vec<_> = needles
        .iter()
        .map(|needle| documents.find(&needle.condition))
        .collect();
    for (needle, planted) in &history.truth.needles {
        let found = documents.find(&Condition::Words(vec![needle.clone()]));
        let found: BTreeSet<&String> = found.keys().collect();
        ensure!(
            found == planted.iter().collect(),
            "{needle:?} is not where it was planted"
        );
    }
    drop(documents);
    let half = SourceIndexes::open(&sources, &dir.path().join("half"))?;
    index_half(&half.each)?;
    let complete = SourceIndexes::open(&sources, &dir.path().join("complete"))?;
    complete.index_everything()?;
    let checked: Vec<(&Needle, &BTreeMap<String, usize>)> = needles.iter().zip(&expected).collect();
    // Queries that no index answers scan everything for every page: the full set would take most of an hour.
    for (index_state, searcher, every) in [
        ("with an index", complete.searcher(&library), 1),
        (
            "with half of one",
            half.searcher(&library),
            setup.size(4, 1),
        ),
        ("without", searchers::full_scan(&library), setup.size(16, 1)),
    ] {
        compare(
            index_state,
            &searcher,
            checked.iter().step_by(every).copied(),
            section,
        )?;
    }
    section.notes.push(format!(
        "recall: {} queries over {} sessions; the results of {} queries take more than one page",
        needles.len(),
        library.catalog().entries.len(),
        expected
            .iter()
            .filter(|sessions| sessions.len() > PAGE)
            .count(),
    ));
    Ok(())
}

/// Indexes half of the sessions; a source that is indexed in one step may become complete.
fn index_half(indexes: &[Arc<SourceIndex>]) -> Result<()> {
    let mut stale_sessions = 0;
    for index in indexes {
        let all = index.source().list()?.headers.len();
        let done = AtomicUsize::new(0);
        let half = (all / 2).max(1);
        index.update(
            &mut |progress| done.store(progress.sessions, Ordering::Relaxed),
            &|| done.load(Ordering::Relaxed) >= half,
        )?;
        stale_sessions += index.snapshot(std::time::Duration::ZERO).stale.len();
    }
    ensure!(stale_sessions > 0, "the index is complete instead of half");
    Ok(())
}

/// Runs the searches and compares their results with the expected ones.
fn compare<'a>(
    index_state: &str,
    searcher: &Searcher,
    checked: impl Iterator<Item = (&'a Needle, &'a BTreeMap<String, usize>)>,
    section: &mut Section,
) -> Result<()> {
    let (mut queries, mut correct, mut estimated) = (0, 0, 0);
    let mut mismatches = Vec::new();
    for (needle, expected) in checked {
        queries += 1;
        let request = searchers::words_request(&needle.query, PAGE);
        let all = all_pages(searcher, request).with_context(|| needle.query.clone())?;
        estimated += usize::from(!all.exact);
        if all.are_those_of(expected) {
            correct += 1;
        } else if mismatches.len() < 5 {
            mismatches.push(format!(
                "{} {index_state}: {} sessions instead of {}",
                needle.query,
                all.sessions.len(),
                expected.len()
            ));
        }
    }
    let label = format!("recall {index_state}: queries answered like a full scan");
    let share = f64::from(correct) / f64::from(queries);
    let shown = format!("{correct} of {queries}, {estimated} with estimated counts");
    section
        .lines
        .push(Line::number(&label, share, Target::AtLeast(1.0), shown));
    section.notes.extend(mismatches);
    Ok(())
}

/// All pages of a result.
pub(super) struct AllPages {
    /// The number of matches in each session, and whether it is exact.
    pub(super) sessions: BTreeMap<String, (usize, bool)>,
    exact: bool,
    /// Whether an index was used for all pages.
    pub(super) indexed: bool,
}

impl AllPages {
    /// Whether the sessions are these, each with this number of matches, unless it is an estimate.
    pub(super) fn are_those_of(&self, expected: &BTreeMap<String, usize>) -> bool {
        let same_sessions = self.sessions.keys().eq(expected.keys());
        let mut counts = self.sessions.values().zip(expected.values());
        same_sessions && counts.all(|((n, exact), expected)| !exact || n == expected)
    }
}

/// Reads a result to its end, with one excerpt of each session.
pub(super) fn all_pages(searcher: &Searcher, mut request: SearchRequest) -> Result<AllPages> {
    request.excerpts = 1;
    let mut all = AllPages {
        sessions: BTreeMap::new(),
        exact: true,
        indexed: true,
    };
    loop {
        let page = searchers::search(searcher, &request)?;
        all.exact &= page.exact;
        all.indexed &= page.as_of.is_some();
        for hit in page.sessions {
            ensure!(
                !hit.excerpts.is_empty(),
                "{}: a hit without excerpts",
                hit.session.id
            );
            let counted = (hit.matches, hit.exact);
            let before = all.sessions.insert(hit.session.id.clone(), counted);
            ensure!(before.is_none(), "{} is on two pages", hit.session.id);
        }
        match page.next_cursor {
            Some(next) => request.cursor = Some(next),
            None => return Ok(all),
        }
    }
}

fn needles(setup: &Setup, history: &History, documents: &AllDocuments) -> Result<Vec<Needle>> {
    let mut needles = Vec::new();
    for needle in history.truth.needles.keys() {
        needles.push(Needle::words(&[needle]));
        needles.push(Needle::phrase(needle));
        let (name, _) = needle
            .split_once('-')
            .context("a needle without a hyphen")?;
        needles.push(Needle::regex(&format!(r"{name}-\d{{4}}"), false)?);
    }
    needles.push(Needle::words(&[&history.truth.common_word]));
    let is_literal = |kind| !matches!(kind, Kind::Memory | Kind::Paraphrase | Kind::Question);
    for query in queries()?.into_iter().filter(|q| is_literal(q.kind)) {
        needles.push(
            match query
                .text
                .strip_prefix('"')
                .and_then(|text| text.strip_suffix('"'))
            {
                Some(phrase) => Needle::phrase(phrase),
                None => Needle::words(&query.text.split(' ').collect::<Vec<_>>()),
            },
        );
    }
    for (pattern, any_case) in [
        (r"fn \w+_parser\(", false),
        (r"TOKENBUCKET", true),
        (r"發票|发票|イン", false),
        (r"é[a-z]", false),
        (r"\d{3} °C", false),
        (r"^\d+: \}$", false),
    ] {
        needles.push(Needle::regex(pattern, any_case)?);
    }
    needles.extend(pieces(setup, documents)?);
    Ok(needles)
}

/// Random pieces of every kind of text.
fn pieces(setup: &Setup, documents: &AllDocuments) -> Result<Vec<Needle>> {
    let mut rng = Rng::new(10);
    let mut fields: BTreeMap<u8, Vec<(usize, &str)>> = BTreeMap::new();
    for (document, text) in documents.texts() {
        let raw = text.raw.iter().filter(|raw| !raw.is_empty());
        let field = fields.entry(text.field as u8).or_default();
        field.extend(raw.map(|raw| (document, raw.as_str())));
    }
    let mut needles = Vec::new();
    for texts in fields.values() {
        for _ in 0..setup.size(PIECES.0, PIECES.1) {
            let Some((_, text)) = texts.get(rng.below(texts.len())) else {
                continue;
            };
            if let Some(piece) = piece(&mut rng, text) {
                needles.push(Needle::phrase(&piece));
                needles.extend(with_wildcard(&mut rng, &piece)?);
            }
            let words: Vec<&str> = text
                .split(|c: char| !c.is_alphanumeric())
                .filter(|word| !word.is_empty())
                .collect();
            if !words.is_empty() {
                let mut word = || {
                    words
                        .get(rng.below(words.len()))
                        .copied()
                        .unwrap_or_default()
                };
                needles.push(Needle::words(&[word(), word()]));
            }
        }
    }
    Ok(needles)
}

/// 1 to 24 characters of a text that have no special meaning inside quotation marks.
fn piece(rng: &mut Rng, text: &str) -> Option<String> {
    let from = rng.below(text.chars().count());
    let len = 1 + rng.below(24);
    let piece: String = text.chars().skip(from).take(len).collect();
    let piece = piece.trim();
    let plain = !piece.contains(['"', '\\']) && !piece.chars().any(char::is_control);
    (plain && !piece.is_empty()).then(|| piece.to_owned())
}

/// A piece as a pattern, with one of its characters replaced by a wildcard.
fn with_wildcard(rng: &mut Rng, piece: &str) -> Result<Option<Needle>> {
    if piece.contains('/') {
        return Ok(None);
    }
    let at = rng.below(piece.chars().count());
    let pattern: String = piece
        .chars()
        .enumerate()
        .map(|(n, c)| {
            if n == at {
                ".".to_owned()
            } else {
                regex::escape(&c.to_string())
            }
        })
        .collect();
    Needle::regex(&pattern, rng.below(2) == 0).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_find_the_same_as_a_full_scan() {
        let setup = Setup::quick();
        let mut section = Section::new("search");
        measure(&setup, &mut section).unwrap();
        assert_eq!(section.lines.len(), 3);
        for line in &section.lines {
            assert_eq!(line.met, Some(true), "{line:?}: {:?}", section.notes);
        }
    }
}
