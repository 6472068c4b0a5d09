//! A session's texts to a conversation in the neutral form.

use std::collections::{HashMap, HashSet};

use super::neutral_message::{self, rule};
use super::neutral_part::{self, Compaction, Owner};
use super::order;
use super::storage::{MessageText, SessionText, Storage};
use crate::object::{Object, skip};
use crate::{
    Boundary, Conversation, Header, Message, ReadError, SkipReason, Skipped, TokenRule, Tokens,
};

/// A message, and the compaction that begins with it.
struct Read {
    message: Message,
    compaction: Option<Compaction>,
}

/// Reads a session of that header; also its messages as they were written, their parts in order.
pub(super) fn conversation(
    storage: &dyn Storage,
    session: &SessionText,
    header: &Header,
) -> Result<(Conversation, Vec<MessageText>), ReadError> {
    let mut reader = Reader {
        storage,
        session,
        rule: rule(header.generation, header.version.as_deref()),
        parts: HashSet::new(),
        skipped: Vec::new(),
    };
    let mut texts = storage.messages(session, &mut reader.skipped)?;
    for text in &mut texts {
        order::by_id(&mut text.parts, |part| &part.id);
    }
    let read = reader.all(&texts);
    let boundaries = boundaries(&read);
    let messages: Vec<Message> = read.into_iter().map(|read| read.message).collect();
    reader.skipped.sort();
    let conversation = Conversation {
        reverted_at: reverted_at(session, &messages),
        messages,
        boundaries,
        token_rule: reader.rule,
        skipped: reader.skipped,
    };
    Ok((conversation, texts))
}

struct Reader<'a> {
    storage: &'a dyn Storage,
    session: &'a SessionText,
    rule: TokenRule,
    /// The ids of parts: one in two messages is read once.
    parts: HashSet<Box<str>>,
    skipped: Vec<Skipped>,
}

impl Reader<'_> {
    /// In the order they were said.
    fn all(&mut self, texts: &[MessageText]) -> Vec<Read> {
        let mut read: Vec<Read> = Vec::with_capacity(texts.len());
        for text in texts {
            read.extend(self.message(text));
        }
        read.sort_by(|a, b| {
            let key = |r: &Read| (r.message.created, r.message.seq);
            key(a)
                .cmp(&key(b))
                .then_with(|| a.message.id.cmp(&b.message.id))
        });
        read
    }

    /// `None` when it cannot be used, which is named.
    fn message(&mut self, text: &MessageText) -> Option<Read> {
        let mut message = match neutral_message::read(&self.session.id, text, self.rule) {
            Ok(message) => message,
            Err(why) => {
                let place = self.storage.place(self.session, &text.id, None);
                self.skipped.push(skip(&place, why));
                return None;
            }
        };
        message.parts.reserve_exact(text.parts.len());
        let mut compaction = None;
        let mut steps: Option<Tokens> = None;
        for part in &text.parts {
            let owner = Owner {
                session: &self.session.id,
                message: &text.id,
                part: &part.id,
            };
            let read = neutral_part::read(&owner, &part.text).and_then(|read| {
                let again = || {
                    let detail = format!("{} was read from another message", part.id);
                    (SkipReason::DuplicateId, detail)
                };
                let new = self.parts.insert(part.id.clone());
                new.then_some(read).ok_or_else(again)
            });
            match read {
                Ok(read) => {
                    // A message has the tokens of its last step alone, and the cost of all.
                    if self.rule == TokenRule::OpencodeInputHoldsCache
                        && let Some(step) = read.step
                    {
                        steps.get_or_insert_default().add(&step);
                    }
                    compaction = compaction.or(read.compaction);
                    message.parts.push(read.part);
                }
                Err(why) => {
                    let id = Some(&*part.id);
                    let place = self.storage.place(self.session, &text.id, id);
                    self.skipped.push(skip(&place, why));
                }
            }
        }
        message.tokens = steps.or(message.tokens);
        Some(Read {
            message,
            compaction,
        })
    }
}

/// Where finished compactions have cut. One begins with a user message that has a `compaction` part, and is finished
/// once an assistant message with `summary` has ended well; OpenCode before 1.0 has that message alone. The model
/// sees the conversation from that user message on, or from the message that the compaction has kept the tail of.
fn boundaries(read: &[Read]) -> Vec<Boundary> {
    let places: HashMap<&str, usize> = read
        .iter()
        .enumerate()
        .map(|(at, read)| (&*read.message.id, at))
        .collect();
    let mut boundaries = Vec::new();
    let mut newest = None;
    for (at, one) in read.iter().enumerate() {
        let message = &one.message;
        let origin = if let Some(compaction) = &one.compaction {
            newest = Some(at);
            match compaction.finished {
                true => newest.take(),
                false => continue,
            }
        } else if message.summary && ended_well(message) {
            let asked = message.parent_id.as_deref().and_then(|id| places.get(id));
            let asked = asked.filter(|at| read[**at].compaction.is_some());
            asked.copied().or(newest.take())
        } else {
            continue;
        };
        let compaction = origin.and_then(|at| read[at].compaction.as_ref());
        let start = origin.unwrap_or(at);
        let tail = compaction.and_then(|c| places.get(c.tail.as_deref()?));
        boundaries.push(Boundary {
            at: tail.map_or(start, |tail| start.min(*tail)),
            created: message.created,
            automatic: compaction.map(|c| c.automatic),
            summary_id: Some(message.id.clone()),
        });
    }
    boundaries
}

fn ended_well(message: &Message) -> bool {
    let ended = message.completed.is_some() || message.finish.is_some();
    ended && message.error.is_none()
}

/// The message that the session's `revert` names, if it is still there.
fn reverted_at(session: &SessionText, messages: &[Message]) -> Option<usize> {
    let object = Object::parse(&session.text).ok()?;
    let id = object.object("revert").ok()??.text("messageID")?;
    messages.iter().position(|message| *message.id == *id)
}
