//! The findings of a diagnosis: sentences, each with a hint.

use std::collections::BTreeMap;

use filrouge_store::verify::Verdict;
use filrouge_types::{SessionStatus, TurnId, TurnStatus};
use serde::Serialize;

use super::report::{Diagnosis, FailedTurn, PendingTurn, Recorder, UnansweredCall, Unreadable};

/// The maximum number of calls that one sentence names.
const NAMED_MAX: usize = 5;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// An operator should act on it.
    Problem,
    /// Expected, or only of interest.
    Note,
}

/// One finding of a diagnosis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The severity.
    pub level: Level,
    /// The code: `not_intact`, `not_verified`, `unverified`, `unreadable`, `stream_abandoned`, `turn_silent`,
    /// `turn_failed`, `turn_interrupted`, `unanswered_call`, `turn_recorded`, `turn_open`, `waits_for_human`, `draft`,
    /// `session_ended`.
    pub code: &'static str,
    /// The finding as a sentence.
    pub what: String,
    /// The action that the operator can take.
    pub hint: String,
    /// The turn that the finding concerns.
    pub turn_id: Option<TurnId>,
    /// The item that the finding concerns.
    pub seq: Option<u64>,
}

impl Finding {
    fn new(level: Level, code: &'static str, what: impl Into<String>, hint: &str) -> Self {
        Self {
            level,
            code,
            what: what.into(),
            hint: hint.to_owned(),
            turn_id: None,
            seq: None,
        }
    }

    fn of_turn(mut self, turn: TurnId, seq: u64) -> Self {
        (self.turn_id, self.seq) = (Some(turn), Some(seq));
        self
    }
}

/// All findings of a diagnosis, problems first.
pub(super) fn derive_findings(diagnosis: &Diagnosis) -> Vec<Finding> {
    let mut findings: Vec<Finding> = verification_finding(diagnosis).into_iter().collect();
    findings.extend(diagnosis.unreadable.iter().map(unreadable_finding));
    let newest_ordinal = diagnosis.session.as_ref().map_or(0, |s| s.turn_count);
    // Once newer turns exist, the finding is only a note.
    let level_of = |ordinal: u64| match ordinal == newest_ordinal {
        true => Level::Problem,
        false => Level::Note,
    };
    let pending = diagnosis.pending.iter();
    findings.extend(pending.map(|turn| pending_finding(diagnosis, turn, level_of(turn.ordinal))));
    let failed = diagnosis.failed.iter();
    findings.extend(failed.map(|turn| failed_finding(diagnosis, turn, level_of(turn.ordinal))));
    findings.extend(unanswered_findings(&diagnosis.unanswered));
    findings.extend(diagnosis.drafts.iter().map(|draft| {
        let age = super::report::age_ms(diagnosis.at, draft.beat_at);
        let what = format!(
            "the draft of turn {} was last written {} ago: {} in {}",
            draft.turn_id,
            format_duration(age),
            format_count(draft.chars, "character"),
            format_count(draft.pieces.len() as u64, "piece")
        );
        let hint = "it is kept as items when the turn ends, however it ends";
        Finding {
            turn_id: Some(draft.turn_id),
            ..Finding::new(Level::Note, "draft", what, hint)
        }
    }));
    findings.extend(ended_session_finding(diagnosis));
    findings.sort_by_key(|finding| finding.level);
    findings
}

fn verification_finding(diagnosis: &Diagnosis) -> Option<Finding> {
    let verification = &diagnosis.verification;
    let first = verification.findings.first();
    let detail = first.map_or_else(String::new, |f| format!(": {}", f.what));
    let seq = first.and_then(|f| f.seq);
    let finding = match verification.status {
        Verdict::Intact => return None,
        Verdict::Broken => Finding::new(
            Level::Problem,
            "not_intact",
            format!("the session is not what was written{detail}"),
            "`filrouge verify` lists all damage in the store; restore the newest backup",
        ),
        Verdict::CannotTell if first.is_some() => Finding::new(
            Level::Problem,
            "not_verified",
            format!("it is unknown whether the session is what was written{detail}"),
            "put the keyring file back, or read with --unverified",
        ),
        Verdict::CannotTell => Finding::new(
            Level::Note,
            "unverified",
            "links were checked but MACs were not, so it is unknown who wrote the session",
            "leave --unverified out once the keyring is back",
        ),
    };
    Some(Finding { seq, ..finding })
}

fn unreadable_finding(part: &Unreadable) -> Finding {
    let name = match (part.first_seq, part.last_seq) {
        (Some(first), Some(last)) if first < last => format!("items {first} to {last}"),
        (Some(first), _) => format!("item {first}"),
        _ if part.what == "session" => "the session".to_owned(),
        _ => format!("the {} of the session", part.what),
    };
    let what = format!("{name} cannot be read: {}", part.detail);
    let hint = "--unverified may show more, without verification";
    Finding {
        seq: part.first_seq,
        ..Finding::new(Level::Problem, "unreadable", what, hint)
    }
}

