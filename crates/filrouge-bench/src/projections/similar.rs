//! Similar questions through Weaviate: recall against exact vectors, and latency.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use filrouge_projections::{Projection, SimilarQuery};
use filrouge_search::embed::{Embedder, Hashing};
use filrouge_search::{NamedTurn, SearchRequest, Searcher, SimilarQuestion, SimilarTurns};
use filrouge_types::{ErrorCode, Failure, SessionId, TenantId};
use tokio::runtime::Handle;

use super::recorded::{RecordedLedger, TURNS_PER_SESSION};
use crate::Setup;
use crate::report::{Line, Section, Target, progress};
use crate::search::{IndexedEngine, open_ledger_index, operator};
use crate::stats::{micros, quantiles};
use crate::workload::{Turns, session_id};

/// The least recall among the first [`PLACES`] turns.
const RECALL_BAR: f64 = 0.9;
/// The greatest median of a search, in ms.
const MEDIAN_BAR: f64 = 10.0;
/// The number of turns that are compared.
const PLACES: usize = 10;
/// The number of questions, full and with `--quick`.
const QUESTIONS: (usize, usize) = (200, 5);
/// Vectors that differ by less are equally near: servers compute with single precision.
const TOLERANCE: f32 = 1e-5;

/// Measures searches through a filled projection with vectors.
pub(super) async fn measure(
    setup: &Setup,
    ledger: &RecordedLedger,
    projection: &Arc<Projection>,
    section: &mut Section,
) -> Result<()> {
    let questions = questions(setup, ledger);
    progress("Weaviate: recall of similar questions");
    let exact = tokio::task::block_in_place(|| ExactVectors::of(ledger))?;
    let recall = recall(ledger, projection, &questions, &exact).await?;
    section.lines.push(Line::number(
        &format!("Weaviate: recall@{PLACES} of similar turns / exact vectors"),
        recall,
        Target::AtLeast(RECALL_BAR),
        format!(
            "{} questions, {} turns",
            questions.len(),
            exact.vectors.len()
        ),
    ));
    drop(exact);
    progress("Weaviate: the ledger's index, which confirms similar questions");
    let index = open_ledger_index(ledger.product.ledger.as_ref(), ledger.dir.path())?;
    let indexed = IndexedEngine::new(&ledger.product, index);
    indexed.catch_up().await?;
    let named: Arc<dyn SimilarTurns> = Arc::new(ProjectedTurns {
        projection: projection.clone(),
        runtime: Handle::current(),
    });
    for (who, caller) in [
        ("an end user", ledger.end_user()),
        ("the operator", operator()),
    ] {
        progress(format_args!("Weaviate: similar questions of {who}"));
        let searcher = indexed
            .searcher(caller)
            .with_embedder(Some(Arc::new(Hashing)))
            .with_similar_turns(Some(named.clone()));
        let latencies = tokio::task::block_in_place(|| time(&searcher, &questions))?;
        let [p50, p95] = quantiles(latencies, [0.5, 0.95]).map(|micros| micros / 1000.0);
        section.lines.push(Line::number(
            &format!("Weaviate: `similar` of {who}: p50, ms"),
            p50,
            Target::AtMost(MEDIAN_BAR),
            format!("{p50:.2} ms, p95 {p95:.2} ms"),
        ));
    }
    section.notes.push(
        "similar: embedded by hashes of words, which take less time than a model; the search also confirms each turn by the ledger's index and reads it"
            .to_owned(),
    );
    Ok(())
}

/// The first halves of recorded questions, evenly spaced.
fn questions(setup: &Setup, ledger: &RecordedLedger) -> Vec<String> {
    let count = setup.size(QUESTIONS.0, QUESTIONS.1);
    let sessions = (0..count).map(|n| n * ledger.sessions / count);
    let question = |session: usize| {
        let mut question = Turns::new(session as u64).next_turn().question;
        question.truncate(question.len() / 2);
        question
    };
    sessions.map(question).collect()
}

/// The vectors of all turns, computed as for the target.
struct ExactVectors {
    vectors: Vec<Vec<f32>>,
    /// The position of each turn in `vectors`.
    positions: HashMap<(SessionId, u64), usize>,
}

