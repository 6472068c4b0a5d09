//! `get_session_lineage`

use std::fmt::Write as _;

use filrouge_sources::library::lineage::{Fork, Lineage, Relative, lineage};

use super::{OfSession, Tool};
use crate::call::Call;
use crate::refusal::Refusal;
use crate::text::{Readable, end, kind, origins, row, word};

pub(super) struct GetSessionLineage;

impl Tool for GetSessionLineage {
    const NAME: &'static str = "get_session_lineage";
    const TITLE: &'static str = "Session lineage";
    const DESCRIPTION: &'static str = "Shows a session's family: the sessions that started it, up to the root; those it has started, with the tool call that did; its siblings; \
        what it was forked from and what was forked from it.";
    type Arguments = OfSession;
    type Answer = Lineage;

    fn answer(call: &Call<'_>, arguments: OfSession) -> Result<Lineage, Refusal> {
        let session = call.session(arguments.session_id.as_deref())?;
        Ok(lineage(call.library, &session)?)
    }
}

impl Readable for Lineage {
    fn origin(&self) -> String {
        origins([&self.session].into_iter())
    }

    fn write(&self, out: &mut String) {
        out.push_str("Session ");
        row(out, &self.session);
        relatives(
            out,
            "Started by, the nearest first",
            &self.parent_sessions,
            false,
        );
        relatives(out, "Has started", &self.child_sessions, true);
        relatives(out, "Siblings", &self.siblings, false);
        forks(out, "Forked from, the nearest first", &self.forked_from);
        forks(out, "Forked from it", &self.forks);
        for gap in &self.gaps {
            let _ = writeln!(out, "Named as a parent, but missing: {}", word(gap));
        }
        if self.cycle {
            out.push_str("Its parents form a cycle.\n");
        }
        end(out, &self.notices, None);
    }
}

fn relatives(out: &mut String, what: &str, all: &[Relative], deep: bool) {
    let count = all.len();
    let _ = writeln!(out, "{what}: {}", if count == 0 { "none" } else { "" });
    for one in all {
        let indent = if deep { one.depth.clamp(1, 32) - 1 } else { 0 };
        let _ = write!(out, "{}- ", "  ".repeat(indent));
        row(out, &one.session);
        if let (Some(message), Some(call)) = (&one.message_id, &one.call_id) {
            let (message, call) = (word(message), word(call));
            let _ = writeln!(
                out,
                "{}  by call {call} in message {message}",
                "  ".repeat(indent)
            );
        }
    }
}

fn forks(out: &mut String, what: &str, all: &[Fork]) {
    if all.is_empty() {
        return;
    }
    let _ = writeln!(out, "{what}:");
    for one in all {
        let (copied, how) = (one.copied_messages, kind(&one.evidence));
        let _ = write!(out, "- ({how}, {copied} messages copied) ");
        row(out, &one.session);
    }
}
