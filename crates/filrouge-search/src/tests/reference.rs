//! The expected results of a search, computed by reading everything.

use std::sync::Arc;

use filrouge_sources::{Conversation, Header, Message, PartKind};
use filrouge_store::text_index::fold;

use crate::fields;
use crate::query::{self, Kind, Term};
use crate::request::SearchRequest;
use crate::unescaped_json::UnescapedJson;

/// All texts of a message, as written and with escapes resolved, each with the tool it belongs to.
pub(super) fn texts(message: &Message) -> Vec<(Option<String>, String)> {
    let mut all = Vec::new();
    for part in &message.parts {
        let tool = match &part.kind {
            PartKind::Tool(tool) => Some(tool.name.to_lowercase()),
            _ => None,
        };
        fields::each_text_of_part(part, &mut |field, text| {
            all.push((tool.clone(), text.to_owned()));
            if let Some(unescaped) = UnescapedJson::new(text).filter(|_| field.is_json()) {
                all.push((tool.clone(), unescaped.text));
            }
        });
    }
    if let Some(error) = &message.error {
        all.push((None, error.message.to_string()));
        all.push((None, error.name.to_string()));
    }
    all
}

/// Whether a folded text begins with a folded term, where any run of white space matches any other.
fn begins_with(term_chars: &[char], text: &[char]) -> bool {
    match (term_chars.split_first(), text.split_first()) {
        (None, _) => true,
        (Some((c, term_chars)), Some((t, text))) if c.is_whitespace() => {
            let end = |rest: &[char]| rest.iter().take_while(|c| c.is_whitespace()).count();
            t.is_whitespace() && begins_with(&term_chars[end(term_chars)..], &text[end(text)..])
        }
        (Some((c, term_chars)), Some((t, text))) => c == t && begins_with(term_chars, text),
        (Some(_), None) => false,
    }
}

/// Whether a text contains a term.
fn contains(text: &str, term: &Term) -> bool {
    if let Kind::Regex(flags) = term.kind {
        let mut regex = regex::RegexBuilder::new(&term.text);
        regex.multi_line(true).case_insensitive(flags.any_case);
        regex
            .dot_matches_new_line(flags.dot_all)
            .ignore_whitespace(flags.verbose);
        return regex.build().unwrap().is_match(text);
    }
    let chars = |text: &str| fold(text).chars().collect::<Vec<char>>();
    let (text, term_chars) = (chars(text), chars(&term.text));
    (0..text.len()).any(|at| begins_with(&term_chars, &text[at..]))
}

/// The expected results of a search: sessions with their numbers of matches, in order.
pub(super) fn match_counts(
    sessions: &[(Arc<Header>, Conversation)],
    request: &SearchRequest,
) -> Vec<(String, usize)> {
    let found = places(sessions, request).into_iter();
    found.map(|(id, places)| (id, places.len())).collect()
}

/// The expected results of a search: sessions with the places of their matches, the most recently changed first.
pub(super) fn places(
    sessions: &[(Arc<Header>, Conversation)],
    request: &SearchRequest,
) -> Vec<(String, Vec<String>)> {
    let terms = query::parse(&request.query, &request.date_context())
        .unwrap()
        .terms;
    let is_of_tool = |tool: &Option<String>| {
        request
            .tool
            .as_ref()
            .is_none_or(|t| tool.as_deref() == Some(&*t.to_lowercase()))
    };
    let matches = |texts: &[(Option<String>, String)]| {
        let is_searched = request.tool.is_none() || texts.iter().any(|(tool, _)| is_of_tool(tool));
        is_searched
            && terms.iter().all(|term| match term.excluded {
                true => !texts.iter().any(|(_, text)| contains(text, term)),
                false => texts
                    .iter()
                    .any(|(tool, text)| is_of_tool(tool) && contains(text, term)),
            })
    };
    let dated = request.since.is_some() || request.until.is_some();
    let is_selected = |header: &Header| {
        request
            .session_id
            .as_deref()
            .is_none_or(|id| *id == *header.id)
            && request.exclude_session.as_deref() != Some(&*header.id)
            && request
                .source
                .as_deref()
                .is_none_or(|name| name == header.source)
            && (request.project_id.is_none()
                || request.project_id.as_deref() == header.project_name.as_deref())
    };
    let mut found: Vec<(i64, String, Vec<String>)> = Vec::new();
    for (header, conversation) in sessions.iter().filter(|(header, _)| is_selected(header)) {
        let title = vec![(None, header.title.as_deref().unwrap().to_owned())];
        let is_agent =
            |agent: Option<&str>| request.agent.is_none() || agent == request.agent.as_deref();
        let is_title_searched = request.role.is_none()
            && request.tool.is_none()
            && !dated
            && terms.iter().any(|term| !term.excluded)
            && is_agent(header.agent.as_deref());
        let mut places = Vec::new();
        if is_title_searched && matches(&title) {
            places.push(header.id.to_string());
        }
        for message in &conversation.messages {
            let passes = request.role.is_none_or(|r| r == message.role)
                && request.since.is_none_or(|t| message.created >= t)
                && request.until.is_none_or(|t| message.created < t)
                && is_agent(message.agent.as_deref().or(header.agent.as_deref()));
            if passes && matches(&texts(message)) {
                places.push(format!("{}:{}", header.id, message.id));
            }
        }
        if !places.is_empty() {
            found.push((-header.updated, header.id.to_string(), places));
        }
    }
    found.sort();
    let found = found.into_iter();
    found.map(|(_, id, places)| (id, places)).collect()
}