impl ExactVectors {
    fn of(ledger: &RecordedLedger) -> Result<Self> {
        let (mut vectors, mut positions) = (Vec::new(), HashMap::new());
        for session in 0..ledger.sessions {
            let turns = Turns::new(session as u64).next_turns(TURNS_PER_SESSION);
            for (ordinal, turn) in (1..).zip(turns) {
                let text = format!("{}\n\n{}", turn.question, turn.answer);
                positions.insert((session_id(session)?, ordinal), vectors.len());
                vectors.extend(Hashing.embed(&[&text])?);
            }
        }
        Ok(Self { vectors, positions })
    }

    /// The similarity of each turn to a vector.
    fn products(&self, vector: &[f32]) -> Vec<f32> {
        let product = |of: &Vec<f32>| of.iter().zip(vector).map(|(a, b)| a * b).sum::<f32>();
        self.vectors.iter().map(product).collect()
    }
}

/// The share of the most similar turns that the projection names.
async fn recall(
    ledger: &RecordedLedger,
    projection: &Projection,
    questions: &[String],
    exact: &ExactVectors,
) -> Result<f64> {
    let (mut named, mut expected) = (0, 0);
    for question in questions {
        let vector = Hashing.embed(&[question])?.into_iter().next();
        let vector = vector.context("no vector")?;
        let products = exact.products(&vector);
        let mut sorted = products.clone();
        sorted.sort_by(|a, b| b.total_cmp(a));
        sorted.truncate(PLACES);
        let least = sorted.last().context("no turns")? - TOLERANCE;
        let query = SimilarQuery {
            tenant: TenantId::default_tenant(),
            // For one owner, vectors alone are compared.
            owner: Some(ledger.owner.clone()),
            text: question.clone(),
            vector,
            limit: PLACES,
        };
        let found = projection.similar(&query).await?;
        for turn in found.context("the projection has no vectors")? {
            let place = (turn.session, turn.ordinal);
            let position = exact.positions.get(&place);
            let position = *position.with_context(|| format!("no such turn: {place:?}"))?;
            named += usize::from(products[position] >= least);
        }
        expected += sorted.len();
    }
    Ok(named as f64 / expected as f64)
}

/// The duration of a search for each question, µs.
fn time(searcher: &Searcher, questions: &[String]) -> Result<Vec<f64>> {
    let mut latencies = Vec::with_capacity(questions.len());
    let (warming, _) = questions.split_at(questions.len() / 4);
    for (number, question) in warming.iter().chain(questions).enumerate() {
        let request = SearchRequest {
            similar: Some(question.clone()),
            limit: PLACES,
            ..SearchRequest::default()
        };
        let call_start = Instant::now();
        let results = searcher.search(&request, &|| false)?;
        if number >= warming.len() {
            latencies.push(micros(call_start));
        }
        let mut excerpts = results.sessions.iter().flat_map(|hit| &hit.excerpts);
        ensure!(
            // The index of this ledger has no vectors.
            excerpts.any(|excerpt| excerpt.score.is_some()),
            "{question:?} was not answered by the projection: {:?}",
            results.notices
        );
    }
    Ok(latencies)
}

/// The projection as what names similar turns, as in the program.
struct ProjectedTurns {
    projection: Arc<Projection>,
    runtime: Handle,
}

impl SimilarTurns for ProjectedTurns {
    fn similar(&self, question: &SimilarQuestion<'_>) -> Result<Option<Vec<NamedTurn>>, Failure> {
        let query = SimilarQuery {
            tenant: question.tenant.clone(),
            owner: question.owner.cloned(),
            text: question.text.to_owned(),
            vector: question.vector.to_vec(),
            limit: question.limit,
        };
        let found = self.runtime.block_on(self.projection.similar(&query));
        let found = found.map_err(|e| Failure::new(ErrorCode::Overloaded, e.to_string()))?;
        let turns = found.map(|turns| {
            let turns = turns.into_iter().map(|turn| NamedTurn {
                session: turn.session,
                ordinal: turn.ordinal,
                score: turn.score,
            });
            turns.collect()
        });
        Ok(turns)
    }
}
