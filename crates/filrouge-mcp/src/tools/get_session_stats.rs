//! `get_session_stats`

use std::fmt::Write as _;

use filrouge_sources::library::stats::{SessionStats, Sums, session};

use super::{OfSession, Tool};
use crate::call::Call;
use crate::refusal::Refusal;
use crate::text::{Readable, end, kind, origins, row, span, word};

pub(super) struct GetSessionStats;

impl Tool for GetSessionStats {
    const NAME: &'static str = "get_session_stats";
    const TITLE: &'static str = "Session statistics";
    const DESCRIPTION: &'static str = "Counts a session: messages, parts, tokens, cost, models, tools with their errors, files changed, time at work; \
        alone, with all it has started, and without messages that were copied from elsewhere.";
    type Arguments = OfSession;
    type Answer = SessionStats;

    fn answer(call: &Call<'_>, arguments: OfSession) -> Result<SessionStats, Refusal> {
        let id = call.session(arguments.session_id.as_deref())?;
        Ok(session(call.library, &id)?)
    }
}

impl Readable for SessionStats {
    fn origin(&self) -> String {
        origins([&self.session].into_iter())
    }

    fn write(&self, out: &mut String) {
        out.push_str("Session ");
        row(out, &self.session);
        let agents: Vec<String> = self.agents.iter().map(|name| word(name)).collect();
        let (duration, agents) = (span(self.duration), agents.join(", "));
        let _ = writeln!(
            out,
            "From creation to last change: {duration}. Agents: {agents}"
        );
        sums(out, "The session alone", &self.own);
        sums(out, "With all it has started", &self.with_descendants);
        sums(out, "Without copied messages", &self.without_copied);
        let rules: Vec<String> = self.token_rules.iter().map(kind).collect();
        let _ = writeln!(out, "How tokens were read: {}", rules.join(", "));
        end(out, &self.notices, None);
    }
}

fn sums(out: &mut String, what: &str, totals: &Sums) {
    let (sessions, messages, parts) = (totals.sessions, totals.message_count, totals.part_count);
    let (tokens, changes) = (&totals.tokens, &totals.changes);
    let _ = writeln!(
        out,
        "{what}: {sessions} sessions, {messages} messages ({} of the user), {parts} parts, {} errors, {} at work, ${:.4}",
        totals.user_messages,
        totals.errors,
        span(totals.active),
        totals.cost
    );
    let _ = writeln!(
        out,
        "  tokens: input {}, output {}, reasoning {}, cache read {}, cache write {}; changes: +{} -{} in {} files",
        tokens.input,
        tokens.output,
        tokens.reasoning,
        tokens.cache_read,
        tokens.cache_write,
        changes.additions,
        changes.deletions,
        changes.files
    );
    let models = totals.models.iter();
    let models = models.map(|(name, used)| format!("{} {}", word(name), used.messages));
    named(out, "models", models);
    let tools = totals.tools.iter();
    let tools = tools.map(|(name, used)| match used.errors {
        0 => format!("{} {}", word(name), used.calls),
        errors => format!("{} {} ({errors} errors)", word(name), used.calls),
    });
    named(out, "tools", tools);
}

fn named(out: &mut String, what: &str, all: impl Iterator<Item = String>) {
    let all: Vec<String> = all.collect();
    if !all.is_empty() {
        let _ = writeln!(out, "  {what}: {}", all.join(", "));
    }
}
