//! The state of a session as text.

use std::collections::BTreeMap;
use std::io::{self, Write};

use filrouge_engine::diagnosis::{
    Diagnosis, Draft, DraftPiece, LastItem, Level, PendingTurn, TurnError, UnansweredCall,
    format_count, format_duration,
};
use filrouge_types::{JsonText, RawJson, Session, TurnStatus};

use super::super::verify::verdict_text;
use super::State;
use super::restored::{Restored, SentContext, ranges};
use crate::output::{first_line, utc_time};

/// The maximum number of characters of a recorded text on one line.
const WIDTH: usize = 100;

pub(super) fn write(out: &mut impl Write, state: &State) -> io::Result<()> {
    let diagnosis = &state.diagnosis;
    write_head(out, diagnosis)?;
    state.call.write(out)?;
    write_findings(out, state)?;
    write_section(
        out,
        "open and interrupted turns",
        &diagnosis.pending,
        pending_lines,
    )?;
    write_section(out, "drafts", &diagnosis.drafts, draft_lines)?;
    write_section(out, "unanswered calls", &diagnosis.unanswered, call_lines)?;
    write_section(out, "errors", &diagnosis.errors, error_lines)?;
    write_section(out, "last items", &diagnosis.items, item_lines)?;
    write_section(out, "restore", &state.restore, restored_lines)
}

fn write_section<T>(
    out: &mut impl Write,
    title: &str,
    entries: &[T],
    mut to_lines: impl FnMut(&T) -> Vec<String>,
) -> io::Result<()> {
    if entries.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{title}")?;
    for line in entries.iter().flat_map(&mut to_lines) {
        writeln!(out, "  {}", line.trim_end())?;
    }
    Ok(())
}

/// A text on one line, cut to [`WIDTH`] characters.
fn one_line(text: &str) -> String {
    first_line(&text.replace(['\n', '\r', '\t'], " "), WIDTH)
}

fn json(value: Option<&RawJson>) -> String {
    one_line(value.map_or("", RawJson::as_str))
}

fn write_head(out: &mut impl Write, diagnosis: &Diagnosis) -> io::Result<()> {
    if let Some(session) = &diagnosis.session {
        write_session(out, session)?;
    }
    let turns = &diagnosis.turns;
    writeln!(
        out,
        "turns       {} open, {} interrupted, {} failed, {} cancelled, {} finalized",
        turns.open, turns.interrupted, turns.failed, turns.cancelled, turns.finalized
    )?;
    let verification = &diagnosis.verification;
    writeln!(
        out,
        "verified    {}: {}, {}",
        verdict_text(verification.status),
        format_count(verification.turns, "turn"),
        format_count(verification.items, "item")
    )
}

fn write_session(out: &mut impl Write, session: &Session) -> io::Result<()> {
    let title = session.title.as_deref().unwrap_or("");
    let line = format!("session     {}  {}", session.session_id, one_line(title));
    writeln!(out, "{}", line.trim_end())?;
    let owner = session
        .identity_id
        .as_ref()
        .map_or_else(|| "anonymous".to_owned(), |i| format!("of {i}"));
    writeln!(
        out,
        "            {}, {}, {}, last seq {}",
        session.status,
        one_line(&owner),
        format_count(session.turn_count, "turn"),
        session.last_seq
    )?;
    let (created, updated) = (utc_time(session.created_at), utc_time(session.updated_at));
    writeln!(out, "            created {created}, updated {updated}")
}

fn write_findings(out: &mut impl Write, state: &State) -> io::Result<()> {
    let findings = &state.diagnosis.findings;
    if findings.is_empty() && state.ok {
        writeln!(out, "\nnothing is wrong")?;
    }
    for finding in findings {
        let level = match finding.level {
            Level::Problem => "PROBLEM",
            Level::Note => "note",
        };
        let what = finding.what.replace(['\n', '\t'], " ");
        let hint = finding.hint.replace(['\n', '\t'], " ");
        writeln!(out, "\n{level:<8} {}", first_line(&what, 400))?;
        writeln!(out, "         hint: {}", first_line(&hint, 400))?;
    }
    Ok(())
}

