//! The messages that a restore would send, and the items that it would leave out, in each format.

use std::collections::BTreeSet;

use filrouge_engine::diagnosis::Diagnosis;
use filrouge_engine::restore::{Block, Plan, Report, RestoreQuery, Selection, Unanswered};
use filrouge_engine::{Caller, Engine};
use filrouge_transcode::{Context, Format, render};
use filrouge_types::{Failure, SessionId};
use serde::Serialize;
use serde::de::IgnoredAny;

/// A restore in one format.
#[derive(Serialize)]
pub(super) struct Restored {
    pub(super) format: &'static str,
    /// `null` when the restore fails.
    pub(super) context: Option<SentContext>,
    /// The error of a restore that fails.
    pub(super) error: Option<RestoreError>,
}

#[derive(Serialize)]
pub(super) struct SentContext {
    /// The number of messages that are sent.
    pub(super) messages: usize,
    /// The items that were kept, left out and changed.
    pub(super) report: Report,
    /// How the context differs with the query parameter `unanswered=error`; `null` when it does not differ.
    pub(super) unanswered_as_errors: Option<WithErrors>,
}

/// The same restore with `unanswered=error`.
#[derive(Serialize)]
pub(super) struct WithErrors {
    pub(super) messages: usize,
    pub(super) kept: usize,
    /// The seqs of the items that are sent only with `unanswered=error`.
    pub(super) restored: Vec<u64>,
    /// The seqs of the calls that `unanswered=error` answers with an error.
    pub(super) answered: Vec<u64>,
}

#[derive(Serialize)]
pub(super) struct RestoreError {
    pub(super) code: &'static str,
    pub(super) detail: String,
}

impl Restored {
    pub(super) const fn is_well(&self) -> bool {
        self.error.is_none()
    }
}

/// Restores the session in each format, or only in `only_format`. All formats except `pairs` are rendered from the
/// same two plans.
pub(super) async fn restore_all(
    engine: &Engine,
    caller: &Caller,
    id: &SessionId,
    only_format: Option<Format>,
) -> Vec<Restored> {
    let formats = || {
        Format::ALL
            .into_iter()
            .filter(|f| only_format.is_none_or(|only| only == *f))
    };
    let query = RestoreQuery::default();
    let errors = RestoreQuery {
        unanswered: Unanswered::Error,
        ..query
    };
    let pairs = RestoreQuery {
        selection: Selection::Pairs,
        ..query
    };
    let mut restored = Vec::new();
    if formats().any(|f| f != Format::Pairs) {
        let dropped = engine.context.restore(caller, id, query).await;
        let answered = engine.context.restore(caller, id, errors).await;
        for format in formats().filter(|f| *f != Format::Pairs) {
            restored.push(restored_as(format, &dropped, Some(&answered)));
        }
    }
    if formats().any(|f| f == Format::Pairs) {
        let plan = engine.context.restore(caller, id, pairs).await;
        restored.push(restored_as(Format::Pairs, &plan, None));
    }
    restored
}

/// Adds the treatment of unanswered calls by the restores to the findings about these calls.
pub(super) fn add_findings(diagnosis: &mut Diagnosis, restored: &[Restored]) {
    let sent = || {
        restored
            .iter()
            .filter_map(|restored| restored.context.as_ref())
    };
    let left_out: BTreeSet<u64> = sent()
        .flat_map(|sent| &sent.report.dropped)
        .filter(|dropped| dropped.reason == "unanswered_call")
        .map(|dropped| dropped.seq)
        .collect();
    let answered: BTreeSet<u64> = sent()
        .filter_map(|sent| sent.unanswered_as_errors.as_ref())
        .flat_map(|with_errors| with_errors.answered.iter().copied())
        .collect();
    for finding in &mut diagnosis.findings {
        if finding.code != "unanswered_call" {
            continue;
        }
        let calls = diagnosis.unanswered.iter();
        let calls = calls.filter(|call| Some(call.turn_id) == finding.turn_id);
        let seqs: BTreeSet<u64> = calls.map(|call| call.seq).collect();
        let dropped: Vec<u64> = seqs.intersection(&left_out).copied().collect();
        match dropped.len() {
            0 => {}
            _ if seqs.len() > dropped.len() => {
                let dropped = ranges(&dropped);
                finding.what += &format!(": restore leaves out the groups of seq {dropped}");
            }
            1 => finding.what += ": restore leaves out its group",
            _ => finding.what += ": restore leaves out their groups",
        }
        if !seqs.is_disjoint(&answered) {
            finding.hint += "; unanswered=error answers them by an error in the restored context";
        }
    }
}

/// Formats ascending numbers as ranges: `1-3, 7`.
pub(super) fn ranges(seqs: &[u64]) -> String {
    let runs = seqs.chunk_by(|a, b| a + 1 == *b);
    let texts = runs.filter_map(|run| match (run.first()?, run.last()?) {
        (first, last) if first == last => Some(first.to_string()),
        (first, last) => Some(format!("{first}-{last}")),
    });
    texts.collect::<Vec<_>>().join(", ")
}

type PlanResult = Result<Plan, Failure>;

/// Renders a restore in one format from the plan `dropped`, which leaves unanswered calls out. The same restore from
/// the plan `answered`, which answers these calls with an error, is added for comparison.
fn restored_as(format: Format, dropped: &PlanResult, answered: Option<&PlanResult>) -> Restored {
    let failed = |failure: &Failure| Restored {
        format: format.as_str(),
        context: None,
        error: Some(RestoreError {
            code: failure.code.as_str(),
            detail: failure.detail.clone(),
        }),
    };
    let sent = match dropped {
        Ok(plan) => render(plan.clone(), format),
        Err(failure) => return failed(failure),
    };
    let unanswered_as_errors = match answered {
        Some(Ok(plan)) => with_errors(&sent, plan, format),
        Some(Err(failure)) => return failed(failure),
        None => None,
    };
    Restored {
        format: format.as_str(),
        context: Some(SentContext {
            messages: message_count(&sent),
            report: sent.report,
            unanswered_as_errors,
        }),
        error: None,
    }
}

fn message_count(context: &Context) -> usize {
    let messages: Result<Vec<IgnoredAny>, _> = serde_json::from_str(context.messages.as_str());
    messages.map_or(0, |messages| messages.len())
}

/// Renders `plan`, which answers unanswered calls with an error, and compares the result with `sent`; `None` if they
/// are equal.
fn with_errors(sent: &Context, plan: &Plan, format: Format) -> Option<WithErrors> {
    let errors = &render(plan.clone(), format);
    if sent == errors {
        return None;
    }
    let left_out = |context: &Context| -> BTreeSet<u64> {
        context.report.dropped.iter().map(|d| d.seq).collect()
    };
    let restored = left_out(sent)
        .difference(&left_out(errors))
        .copied()
        .collect();
    let calls = plan.turns.iter().flat_map(|turn| &turn.blocks);
    let calls = calls.flat_map(|block| match block {
        Block::Calls(calls) => calls.calls.as_slice(),
        Block::Message(_) => &[],
    });
    let unanswered = calls.filter(|call| call.result.seq.is_none());
    Some(WithErrors {
        messages: message_count(errors),
        kept: errors.report.kept,
        restored,
        answered: unanswered.map(|call| call.seq).collect(),
    })
}
