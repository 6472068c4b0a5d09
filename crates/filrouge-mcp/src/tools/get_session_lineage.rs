//! `get_session_lineage`

use std::fmt::Write as _;

use filrouge_sources::library::lineage::{Fork, Lineage, Relative, lineage};

use super::{ANSWER_BYTES, SessionArguments, Tool, fit};
use crate::call::Call;
use crate::refusal::Result;
use crate::text::{Readable, json_name, origins, quoted_if_needed, write_end, write_row};

/// The maximum number of sessions in each list of an answer.
const RELATIVES_MAX: usize = 500;

pub(super) struct GetSessionLineage;

impl Tool for GetSessionLineage {
    const NAME: &'static str = "get_session_lineage";
    const TITLE: &'static str = "Session lineage";
    const DESCRIPTION: &'static str = "Shows a session's family: the sessions that started it, up to the root; those it has started, with the tool call that did; its siblings; \
        what it was forked from and what was forked from it.";
    type Arguments = SessionArguments;
    type Answer = Lineage;

    fn answer(call: &Call<'_>, arguments: SessionArguments) -> Result<Lineage> {
        let session = call.resolve_session(arguments.session_id.as_deref())?;
        fit(1..=RELATIVES_MAX, ANSWER_BYTES, |max| {
            let mut lineage = lineage(call.library, &session)?;
            shorten(&mut lineage, max);
            Ok(lineage)
        })
    }
}

/// Keeps the first `max` sessions of each list, and reports how many are left out.
fn shorten(lineage: &mut Lineage, max: usize) {
    let mut left_out = 0;
    for relatives in [&mut lineage.child_sessions, &mut lineage.siblings] {
        left_out += relatives.len().saturating_sub(max);
        relatives.truncate(max);
    }
    for forks in [&mut lineage.forked_from, &mut lineage.forks] {
        left_out += forks.len().saturating_sub(max);
        forks.truncate(max);
    }
    if left_out > 0 {
        lineage.notices.push(format!(
            "{left_out} related sessions are left out: list_sessions with parentID lists those that a session started"
        ));
    }
}

impl Readable for Lineage {
    fn origin(&self) -> String {
        origins([&self.session].into_iter())
    }

    fn write(&self, out: &mut String) {
        out.push_str("Session ");
        write_row(out, &self.session);
        write_relatives(
            out,
            "Started by, the nearest first",
            &self.parent_sessions,
            false,
        );
        write_relatives(out, "Has started", &self.child_sessions, true);
        write_relatives(out, "Siblings", &self.siblings, false);
        write_forks(out, "Forked from, the nearest first", &self.forked_from);
        write_forks(out, "Forked from it", &self.forks);
        for gap in &self.gaps {
            let gap = quoted_if_needed(gap);
            let _ = writeln!(out, "Named as a parent, but missing: {gap}");
        }
        if self.cycle {
            out.push_str("Its parents form a cycle.\n");
        }
        write_end(out, &self.notices, "", None);
    }
}

fn write_relatives(out: &mut String, heading: &str, relatives: &[Relative], is_indented: bool) {
    let count = relatives.len();
    let _ = writeln!(out, "{heading}: {}", if count == 0 { "none" } else { "" });
    for relative in relatives {
        let depth = if is_indented { relative.depth } else { 1 };
        let indent = "  ".repeat(depth.clamp(1, 32) - 1);
        let _ = write!(out, "{indent}- ");
        write_row(out, &relative.session);
        if let (Some(message), Some(call)) = (&relative.message_id, &relative.call_id) {
            let (message, call) = (quoted_if_needed(message), quoted_if_needed(call));
            let _ = writeln!(out, "{indent}  by call {call} in message {message}");
        }
    }
}

fn write_forks(out: &mut String, heading: &str, forks: &[Fork]) {
    if forks.is_empty() {
        return;
    }
    let _ = writeln!(out, "{heading}:");
    for fork in forks {
        let (copied, evidence) = (fork.copied_messages, json_name(&fork.evidence));
        let _ = write!(out, "- ({evidence}, {copied} messages copied) ");
        write_row(out, &fork.session);
    }
}
