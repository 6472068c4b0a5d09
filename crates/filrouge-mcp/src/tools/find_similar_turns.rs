//! `find_similar_turns`

use std::fmt::Write as _;

use filrouge_search::{Excerpt, Hit, Results, SearchRequest, started_at};
use filrouge_sources::Role;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::search_sessions::{or_default, own_session_notice, search};
use super::{ANSWER_BYTES, Count, Program, Tool, fit, page_chars, row_limit};
use crate::call::Call;
use crate::refusal::Result;
use crate::text::{
    Readable, format_time, origin_names, quoted, quoted_if_needed, with_noun, write_end,
    write_quoted,
};

/// The default number of sessions on a page.
const SESSIONS: usize = 10;
/// The maximum number of questions per session.
const QUESTIONS: usize = 2;

pub(super) struct FindSimilarTurns;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SimilarArguments {
    /// The question, in your own words.
    question: String,
    /// A project's id, name or folder.
    #[serde(rename = "projectID")]
    project_id: Option<String>,
    /// Only sessions of this program.
    source: Option<Program>,
    /// true: turns of the session you are in too.
    include_own: Option<bool>,
    /// The maximum number of sessions; 10 by default.
    limit: Option<Count>,
    /// The maximum number of characters of the answer; 8,000 by default.
    max_chars: Option<Count>,
    /// nextCursor of the previous page.
    cursor: Option<String>,
}

/// A page of turns.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SimilarTurns {
    /// The turns, those of the best session first.
    turns: Vec<SimilarTurn>,
    /// The cursor of the next page; `null` on the last page.
    next_cursor: Option<String>,
    /// Notices about omitted results, and about how turns were compared.
    notices: Vec<String>,
}

/// An earlier question and its answer.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SimilarTurn {
    #[serde(rename = "sessionID")]
    session_id: String,
    title: Option<String>,
    source: String,
    /// The message that asks, the address to request from the history.
    #[serde(rename = "messageID")]
    message_id: Option<String>,
    /// The turn's number in its session, in the ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_ordinal: Option<u64>,
    /// The time of the question, in milliseconds since 1970.
    created: Option<i64>,
    /// From 0 to 1; absent if only words were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    /// The beginning of the question.
    question: String,
    /// The beginning of the answer.
    answer: Option<String>,
}

impl Tool for FindSimilarTurns {
    const NAME: &'static str = "find_similar_turns";
    const TITLE: &'static str = "Find similar turns";
    const DESCRIPTION: &'static str = "Finds earlier questions that are similar to yours, with their answers: has this been answered before? \
        messageID leads to get_session_history, whose cursor \"message:ID\" starts there.";
    type Arguments = SimilarArguments;
    type Answer = SimilarTurns;

    fn answer(call: &Call<'_>, arguments: SimilarArguments) -> Result<SimilarTurns> {
        let own = match arguments.include_own.unwrap_or_default() {
            true => None,
            false => call.known_own_session(),
        };
        let first_page_at = arguments.cursor.as_deref().and_then(started_at);
        let request = SearchRequest {
            similar: Some(arguments.question),
            now: Some(first_page_at.unwrap_or_else(|| call.now().as_millis())),
            project_id: arguments.project_id,
            source: arguments.source.map(|program| program.0),
            exclude_session: own.clone(),
            excerpts: QUESTIONS,
            cursor: arguments.cursor,
            mask: true,
            ..SearchRequest::default()
        };
        let limit = or_default(row_limit("limit", arguments.limit)?, SESSIONS);
        let bytes = page_chars(arguments.max_chars)?.unwrap_or(ANSWER_BYTES);
        let mut answer = fit(1..=limit, bytes, |limit| {
            search(call, &request, limit, own.is_some()).map(SimilarTurns::from)
        })?;
        if let Some(own) = own.filter(|_| request.cursor.is_none()) {
            answer.notices.push(own_session_notice(&own));
        }
        Ok(answer)
    }
}

impl From<Results> for SimilarTurns {
    fn from(results: Results) -> Self {
        Self {
            turns: results.sessions.iter().flat_map(turns_of).collect(),
            next_cursor: results.next_cursor,
            notices: results.notices,
        }
    }
}

/// The turns of a hit, whose excerpts are questions, each with the answer after it.
fn turns_of(hit: &Hit) -> Vec<SimilarTurn> {
    let mut turns: Vec<SimilarTurn> = Vec::new();
    for excerpt in &hit.excerpts {
        match turns.last_mut() {
            Some(turn) if excerpt.role != Some(Role::User) => {
                turn.answer = Some(excerpt.text.clone());
            }
            _ => turns.push(SimilarTurn::new(hit, excerpt)),
        }
    }
    turns
}

impl SimilarTurn {
    fn new(hit: &Hit, question: &Excerpt) -> Self {
        Self {
            session_id: hit.session.id.clone(),
            title: hit.session.title.clone(),
            source: hit.session.source.clone(),
            message_id: question.message_id.clone(),
            turn_ordinal: question.turn_ordinal,
            created: question.created,
            score: question.score,
            question: question.text.clone(),
            answer: None,
        }
    }
}

impl Readable for SimilarTurns {
    fn origin(&self) -> String {
        origin_names(self.turns.iter().map(|turn| turn.source.as_str()))
    }

    fn write(&self, out: &mut String) {
        let found = with_noun(self.turns.len(), "similar question", "similar questions");
        let _ = writeln!(out, "{found} here:");
        for turn in &self.turns {
            turn.write(out);
        }
        let next = self.next_cursor.as_deref();
        write_end(out, &self.notices, "More questions", next);
    }
}

impl SimilarTurn {
    fn write(&self, out: &mut String) {
        let title = self
            .title
            .as_deref()
            .map_or("(no title)".to_owned(), quoted);
        let _ = write!(out, "\n- {} {title}", quoted_if_needed(&self.session_id));
        if let Some(ordinal) = self.turn_ordinal {
            let _ = write!(out, " · turn {ordinal}");
        }
        if let Some(message) = &self.message_id {
            let _ = write!(out, " · message {}", quoted_if_needed(message));
        }
        if let Some(created) = self.created {
            let _ = write!(out, " · {}", format_time(created));
        }
        if let Some(score) = self.score {
            let _ = write!(out, " · score {score:.2}");
        }
        out.push_str("\nquestion:\n");
        write_quoted(out, &self.question);
        if let Some(answer) = &self.answer {
            out.push_str("answer:\n");
            write_quoted(out, answer);
        }
    }
}
