//! `get_session_stats`

use std::fmt::Write as _;

use filrouge_sources::library::stats::{SessionStats, Sums, session};

use super::{SessionArguments, Tool};
use crate::call::Call;
use crate::refusal::Result;
use crate::text::{
    Readable, format_duration, json_name, name_list, origins, quoted_if_needed, write_end,
    write_row,
};

pub(super) struct GetSessionStats;

impl Tool for GetSessionStats {
    const NAME: &'static str = "get_session_stats";
    const TITLE: &'static str = "Session statistics";
    const DESCRIPTION: &'static str = "Counts a session: messages, parts, tokens, cost, models, tools with their errors, files changed, time at work; \
        alone, with all it has started, and without messages that were copied from elsewhere.";
    type Arguments = SessionArguments;
    type Answer = SessionStats;

    fn answer(call: &Call<'_>, arguments: SessionArguments) -> Result<SessionStats> {
        let id = call.resolve_session(arguments.session_id.as_deref())?;
        Ok(session(call.library, &id)?)
    }
}

impl Readable for SessionStats {
    fn origin(&self) -> String {
        origins([&self.session].into_iter())
    }

    fn write(&self, out: &mut String) {
        out.push_str("Session ");
        write_row(out, &self.session);
        let (duration, agents) = (format_duration(self.duration), name_list(&self.agents));
        let _ = writeln!(
            out,
            "From creation to last change: {duration}. Agents: {agents}"
        );
        write_sums(out, "The session alone", &self.own);
        write_sums(out, "With all it has started", &self.with_descendants);
        write_sums(out, "Without copied messages", &self.without_copied);
        let rules: Vec<String> = self.token_rules.iter().map(json_name).collect();
        let _ = writeln!(out, "How tokens were read: {}", rules.join(", "));
        write_end(out, &self.notices, "", None);
    }
}

fn write_sums(out: &mut String, heading: &str, totals: &Sums) {
    let (sessions, messages, parts) = (totals.sessions, totals.message_count, totals.part_count);
    let (tokens, changes) = (&totals.tokens, &totals.changes);
    let _ = writeln!(
        out,
        "{heading}: {sessions} sessions, {messages} messages ({} of the user), {parts} parts, {} errors, {} at work, ${:.4}",
        totals.user_messages,
        totals.errors,
        format_duration(totals.active),
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
    let models =
        models.map(|(name, usage)| format!("{} {}", quoted_if_needed(name), usage.messages));
    write_list(out, "models", models);
    let tools = totals.tools.iter();
    let tools = tools.map(|(name, usage)| match usage.errors {
        0 => format!("{} {}", quoted_if_needed(name), usage.calls),
        errors => format!(
            "{} {} ({errors} errors)",
            quoted_if_needed(name),
            usage.calls
        ),
    });
    write_list(out, "tools", tools);
}

fn write_list(out: &mut String, heading: &str, entries: impl Iterator<Item = String>) {
    let entries: Vec<String> = entries.collect();
    if !entries.is_empty() {
        let _ = writeln!(out, "  {heading}: {}", entries.join(", "));
    }
}
