//! The state of a session as text.

use std::collections::BTreeMap;
use std::io::{self, Write};

use filrouge_engine::diagnosis::{
    Diagnosis, Draft, DraftPiece, LastItem, Level, PendingTurn, TurnError, UnansweredCall, count,
    span,
};
use filrouge_store::verify::Verdict;
use filrouge_types::{JsonText, RawJson, Session, TurnStatus};

use super::State;
use super::restored::{Restored, SentContext, ranges};
use crate::output::{first_line, printable, second};

/// The maximum number of characters of a recorded text on one line.
const WIDTH: usize = 100;

pub(super) fn write(out: &mut impl Write, state: &State) -> io::Result<()> {
    let diagnosis = &state.diagnosis;
    head(out, diagnosis)?;
    state.call.write(out)?;
    findings(out, state)?;
    section(
        out,
        "open and interrupted turns",
        &diagnosis.pending,
        pending,
    )?;
    section(out, "drafts", &diagnosis.drafts, draft)?;
    section(out, "unanswered calls", &diagnosis.unanswered, call)?;
    section(out, "errors", &diagnosis.errors, error)?;
    section(out, "last items", &diagnosis.items, item)?;
    section(out, "restore", &state.restore, restored)
}

fn section<T>(
    out: &mut impl Write,
    title: &str,
    all: &[T],
    mut one: impl FnMut(&T) -> Vec<String>,
) -> io::Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}")?;
    for line in all.iter().flat_map(&mut one) {
        writeln!(out, "  {}", line.trim_end())?;
    }
    Ok(())
}

/// A text on one line, cut to [`WIDTH`] characters.
fn short(text: &str) -> String {
    first_line(&text.replace(['\n', '\r', '\t'], " "), WIDTH)
}

fn json(value: Option<&RawJson>) -> String {
    short(value.map_or("", RawJson::as_str))
}

fn head(out: &mut impl Write, diagnosis: &Diagnosis) -> io::Result<()> {
    if let Some(session) = &diagnosis.session {
        session_lines(out, session)?;
    }
    let turns = &diagnosis.turns;
    writeln!(
        out,
        "turns       {} open, {} interrupted, {} failed, {} cancelled, {} finalized",
        turns.open, turns.interrupted, turns.failed, turns.cancelled, turns.finalized
    )?;
    let verification = &diagnosis.verification;
    let word = match verification.status {
        Verdict::Intact => "intact",
        Verdict::Broken => "BROKEN",
        Verdict::CannotTell => "cannot tell",
    };
    writeln!(
        out,
        "verified    {word}: {}, {}",
        count(verification.turns, "turn"),
        count(verification.items, "item")
    )
}

fn session_lines(out: &mut impl Write, session: &Session) -> io::Result<()> {
    let title = session.title.as_deref().unwrap_or("");
    let line = format!("session     {}  {}", session.session_id, short(title));
    writeln!(out, "{}", line.trim_end())?;
    let owner = session
        .identity_id
        .as_ref()
        .map_or_else(|| "anonymous".to_owned(), |i| format!("of {i}"));
    writeln!(
        out,
        "            {}, {}, {}, last seq {}",
        session.status,
        short(&owner),
        count(session.turn_count, "turn"),
        session.last_seq
    )?;
    let (created, updated) = (second(session.created_at), second(session.updated_at));
    writeln!(out, "            created {created}, updated {updated}")
}

fn findings(out: &mut impl Write, state: &State) -> io::Result<()> {
    let findings = &state.diagnosis.findings;
    if findings.is_empty() && state.ok {
        writeln!(out, "\nnothing is wrong")?;
    }
    for finding in findings {
        let word = match finding.level {
            Level::Problem => "PROBLEM",
            Level::Note => "note",
        };
        let what = printable(&finding.what).replace(['\n', '\t'], " ");
        let hint = printable(&finding.hint).replace(['\n', '\t'], " ");
        writeln!(out, "\n{word:<8} {}", first_line(&what, 400))?;
        writeln!(out, "         hint: {}", first_line(&hint, 400))?;
    }
    Ok(())
}

fn pending(turn: &PendingTurn) -> Vec<String> {
    let request = turn.request_id.as_ref().map_or("?", |r| r.as_str());
    let mut lines = vec![
        format!(
            "{}  {}  request_id {}",
            turn.turn_id,
            turn.status,
            short(request)
        ),
        format!(
            "  turn {}, seq {} to {}, {}, last written {} ago",
            turn.ordinal,
            turn.first_seq,
            turn.last_seq,
            count(turn.items, "item"),
            span(turn.silent_ms)
        ),
    ];
    if let Some(recorder) = &turn.recorder {
        let gone = if recorder.gone { ", which is gone" } else { "" };
        lines.push(format!(
            "  stream {} by {:?}{gone}, begun {}, last heartbeat {} ago",
            recorder.stream,
            short(&recorder.writer),
            second(recorder.begun_at),
            span(recorder.beat_age_ms)
        ));
    }
    if turn.waits_for_human {
        lines.push("  waits for a human".to_owned());
    }
    if turn.status == TurnStatus::Open
        && let Some(left) = turn.interrupted_in_ms
    {
        lines.push(format!(
            "  interrupted in {} if nothing is written",
            span(left)
        ));
    }
    lines
}

