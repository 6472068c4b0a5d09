//! `search --quality`: the ranking of the sessions of the judged queries: by words, by meaning, and by both.

use std::path::Path;

use anyhow::{Context, Result};
use comfy_table::{Table, presets};
use filrouge_search::{Mode, SearchRequest, Searcher};

use super::judged::{JudgedCorpus, Kind, Query, queries};
use super::score::{Score, mean, score};
use super::searchers::SourceIndexes;
use super::{corpora, searchers};
use crate::Setup;
use crate::report::{Line, Section, Target};

/// The number of sessions in a result that are examined.
const MAX_EXAMINED: usize = 50;

/// The number of listed queries whose score drops most.
const MAX_WORST: usize = 12;

/// The search modes, in the order of the table.
const MODES: [(&str, Mode); 3] = [
    ("words", Mode::Words),
    ("meaning", Mode::Meaning),
    ("both", Mode::Both),
];

/// A query, and its score in each of [`MODES`].
struct ScoredQuery {
    query: Query,
    scores: [Score; MODES.len()],
}

/// `search --quality`.
pub(super) fn measure(setup: &Setup, model: Option<&Path>, section: &mut Section) -> Result<()> {
    let scored = score_queries(setup, model, section)?;
    let all = |mode: usize| mean_score(&scored, mode, |_| true);
    let (words, meaning, both) = (all(0), all(1), all(2));
    for (name, alone) in [("words", words), ("meaning", meaning)] {
        let label = format!("quality: nDCG@10 of both / of {name} alone");
        let shown = (format!("{:.3}", both.ndcg), format!("{:.3}", alone.ndcg));
        let (product, limit) = ([both.ndcg], [alone.ndcg]);
        section.lines.push(Line::pairs(
            &label,
            &product,
            &limit,
            Target::AtLeast(1.0),
            shown,
        ));
    }
    section.notes.push(table(&scored));
    section.notes.extend(worst_queries(&scored));
    Ok(())
}

/// Searches for every judged query in every mode.
fn score_queries(
    setup: &Setup,
    model: Option<&Path>,
    section: &mut Section,
) -> Result<Vec<ScoredQuery>> {
    let dir = setup.dir()?;
    let (embedder, note) = searchers::embedder(model)?;
    section.notes.push(format!("quality: {note}"));
    let queries = queries()?;
    let mut scored = Vec::new();
    for corpus in JudgedCorpus::ALL {
        let sources = corpora::sources(corpus, dir.path())?;
        let library = corpora::library(sources.clone());
        let folder = dir.path().join(format!("{}-index", corpus.name()));
        let indexes = SourceIndexes::open(&sources, &folder)?;
        indexes.index_everything()?;
        searchers::embed(&indexes.each, &embedder)?;
        let searcher = indexes
            .searcher(&library)
            .with_embedder(Some(embedder.clone()));
        for query in queries.iter().filter(|query| query.corpus == corpus) {
            let mut scores = [Score::default(); MODES.len()];
            for (score, (_, mode)) in scores.iter_mut().zip(MODES) {
                *score = score_query(&searcher, query, mode)?;
            }
            scored.push(ScoredQuery {
                query: query.clone(),
                scores,
            });
        }
    }
    Ok(scored)
}

fn score_query(searcher: &Searcher, query: &Query, mode: Mode) -> Result<Score> {
    let request = SearchRequest {
        mode,
        ..searchers::words_request(&query.text, MAX_EXAMINED)
    };
    let found = searchers::search(searcher, &request).with_context(|| query.text.clone())?;
    let order: Vec<String> = found
        .sessions
        .into_iter()
        .map(|hit| hit.session.id)
        .collect();
    Ok(score(&order, &query.relevant))
}

/// The mean score of the selected queries in one mode.
fn mean_score(scored: &[ScoredQuery], mode: usize, is_selected: impl Fn(&Query) -> bool) -> Score {
    let selected = scored.iter().filter(|one| is_selected(&one.query));
    mean(selected.filter_map(|one| one.scores.get(mode).copied()))
}

/// The queries whose score drops most when they are searched by words and meaning instead of by words alone.
fn worst_queries(scored: &[ScoredQuery]) -> Vec<String> {
    let loss = |one: &ScoredQuery| {
        let [words, _, both] = one.scores;
        words.ndcg - both.ndcg
    };
    let mut all: Vec<_> = scored.iter().filter(|one| loss(one) > 0.01).collect();
    all.sort_by(|a, b| loss(b).total_cmp(&loss(a)));
    let describe = |one: &&ScoredQuery| {
        let [words, _, both] = one.scores;
        let Query {
            text, kind, why, ..
        } = &one.query;
        format!(
            "quality: {kind} {text:?}: {:.3} by words, {:.3} by both ({why})",
            words.ndcg, both.ndcg
        )
    };
    all.iter().take(MAX_WORST).map(describe).collect()
}

/// nDCG@10, recall@10 and MRR of every mode, by kind, by language and in total.
fn table(scored: &[ScoredQuery]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let mut header = vec!["queries".to_owned(), "n".to_owned()];
    header.extend(MODES.map(|(name, _)| format!("{name}: nDCG@10 · recall@10 · MRR")));
    header.push("both >= each".to_owned());
    table.set_header(header);
    let mut row = |name: String, is_selected: &dyn Fn(&Query) -> bool| {
        let n = scored.iter().filter(|one| is_selected(&one.query)).count();
        if n == 0 {
            return;
        }
        let scores = [0, 1, 2].map(|mode| mean_score(scored, mode, is_selected));
        let mut cells = vec![name, n.to_string()];
        cells.extend(
            scores.map(|s| format!("{:.3} · {:.3} · {:.3}", s.ndcg, s.recall, s.reciprocal)),
        );
        let [words, meaning, both] = scores;
        let best = both.ndcg >= words.ndcg && both.ndcg >= meaning.ndcg;
        cells.push(if best { "yes" } else { "NO" }.to_owned());
        table.add_row(cells);
    };
    for kind in Kind::ALL {
        row(kind.to_string(), &|query| query.kind == kind);
    }
    for (language, name) in [
        ("en", "asked in English"),
        ("fr", "in French"),
        ("zh", "in Chinese"),
    ] {
        row(name.to_owned(), &|query| query.language == language);
    }
    for corpus in JudgedCorpus::ALL {
        row(format!("of {}", corpus.name()), &|query| {
            query.corpus == corpus
        });
    }
    row("all".to_owned(), &|_| true);
    format!("quality, by kind of query:\n\n{table}\n")
}
