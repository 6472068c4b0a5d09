//! Messages to turns.
//!
//! A turn is a user message and every answer up to the next user message, in the order of
//! (time of creation, seq, id). Answers whose user message is there but cannot be read (its `parentID`
//! names it) make a turn under that message's id, so that a later read, once the file is whole,
//! meets the same turn.

use std::collections::HashSet;

use filrouge_types::{Channel, ItemBody, ItemId, RawJson, RequestId, Timestamp};

use super::items;
use super::message::{Kind, Message, Messages, Place};
use super::parts::{Mapped, Use};
use crate::object::Writer;
use crate::{ForeignTurn, Outcome, SkipReason, Skipped};

/// The messages of one turn.
struct Group {
    request: String,
    created: Timestamp,
    question: Option<Message>,
    answers: Vec<Message>,
    incomplete: Vec<String>,
    /// Whether an unfinished answer came after the last finished one.
    goes_on: bool,
}

impl Group {
    fn new(request: String, created: Timestamp) -> Self {
        Self {
            request,
            created,
            question: None,
            answers: Vec::new(),
            incomplete: Vec::new(),
            goes_on: false,
        }
    }

    /// The last answer, notes aside, and its index.
    fn last_answer(&self) -> Option<(usize, &Message)> {
        let answers = self.answers.iter().enumerate();
        answers
            .rev()
            .find(|(_, message)| message.kind != Kind::Note)
    }

    fn outcome(&self, newest: bool) -> Outcome {
        match self
            .last_answer()
            .map(|(_, message)| (message, message.kind))
        {
            Some((message, Kind::Failed)) if !self.goes_on => items::outcome_of_error(message),
            Some((_, Kind::Answer { more: false })) => Outcome::Finalized,
            // In an older turn nobody goes on after the tools: the user asked something else.
            Some((_, Kind::Answer { more: true })) if !self.goes_on && !newest => {
                Outcome::Finalized
            }
            _ => Outcome::Unanswered,
        }
    }

    fn metadata(&self) -> RawJson {
        let ids = |ids: &mut dyn Iterator<Item = &str>| {
            let tokens: Vec<String> = ids
                .map(|id| serde_json::Value::from(id).to_string())
                .collect();
            format!("[{}]", tokens.join(","))
        };
        let mut notes = Writer::default();
        let messages = self.question.iter().chain(&self.answers);
        notes.raw(
            "messages",
            &ids(&mut messages.map(|message| message.id.as_str())),
        );
        if !self.incomplete.is_empty() {
            notes.raw(
                "incomplete",
                &ids(&mut self.incomplete.iter().map(String::as_str)),
            );
        }
        let mut metadata = Writer::default();
        metadata.nested("opencode", notes);
        RawJson::from_checked(metadata.finish())
    }
}

/// The turns of a session, with their parts read.
pub(super) fn build(
    place: &Place<'_>,
    messages: Messages,
    skipped: &mut Vec<Skipped>,
) -> Vec<ForeignTurn> {
    let groups = cut(place, messages, skipped);
    let newest = groups.len().saturating_sub(1);
    let mut seen = HashSet::new();
    let mut turns = Vec::new();
    for (index, group) in groups.into_iter().enumerate() {
        turns.extend(turn(place, group, index == newest, &mut seen, skipped));
    }
    turns
}

fn cut(place: &Place<'_>, messages: Messages, skipped: &mut Vec<Skipped>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for message in messages.read {
        let lost = message
            .parent
            .clone()
            .filter(|id| messages.broken.contains(id));
        let request = lost.unwrap_or_else(|| message.id.clone());
        let starts = match (message.kind, groups.last()) {
            (Kind::User, _) | (_, None) => true,
            (_, Some(group)) => request != message.id && request != group.request,
        };
        if starts {
            groups.push(Group::new(request, message.created));
        }
        let Some(group) = groups.last_mut() else {
            continue;
        };
        match message.kind {
            Kind::User => group.question = Some(message),
            Kind::Incomplete => {
                let detail = "an answer without time.completed";
                let path = place.generation.place(place.session, &message.id, None);
                skipped.push(Skipped::new(&path, SkipReason::Incomplete, detail));
                group.goes_on = true;
                group.incomplete.push(message.id);
            }
            Kind::Note => group.answers.push(message),
            Kind::Answer { .. } | Kind::Failed => {
                group.goes_on = false;
                group.answers.push(message);
            }
        }
    }
    groups
}

/// `None` when nothing of the turn can be copied.
fn turn(
    place: &Place<'_>,
    group: Group,
    newest: bool,
    seen: &mut HashSet<ItemId>,
    skipped: &mut Vec<Skipped>,
) -> Option<ForeignTurn> {
    let outcome = group.outcome(newest);
    let question: Vec<ItemBody> = match &group.question {
        Some(message) => items::finish(items::of_message(place, message, seen, skipped)),
        None => Vec::new(),
    };
    let mut answers = Vec::new();
    let last = group.last_answer().map(|(index, _)| index);
    for (index, message) in group.answers.iter().enumerate() {
        let mut mapped = items::of_message(place, message, seen, skipped);
        if Some(index) == last {
            mark_answer(&mut mapped, message, &outcome);
        }
        answers.append(&mut items::finish(mapped));
    }
    if question.is_empty() && answers.is_empty() {
        return None;
    }
    Some(ForeignTurn {
        request_id: RequestId::new(group.request.as_str()).ok()?,
        question,
        items: answers,
        created: group.created,
        metadata: group.metadata(),
        outcome,
    })
}

/// Puts the last text of the last answer on the channel that the end of the turn gives it. A text
/// before tools is none: the agent was to go on.
fn mark_answer(mapped: &mut [Mapped], message: &Message, outcome: &Outcome) {
    let channel = match outcome {
        Outcome::Finalized if message.kind == (Kind::Answer { more: false }) => Channel::Final,
        Outcome::Failed { .. } | Outcome::Cancelled => Channel::Partial,
        _ => return,
    };
    if let Some(last) = mapped.iter_mut().rev().find(|m| m.usage == Use::Answer) {
        last.item.channel = channel;
    }
}