fn draft(draft: &Draft) -> Vec<String> {
    let head = format!(
        "turn {}  stream {}  {} in {}, chunk {}",
        draft.turn_id,
        draft.stream,
        count(draft.chars, "character"),
        count(draft.pieces.len() as u64, "piece"),
        draft.chunk
    );
    let shown = draft.pieces.iter().map(piece);
    [head].into_iter().chain(shown).collect()
}

fn piece(piece: &DraftPiece) -> String {
    let done = if piece.done { "done" } else { "growing" };
    let plain = |text: &Option<JsonText>| text.as_ref().map(JsonText::to_plain);
    let value = piece.value.as_ref().map(|v| v.as_str().to_owned());
    let texts = [
        plain(&piece.call_id),
        plain(&piece.name),
        plain(&piece.args),
    ];
    let texts = texts
        .into_iter()
        .chain([plain(&piece.text), value])
        .flatten();
    format!(
        "  {}.{}  {:<9} {:<7} {:>6}  {}",
        piece.number,
        piece.part,
        piece.kind,
        done,
        piece.chars,
        short(&texts.collect::<Vec<_>>().join(" "))
    )
}

fn call(call: &UnansweredCall) -> Vec<String> {
    let tool = call.tool.as_deref().unwrap_or("");
    vec![
        format!(
            "{:>5}  {}  {} {}",
            call.seq,
            short(&call.call_id),
            short(tool),
            json(call.args.as_ref())
        ),
        format!(
            "       turn {}, {}, called {} ago",
            call.turn_id,
            call.turn_status,
            span(call.age_ms)
        ),
    ]
}

fn error(error: &TurnError) -> Vec<String> {
    let or_dash = |text: &Option<String>| short(text.as_deref().unwrap_or("-"));
    let retryable = match error.retryable {
        Some(true) => "retryable",
        Some(false) => "not retryable",
        None => "retryable or not: unknown",
    };
    let mut lines = vec![
        format!(
            "{:>5}  {}: {}",
            error.seq,
            or_dash(&error.code),
            or_dash(&error.message)
        ),
        format!(
            "       turn {}, source {}, {retryable}, {}",
            error.turn_id,
            or_dash(&error.source),
            second(error.at)
        ),
    ];
    if error.detail.is_some() {
        lines.push(format!("       detail {}", json(error.detail.as_ref())));
    }
    lines
}

fn item(item: &LastItem) -> Vec<String> {
    let names = [item.agent.as_deref(), item.model.as_deref()];
    let names: Vec<&str> = names.into_iter().flatten().collect();
    let by = match names.is_empty() {
        true => String::new(),
        false => format!("({}) ", short(&names.join(" "))),
    };
    let text = if item.redacted {
        "(redacted)"
    } else {
        &item.text
    };
    let more = if item.cut { "…" } else { "" };
    vec![format!(
        "{:>5}  {:<9} {:<12} {by}{}",
        item.seq,
        item.role.as_str(),
        short(item.channel.as_str()),
        short(&format!("{text}{more}"))
    )]
}

fn restored(restored: &Restored) -> Vec<String> {
    let format = restored.format;
    if let Some(error) = &restored.error {
        return vec![format!(
            "{format:<17} {}: {}",
            error.code,
            short(&error.detail)
        )];
    }
    restored
        .context
        .as_ref()
        .map_or_else(Vec::new, |sent| sent_lines(format, sent))
}

fn sent_lines(format: &str, sent: &SentContext) -> Vec<String> {
    let report = &sent.report;
    let mut lines = vec![format!(
        "{format:<17} {}: {} kept, {} left out, {} changed",
        count(sent.messages as u64, "message"),
        count(report.kept as u64, "item"),
        report.dropped.len(),
        report.adapted.len()
    )];
    let dropped = report.dropped.iter().map(|d| (d.reason, d.seq));
    lines.extend(by_reason("left out", dropped));
    let adapted = report.adapted.iter().map(|a| (a.change, a.seq));
    lines.extend(by_reason("changed", adapted));
    if let Some(other) = &sent.unanswered_as_errors {
        lines.push(format!(
            "  with unanswered=error: {}, {} kept; restored: {}; answered by an error: {}",
            count(other.messages as u64, "message"),
            count(other.kept as u64, "item"),
            short(&ranges(&other.restored)),
            short(&ranges(&other.answered))
        ));
    }
    lines
}

fn by_reason<'a>(
    word: &'a str,
    all: impl Iterator<Item = (&'static str, u64)>,
) -> impl Iterator<Item = String> + 'a {
    let mut reasons: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (reason, seq) in all {
        reasons.entry(reason).or_default().push(seq);
    }
    let line = move |(reason, seqs): (&str, Vec<u64>)| {
        format!("  {word}, {reason}: {}", short(&ranges(&seqs)))
    };
    reasons.into_iter().map(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_numbers_are_reported_as_ranges() {
        assert_eq!(ranges(&[1, 2, 3, 7, 9, 10]), "1-3, 7, 9-10");
        assert_eq!(ranges(&[]), "");
    }

    #[test]
    fn texts_stay_on_one_line_without_control_characters() {
        assert_eq!(short("a\nb\u{1b}[2J\tc"), "a b\u{fffd}[2J c");
        assert_eq!(short(&"x".repeat(500)).chars().count(), WIDTH);
    }
}
