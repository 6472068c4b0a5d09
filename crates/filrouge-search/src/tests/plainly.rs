//! What a search must find, told by reading everything.

use std::sync::Arc;

use filrouge_sources::{Conversation, Header, Message, PartKind};
use filrouge_store::text_index::fold;

use crate::ask::Ask;
use crate::fields;
use crate::query::{self, Term};
use crate::view::View;

/// All texts of a message, as they are written and as they read; with the tool they are of.
pub(super) fn texts(message: &Message) -> Vec<(Option<String>, String)> {
    let mut all = Vec::new();
    for part in &message.parts {
        let tool = match &part.kind {
            PartKind::Tool(tool) => Some(tool.name.to_lowercase()),
            _ => None,
        };
        fields::of_part(part, &mut |field, text| {
            all.push((tool.clone(), text.to_owned()));
            if let Some(view) = View::of(text).filter(|_| field.is_json()) {
                all.push((tool.clone(), view.text));
            }
        });
    }
    if let Some(error) = &message.error {
        all.push((None, error.message.to_string()));
        all.push((None, error.name.to_string()));
    }
    all
}

/// Whether a folded form stands at the beginning of a folded text.
fn stands_at(form: &[char], text: &[char]) -> bool {
    match (form.split_first(), text.split_first()) {
        (None, _) => true,
        (Some((c, form)), Some((t, text))) if c.is_whitespace() => {
            let end = |rest: &[char]| rest.iter().take_while(|c| c.is_whitespace()).count();
            t.is_whitespace() && stands_at(&form[end(form)..], &text[end(text)..])
        }
        (Some((c, form)), Some((t, text))) => c == t && stands_at(form, text),
        (Some(_), None) => false,
    }
}

fn holds(text: &str, term: &Term) -> bool {
    let chars = |text: &str| fold(text).chars().collect::<Vec<char>>();
    let (text, form) = (chars(text), chars(&term.text));
    (0..text.len()).any(|at| stands_at(&form, &text[at..]))
}

/// What a search must find: sessions with their numbers of matches, in order.
pub(super) fn plainly(sessions: &[(Arc<Header>, Conversation)], ask: &Ask) -> Vec<(String, usize)> {
    let terms = query::parse(&ask.query, &ask.here()).unwrap().terms;
    let matches = |texts: &[(Option<String>, String)]| {
        let of_tool = |tool: &Option<String>| {
            ask.tool
                .as_ref()
                .is_none_or(|t| tool.as_deref() == Some(&*t.to_lowercase()))
        };
        terms.iter().all(|term| match term.excluded {
            true => !texts.iter().any(|(_, text)| holds(text, term)),
            false => texts
                .iter()
                .any(|(tool, text)| of_tool(tool) && holds(text, term)),
        })
    };
    let dated = ask.since.is_some() || ask.until.is_some();
    let mut found: Vec<(i64, String, usize)> = Vec::new();
    for (header, conversation) in sessions {
        let title = vec![(None, header.title.as_deref().unwrap().to_owned())];
        let is_agent = |agent: Option<&str>| ask.agent.is_none() || agent == ask.agent.as_deref();
        let titled =
            ask.role.is_none() && ask.tool.is_none() && !dated && is_agent(header.agent.as_deref());
        let mut count = usize::from(titled && matches(&title));
        for message in &conversation.messages {
            let lets = ask.role.is_none_or(|r| r == message.role)
                && ask.since.is_none_or(|t| message.created >= t)
                && ask.until.is_none_or(|t| message.created < t)
                && is_agent(message.agent.as_deref().or(header.agent.as_deref()));
            count += usize::from(lets && matches(&texts(message)));
        }
        if count > 0 {
            found.push((-header.updated, header.id.to_string(), count));
        }
    }
    found.sort();
    found
        .into_iter()
        .map(|(_, id, count)| (id, count))
        .collect()
}
