//! A message to items: its parts in order, its error, its tokens once, its other fields once.

use std::collections::HashSet;

use filrouge_types::{Channel, ItemBody, ItemId, RawJson, Role};

use super::message::{Kind, Message, Place, agent};
use super::parts::{self, Mapped, Speaker, Use};
use crate::object::{Object, Refusal, Writer, plain, skip};
use crate::{MessageError, Outcome, SkipReason, Skipped};

/// Fields of a message that have a place of their own: the session is the path's, tokens and cost
/// are `usage`, and the error is an item.
const TAKEN: [&str; 4] = ["sessionID", "cost", "tokens", "error"];

/// The items of one message, never none: a message without parts becomes a note.
pub(super) fn of_message(
    place: &Place<'_>,
    message: &Message,
    seen: &mut HashSet<ItemId>,
    skipped: &mut Vec<Skipped>,
) -> Vec<Mapped> {
    // Read before as this very object.
    let Ok(object) = Object::parse(&message.text) else {
        return Vec::new();
    };
    let speaker = speaker(message, &object);
    let mut items = parts_of(place, message, &speaker, seen, skipped);
    let own = match message.kind {
        Kind::Failed => error_item(message, &object, &speaker),
        _ if items.is_empty() => bare_item(message, &speaker),
        _ => None,
    };
    match unseen(own.into_iter().collect(), seen) {
        Ok(mut own) => items.append(&mut own),
        Err(why) => {
            let path = place.generation.place(place.session, &message.id, None);
            skipped.push(skip(&path, why));
        }
    }
    if let (Some(usage), Some(index)) = (usage(&object), usage_place(&items)) {
        items[index].item.usage = Some(usage);
    }
    if let Some(first) = items.first_mut() {
        first.notes.nested("message", object.without(&TAKEN));
    }
    items
}

fn speaker(message: &Message, object: &Object<'_>) -> Speaker {
    let role = match message.kind {
        Kind::User => Role::User,
        Kind::Note => Role::System,
        _ => Role::Assistant,
    };
    Speaker {
        role,
        summary: role == Role::Assistant && object.is_true("summary"),
        agent: agent(object),
        model: model(object),
        created: message.created,
    }
}

/// The model an object names, `provider/model` where both are known.
pub(super) fn model(object: &Object<'_>) -> Option<Box<str>> {
    let model = match (object.text("providerID"), object.text("modelID")) {
        (Some(provider), Some(model)) => Some(format!("{provider}/{model}")),
        (None, model) => model,
        (provider, None) => provider,
    };
    model.map(Into::into)
}

fn parts_of(
    place: &Place<'_>,
    message: &Message,
    speaker: &Speaker,
    seen: &mut HashSet<ItemId>,
    skipped: &mut Vec<Skipped>,
) -> Vec<Mapped> {
    let mut items = Vec::new();
    for part in &message.parts {
        let owner = parts::Owner {
            session: &place.session.id,
            message: &message.id,
            part: &part.id,
        };
        let mapped = parts::map(&owner, &part.text, speaker);
        match mapped.and_then(|mapped| unseen(mapped, seen)) {
            Ok(mut mapped) => items.append(&mut mapped),
            Err(why) => {
                let id = Some(&*part.id);
                let path = place.generation.place(place.session, &message.id, id);
                skipped.push(skip(&path, why));
            }
        }
    }
    items
}

/// Ids of items are unique in a session; a copied file must not make the whole session unusable.
fn unseen(mapped: Vec<Mapped>, seen: &mut HashSet<ItemId>) -> Result<Vec<Mapped>, Refusal> {
    let ids: Vec<ItemId> = mapped
        .iter()
        .filter_map(|m| m.item.item_id.clone())
        .collect();
    if let Some(id) = ids.iter().find(|id| seen.contains(*id)) {
        return Err((
            SkipReason::DuplicateId,
            format!("{id} was read from another message"),
        ));
    }
    seen.extend(ids);
    Ok(mapped)
}

/// Tokens and cost of the whole message, as written.
fn usage(object: &Object<'_>) -> Option<RawJson> {
    let mut usage = Writer::default();
    for key in ["tokens", "cost"] {
        if let Some(raw) = object.get(key) {
            usage.raw(key, raw);
        }
    }
    (!usage.is_empty()).then(|| RawJson::from_checked(usage.finish()))
}

/// The one item that carries the message's usage: its last finished step, else its last item.
fn usage_place(items: &[Mapped]) -> Option<usize> {
    let step = items
        .iter()
        .rposition(|mapped| mapped.usage == Use::StepFinish);
    step.or_else(|| items.len().checked_sub(1))
}

/// Stands for a message without parts, so that its fields have a place.
fn bare_item(message: &Message, speaker: &Speaker) -> Option<Mapped> {
    let mut note = Writer::default();
    note.text("type", "message");
    note.text("id", &message.id);
    speaker.item(&message.id, Role::System, Channel::SystemNote, note)
}

/// What a message's error says.
pub(super) struct Error<'a> {
    /// The token of its name; `None` when the error is not of OpenCode's form.
    pub(super) name: Option<&'a str>,
    pub(super) message: Option<&'a str>,
    pub(super) retryable: bool,
    /// What else it says.
    rest: Writer,
}

/// The error of a message's object.
pub(super) fn error<'a>(object: &Object<'a>) -> Error<'a> {
    let mut error = Error {
        name: None,
        message: None,
        retryable: false,
        rest: Writer::default(),
    };
    let Ok(Some(outer)) = object.object("error") else {
        if let Some(raw) = object.get("error") {
            error.rest.raw("value", raw);
        }
        return error;
    };
    error.name = outer.token("name");
    error.rest = outer.without(&["name", "data"]);
    if let Ok(Some(data)) = outer.object("data") {
        error.message = data.token("message");
        error.retryable = data.is_true("isRetryable");
        let taken = [
            "isRetryable",
            if error.message.is_some() {
                "message"
            } else {
                ""
            },
        ];
        error.rest.nested("data", data.without(&taken));
    } else if let Some(raw) = outer.get("data") {
        error.rest.raw("data", raw);
    }
    error
}

/// The token for an error without a name.
pub(super) const UNNAMED: &str = "\"UnknownError\"";

fn error_item(message: &Message, object: &Object<'_>, speaker: &Speaker) -> Option<Mapped> {
    let error = error(object);
    let name = error.name.unwrap_or(UNNAMED);
    let mut part = Writer::default();
    part.text("type", "error");
    part.raw("code", name);
    part.raw("message", error.message.unwrap_or(name));
    part.text("source", "opencode");
    part.raw("retryable", if error.retryable { "true" } else { "false" });
    let id = format!("{}:error", message.id);
    let mut mapped = speaker.item(&id, Role::Assistant, Channel::Error, part)?;
    mapped.notes.nested("error", error.rest);
    Some(mapped)
}

/// How a turn ended whose last message has an error.
pub(super) fn outcome_of_error(message: &Message) -> Outcome {
    let Ok(object) = Object::parse(&message.text) else {
        return Outcome::Unanswered;
    };
    let error = error(&object);
    let name = plain(error.name.unwrap_or(UNNAMED));
    let message = error.message.map_or_else(|| name.clone(), plain);
    let error = MessageError {
        name: name.into(),
        message: message.into(),
        retryable: error.retryable,
    };
    Outcome::of_error(error)
}

/// The finished items.
pub(super) fn finish(mapped: Vec<Mapped>) -> Vec<ItemBody> {
    mapped.into_iter().map(Mapped::finish).collect()
}