fn pending_finding(diagnosis: &Diagnosis, turn: &PendingTurn, level: Level) -> Finding {
    let id = turn.turn_id;
    let silent = format_duration(turn.silent_ms);
    let finding = match (&turn.recorder, turn.interrupted_in_ms) {
        _ if turn.status == TurnStatus::Interrupted => {
            let what = format!("turn {id} was interrupted {silent} ago, before it ended");
            let hint = match &turn.request_id {
                Some(request) => format!("start it again with request_id {:?}", request.as_str()),
                None => "start it again with its request_id".to_owned(),
            };
            Finding::new(level, "turn_interrupted", what, &hint)
        }
        (Some(recorder), Some(remaining_ms)) => {
            stream_finding(diagnosis, id, recorder, remaining_ms)
        }
        (_, None) => Finding::new(
            Level::Note,
            "waits_for_human",
            format!("turn {id} is open and has waited for a human for {silent}"),
            "append the answer as hitl_response; until then it is not interrupted",
        ),
        (None, Some(0)) => Finding::new(
            Level::Problem,
            "turn_silent",
            format!("turn {id} is open, without a write for {silent}"),
            "a running server marks it as interrupted within half a minute; or end it by fail or cancel",
        ),
        (None, Some(remaining_ms)) => Finding::new(
            Level::Note,
            "turn_open",
            format!(
                "turn {id} is open and not being recorded: interrupted in {} unless something is written",
                format_duration(remaining_ms)
            ),
            "its caller appends to it, or ends it",
        ),
    };
    finding.of_turn(id, turn.last_seq)
}

/// The finding about an open turn whose stream is recorded. `remaining_ms` is the time in milliseconds until the sweep
/// may interrupt the turn.
fn stream_finding(
    diagnosis: &Diagnosis,
    id: TurnId,
    recorder: &Recorder,
    remaining_ms: u64,
) -> Finding {
    let (stream, beat) = (&recorder.stream, format_duration(recorder.beat_age_ms));
    if recorder.gone || remaining_ms == 0 {
        let reason = match recorder.gone {
            true => "the recording process is gone",
            false => "its process sends no heartbeat",
        };
        return Finding::new(
            Level::Problem,
            "stream_abandoned",
            format!(
                "turn {id} is open and stream {stream} is no longer recorded: {reason}, last seen {beat} ago"
            ),
            "a running server marks it as interrupted within half a minute and keeps what the draft shows; or end it by fail or cancel",
        );
    }
    let session = diagnosis.session.as_ref();
    let session = session.map_or("ID", |s| s.session_id.as_str());
    Finding::new(
        Level::Note,
        "turn_recorded",
        format!(
            "turn {id} is open and stream {stream} is being recorded, last heartbeat {beat} ago"
        ),
        &format!(
            "follow it with `filrouge sessions tail {session} --drafts`; cancel the turn to end it"
        ),
    )
}

fn failed_finding(diagnosis: &Diagnosis, turn: &FailedTurn, level: Level) -> Finding {
    let error = diagnosis.errors.iter().rfind(|e| e.turn_id == turn.turn_id);
    let non_empty = |text: &Option<String>| text.clone().filter(|t| !t.is_empty());
    let error_texts = error.map(|e| [non_empty(&e.code), non_empty(&e.message)]);
    let error_texts: Vec<String> = error_texts.into_iter().flatten().flatten().collect();
    let age = format_duration(super::report::age_ms(diagnosis.at, turn.since));
    let what = format!(
        "turn {} failed {age} ago: {}",
        turn.turn_id,
        error_texts.join(": ")
    );
    let hint = match error.and_then(|e| e.retryable) {
        Some(true) => "asking again can help: ask in a new turn, or replace this one",
        Some(false) => "asking the same again does not help: see the error",
        None => "the turn's last item holds the error",
    };
    let what = what.trim_end_matches(": ");
    Finding::new(level, "turn_failed", what, hint).of_turn(turn.turn_id, turn.last_seq)
}

/// One finding for each turn with unanswered calls, in order of the turns' first such call.
fn unanswered_findings(calls: &[UnansweredCall]) -> Vec<Finding> {
    let mut turns: BTreeMap<u64, Vec<&UnansweredCall>> = BTreeMap::new();
    for call in calls {
        let first = calls.iter().find(|c| c.turn_id == call.turn_id);
        let first_seq = first.map_or(0, |c| c.seq);
        turns.entry(first_seq).or_default().push(call);
    }
    turns
        .into_values()
        .map(|calls| unanswered_finding(&calls))
        .collect()
}

fn unanswered_finding(calls: &[&UnansweredCall]) -> Finding {
    let first = calls[0];
    let first_names = calls.iter().take(NAMED_MAX).map(|call| match &call.tool {
        Some(tool) => format!("{} ({tool})", call.call_id),
        None => call.call_id.clone(),
    });
    let mut names = first_names.collect::<Vec<_>>().join(", ");
    if calls.len() > NAMED_MAX {
        names = format!("{names} and {} more", calls.len() - NAMED_MAX);
    }
    let id = first.turn_id;
    let what = if calls.len() == 1 {
        format!("turn {id} has an unanswered call {names}")
    } else {
        format!("turn {id} has unanswered calls {names}")
    };
    let (level, hint) = match first.turn_status {
        TurnStatus::Open => (Level::Note, "the answers may still come"),
        _ => (Level::Problem, "no answer will come any more"),
    };
    Finding::new(level, "unanswered_call", what, hint).of_turn(id, first.seq)
}

fn ended_session_finding(diagnosis: &Diagnosis) -> Option<Finding> {
    let session = diagnosis.session.as_ref()?;
    let (what, hint) = match session.status {
        SessionStatus::Active => return None,
        SessionStatus::Paused => ("the session is paused", "a new turn continues it"),
        SessionStatus::Closed => (
            "the session is closed: no turn can begin in it",
            "patch its status to active, or create another session",
        ),
    };
    Some(Finding::new(Level::Note, "session_ended", what, hint))
}

/// Formats a number with its noun, which gets a plural `s` unless the number is 1.
pub fn format_count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Formats a duration in the largest unit in which it is at least 2, rounded down; below 2 s in milliseconds.
pub fn format_duration(ms: u64) -> String {
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "min"),
        (1_000, "s"),
    ];
    let largest_unit = units.into_iter().find(|(unit, _)| ms >= 2 * unit);
    match largest_unit {
        Some((unit, name)) => format!("{} {name}", ms / unit),
        None => format!("{ms} ms"),
    }
}
