//! Renders a part of a conversation.

use std::collections::HashMap;

use diffy::{PatchFormatter, create_patch};
use filrouge_document::{PartView, Redactions, turn_status_name};
use filrouge_engine::ConversationPart;
use filrouge_http::problem::Problem;
use filrouge_types::{ErrorCode, Item, JsonText, Session, Turn, TurnId, TurnStatus};
use maud::{Markup, PreEscaped, html};

use super::children::Child;
use super::place::{BOUNDS, PlaceQuery, more};
use crate::links::session_path;
use crate::words::{ConversationWords, Language};

/// The maximum number of bytes, and of lines, of a turn that is compared with its replacement.
const COMPARED_MAX: (usize, usize) = (64 << 10, 500);

/// The page on which a part is shown.
pub(super) struct PartPage {
    /// The path of the conversation.
    path: String,
    language: Language,
    words: &'static ConversationWords,
    /// The maximum number of bytes that are shown of one content.
    max_bytes: usize,
    /// Whether the part is shown inside the page of another conversation.
    is_inside: bool,
}

impl PartPage {
    /// The page of a session of the ledger.
    pub(super) fn of_session(session: &Session, language: Language) -> Self {
        Self::at(session_path(&session.session_id), language)
    }

    /// The page of the conversation at this path.
    pub(super) const fn at(path: String, language: Language) -> Self {
        Self {
            path,
            language,
            words: ConversationWords::of(language),
            max_bytes: BOUNDS.item_bytes,
            is_inside: false,
        }
    }

    /// A page that shows contents of any size completely.
    pub(super) const fn complete(path: String, language: Language) -> Self {
        Self {
            path,
            language,
            words: ConversationWords::of(language),
            max_bytes: usize::MAX,
            is_inside: false,
        }
    }