fn pending_lines(turn: &PendingTurn) -> Vec<String> {
    let request = turn.request_id.as_ref().map_or("?", |r| r.as_str());
    let mut lines = vec![
        format!(
            "{}  {}  request_id {}",
            turn.turn_id,
            turn.status,
            one_line(request)
        ),
        format!(
            "  turn {}, seq {} to {}, {}, last written {} ago",
            turn.ordinal,
            turn.first_seq,
            turn.last_seq,
            format_count(turn.items, "item"),
            format_duration(turn.silent_ms)
        ),
    ];
    if let Some(recorder) = &turn.recorder {
        let note = if recorder.gone { ", which is gone" } else { "" };
        lines.push(format!(
            "  stream {} by {:?}{note}, begun {}, last heartbeat {} ago",
            recorder.stream,
            one_line(&recorder.writer),
            utc_time(recorder.begun_at),
            format_duration(recorder.beat_age_ms)
        ));
    }
    if turn.waits_for_human {
        lines.push("  waits for a human".to_owned());
    }
    if turn.status == TurnStatus::Open
        && let Some(remaining) = turn.interrupted_in_ms
    {
        lines.push(format!(
            "  interrupted in {} if nothing is written",
            format_duration(remaining)
        ));
    }
    lines
}

fn draft_lines(draft: &Draft) -> Vec<String> {
    let head = format!(
        "turn {}  stream {}  {} in {}, chunk {}",
        draft.turn_id,
        draft.stream,
        format_count(draft.chars, "character"),
        format_count(draft.pieces.len() as u64, "piece"),
        draft.chunk
    );
    let pieces = draft.pieces.iter().map(piece_line);
    [head].into_iter().chain(pieces).collect()
}

fn piece_line(piece: &DraftPiece) -> String {
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
        one_line(&texts.collect::<Vec<_>>().join(" "))
    )
}

fn call_lines(call: &UnansweredCall) -> Vec<String> {
    let tool = call.tool.as_deref().unwrap_or("");
    vec![
        format!(
            "{:>5}  {}  {} {}",
            call.seq,
            one_line(&call.call_id),
            one_line(tool),
            json(call.args.as_ref())
        ),
        format!(
            "       turn {}, {}, called {} ago",
            call.turn_id,
            call.turn_status,
            format_duration(call.age_ms)
        ),
    ]
}

fn error_lines(error: &TurnError) -> Vec<String> {
    let or_dash = |text: &Option<String>| one_line(text.as_deref().unwrap_or("-"));
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
            utc_time(error.at)
        ),
    ];
    if error.detail.is_some() {
        lines.push(format!("       detail {}", json(error.detail.as_ref())));
    }
    lines
}

fn item_lines(item: &LastItem) -> Vec<String> {
    let names = [item.agent.as_deref(), item.model.as_deref()];
    let names: Vec<&str> = names.into_iter().flatten().collect();
    let author = match names.is_empty() {
        true => String::new(),
        false => format!("({}) ", one_line(&names.join(" "))),
    };
    let text = if item.redacted {
        "(redacted)"
    } else {
        &item.text
    };
    let ellipsis = if item.cut { "…" } else { "" };
    vec![format!(
        "{:>5}  {:<9} {:<12} {author}{}",
        item.seq,
        item.role.as_str(),
        one_line(item.channel.as_str()),
        one_line(&format!("{text}{ellipsis}"))
    )]
}

fn restored_lines(restored: &Restored) -> Vec<String> {
    let format = restored.format;
    if let Some(error) = &restored.error {
        return vec![format!(
            "{format:<17} {}: {}",
            error.code,
            one_line(&error.detail)
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
        format_count(sent.messages as u64, "message"),
        format_count(report.kept as u64, "item"),
        report.dropped.len(),
        report.adapted.len()
    )];
    let dropped = report.dropped.iter().map(|d| (d.reason, d.seq));
    lines.extend(by_reason("left out", dropped));
    let adapted = report.adapted.iter().map(|a| (a.change, a.seq));
    lines.extend(by_reason("changed", adapted));
    if let Some(with_errors) = &sent.unanswered_as_errors {
        lines.push(format!(
            "  with unanswered=error: {}, {} kept; restored: {}; answered by an error: {}",
            format_count(with_errors.messages as u64, "message"),
            format_count(with_errors.kept as u64, "item"),
            one_line(&ranges(&with_errors.restored)),
            one_line(&ranges(&with_errors.answered))
        ));
    }
    lines
}

fn by_reason<'a>(
    label: &'a str,
    entries: impl Iterator<Item = (&'static str, u64)>,
) -> impl Iterator<Item = String> + 'a {
    let mut reasons: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (reason, seq) in entries {
        reasons.entry(reason).or_default().push(seq);
    }
    let line = move |(reason, seqs): (&str, Vec<u64>)| {
        format!("  {label}, {reason}: {}", one_line(&ranges(&seqs)))
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
        assert_eq!(one_line("a\nb\u{1b}[2J\tc"), "a b\u{fffd}[2J c");
        assert_eq!(one_line(&"x".repeat(500)).chars().count(), WIDTH);
    }
}