    /// The name of a turn's status, as the heading of the turn has it.
    pub(super) fn status_name(&self, status: TurnStatus) -> &'static str {
        turn_status_name(status, self.language.of_document())
    }

    /// Renders a part with the links to its neighbors.
    pub(super) fn render(
        &self,
        part: &ConversationPart,
        children: Vec<Child>,
    ) -> Result<Markup, Problem> {
        let (path, words) = (&self.path, self.words);
        let inside = if self.is_inside { "inside=true&" } else { "" };
        let first = part.items.first().map_or(0, |item| item.seq);
        let last = part
            .items
            .last()
            .map_or(part.session.last_seq, |item| item.seq);
        let is_end = last >= part.session.last_seq && !self.is_inside;
        Ok(html! {
            @if part.session.last_seq == 0 {
                section.empty { h2 { (words.empty) } p { (words.empty_hint) } }
            }
            @if part.has_earlier {
                (more(path, "earlier", &format!("{inside}before"), (first, words.earlier)))
            }
            (self.items(part, children)?)
            @if part.has_later {
                (more(path, "later", &format!("{inside}after"), (last, words.later)))
            }
            @if is_end { div.end data-last=(last) {} }
        })
    }

    /// Renders a part that scripts insert beside another one, to which it has no link.
    pub(super) fn render_beside(
        mut self,
        query: &PlaceQuery,
        mut part: ConversationPart,
        children: Vec<Child>,
    ) -> Result<Markup, Problem> {
        self.is_inside = query.inside;
        part.has_earlier &= query.after.is_none();
        part.has_later &= query.before.is_none();
        self.render(&part, children)
    }

    /// Renders the items of a part, turn by turn.
    pub(super) fn items(
        &self,
        part: &ConversationPart,
        children: Vec<Child>,
    ) -> Result<Markup, Problem> {
        let redactions = Redactions::from_items(&part.redactions);
        let mut view = self.view(&part.turns);
        for child in children {
            let insert = view.inserts.entry(child.after).or_default();
            insert.push_str(&child.shown.into_string());
        }
        let mut out = String::new();
        for run in part.items.chunk_by(|a, b| a.turn_id == b.turn_id) {
            self.run(run, &part.turns, (&redactions, &view), &mut out)?;
        }
        Ok(PreEscaped(out))
    }

    /// Renders the items whose calls the last item of a part answers, with its results below them.
    pub(super) fn answered(&self, part: &ConversationPart) -> Result<String, Problem> {
        let mut runs = part.items.chunk_by(|a, b| a.turn_id == b.turn_id);
        let mut out = String::new();
        if let Some(run) = runs.next_back()
            && let Some(id) = run.first().and_then(|item| item.turn_id)
            && let Some(turn) = part.turns.get(&id)
        {
            let redactions = Redactions::from_items(&part.redactions);
            let context = (&redactions, &self.view(&part.turns));
            filrouge_document::html_answered(turn, run, context, &mut out)
                .map_err(|error| Problem::new(ErrorCode::Internal, error.to_string()))?;
        }
        Ok(out)
    }

    /// How items of these turns are shown.
    pub(super) fn view(&self, turns: &HashMap<TurnId, Turn>) -> PartView {
        let mut view = PartView {
            path: self.path.clone(),
            language: self.language.of_document(),
            max_bytes: self.max_bytes,
            ..PartView::default()
        };
        if self.is_inside {
            let name = self.path.rsplit('/').next().unwrap_or_default();
            view.ids = format!("{name}-");
        }
        for turn in turns.values() {
            let replacement = turn.replaced_by_turn_id.and_then(|id| turns.get(&id));
            let Some(replacement) = replacement else {
                continue;
            };
            let first_seq = replacement.first_seq;
            view.first_seqs.insert(replacement.turn_id, first_seq);
            if let Some(changes) = changes(turn, replacement) {
                view.changes.insert(turn.turn_id, changes);
            }
        }
        view
    }

    /// Writes consecutive items of one turn, or outside turns.
    pub(super) fn run(
        &self,
        items: &[Item],
        turns: &HashMap<TurnId, Turn>,
        context: (&Redactions, &PartView),
        out: &mut String,
    ) -> Result<(), Problem> {
        let id = items.first().and_then(|item| item.turn_id);
        let written = match id.and_then(|id| turns.get(&id)) {
            Some(turn) => filrouge_document::html_turn(turn, items, context, out),
            None => {
                let label = html! { (self.words.outside_turns) }.into_string();
                out.push_str("<section class=\"turn loose\" aria-label=\"");
                out.push_str(&label);
                out.push_str("\">");
                let written = filrouge_document::html_items(None, items, context, out);
                out.push_str("</section>");
                written
            }
        };
        written.map_err(|error| Problem::new(ErrorCode::Internal, error.to_string()))
    }
}

/// The changes from a turn to its replacement, as a unified diff without file names; `None` if one of them is redacted
/// or too long, or if nothing changed.
fn changes(old: &Turn, new: &Turn) -> Option<String> {
    if old.deleted_at.is_some() || new.deleted_at.is_some() {
        return None;
    }
    let (old, new) = (text_of(old), text_of(new));
    let (bytes_max, lines_max) = COMPARED_MAX;
    let is_short = |text: &String| text.len() <= bytes_max && text.lines().count() <= lines_max;
    if old == new || !is_short(&old) || !is_short(&new) {
        return None;
    }
    let patch = create_patch(&old, &new);
    let diff = PatchFormatter::new().missing_newline_message(false);
    let diff = diff.fmt_patch(&patch).to_string();
    let lines = diff.lines().skip(2).map(|line| format!("{line}\n"));
    Some(lines.collect())
}

/// The texts of a turn, each followed by an empty line.
fn text_of(turn: &Turn) -> String {
    let texts = [
        &turn.question_neutral,
        &turn.question_translated,
        &turn.answer_neutral,
        &turn.answer_translated,
    ];
    let texts = texts.into_iter().flatten().map(JsonText::to_plain);
    texts.map(|text| format!("{text}\n\n")).collect()
}
