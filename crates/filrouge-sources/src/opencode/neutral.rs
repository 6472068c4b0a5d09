//! Converts a session's records to a conversation in the neutral form.

use std::collections::{HashMap, HashSet};

use super::neutral_message::{self, token_rule};
use super::neutral_part::{self, StartedCompaction};
use super::order;
use super::storage::{MessageText, SessionText, Storage};
use crate::object::{Object, refusal_report};
use crate::{
    Boundary, Conversation, Header, Message, ReadError, SkipReason, Skipped, TokenRule, Tokens,
};

/// A message, and the compaction that starts with it.
struct ReadMessage {
    message: Message,
    compaction: Option<StartedCompaction>,
}

/// Reads the conversation of the session with this header. Also returns the original messages, with their parts in
/// order.
pub(super) fn conversation(
    storage: &dyn Storage,
    session: &SessionText,
    header: &Header,
) -> Result<(Conversation, Vec<MessageText>), ReadError> {
    let mut reader = Reader {
        storage,
        session,
        token_rule: token_rule(header.generation, header.version.as_deref()),
        part_ids: HashSet::new(),
        skipped: Vec::new(),
    };
    let mut texts = storage.messages(session, &mut reader.skipped)?;
    for text in &mut texts {
        order::sort_by_id(&mut text.parts, |part| &part.id);
    }
    let read = reader.read_messages(&texts);
    let boundaries = boundaries(&read);
    let messages: Vec<Message> = read.into_iter().map(|read| read.message).collect();
    reader.skipped.sort();
    let conversation = Conversation {
        reverted_at: reverted_at(session, &messages),
        messages,
        boundaries,
        token_rule: reader.token_rule,
        skipped: reader.skipped,
    };
    Ok((conversation, texts))
}

struct Reader<'a> {
    storage: &'a dyn Storage,
    session: &'a SessionText,
    token_rule: TokenRule,
    /// The ids of the parts that were read. A part that occurs in a second message is left out there and reported.
    part_ids: HashSet<Box<str>>,
    skipped: Vec<Skipped>,
}

impl Reader<'_> {
    /// The messages in order of time.
    fn read_messages(&mut self, texts: &[MessageText]) -> Vec<ReadMessage> {
        let read = texts.iter().filter_map(|text| self.read_message(text));
        let mut read: Vec<ReadMessage> = read.collect();
        read.sort_by(|a, b| {
            let (a, b) = (&a.message, &b.message);
            (a.created, a.seq, &a.id).cmp(&(b.created, b.seq, &b.id))
        });
        read
    }

    /// Reads one message. A message that cannot be used is reported, and the result is `None`.
    fn read_message(&mut self, text: &MessageText) -> Option<ReadMessage> {
        let mut message = match neutral_message::read(&self.session.id, text, self.token_rule) {
            Ok(message) => message,
            Err(why) => {
                let place = self.storage.place(self.session, &text.id, None);
                self.skipped.push(refusal_report(&place, why));
                return None;
            }
        };
        message.parts.reserve_exact(text.parts.len());
        let mut compaction = None;
        let mut steps: Option<Tokens> = None;
        for part in &text.parts {
            let read = neutral_part::read(&self.session.id, &text.id, part).and_then(|read| {
                let duplicate = || {
                    let detail = format!("{} was read from another message", part.id);
                    (SkipReason::DuplicateId, detail)
                };
                let is_new = self.part_ids.insert(part.id.clone());
                is_new.then_some(read).ok_or_else(duplicate)
            });
            match read {
                Ok(read) => {
                    // A message records only the tokens of its last step, but the cost of all steps.
                    if self.token_rule == TokenRule::OpencodeInputHoldsCache
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
                    self.skipped.push(refusal_report(&place, why));
                }
            }
        }
        message.tokens = steps.or(message.tokens);
        Some(ReadMessage {
            message,
            compaction,
        })
    }
}

/// The positions of finished compactions. A compaction begins with a user message that has a `compaction` part. It is
/// finished once an assistant message with `summary` has ended without an error. OpenCode before 1.0 writes only the
/// assistant message. The model sees the conversation from that user message on, or from the first message that the
/// compaction kept.
fn boundaries(read: &[ReadMessage]) -> Vec<Boundary> {
    let indexes: HashMap<&str, usize> = read
        .iter()
        .enumerate()
        .map(|(at, read)| (&*read.message.id, at))
        .collect();
    let mut boundaries = Vec::new();
    let mut newest = None;
    for (at, read_message) in read.iter().enumerate() {
        let message = &read_message.message;
        let origin = if let Some(compaction) = &read_message.compaction {
            newest = Some(at);
            match compaction.finished {
                true => newest.take(),
                false => continue,
            }
        } else if message.summary
            && message.error.is_none()
            && (message.completed.is_some() || message.finish.is_some())
        {
            let request = message.parent_id.as_deref().and_then(|id| indexes.get(id));
            let request = request.filter(|at| read[**at].compaction.is_some());
            request.copied().or(newest.take())
        } else {
            continue;
        };
        let compaction = origin.and_then(|at| read[at].compaction.as_ref());
        let start = origin.unwrap_or(at);
        let tail = compaction.and_then(|c| indexes.get(c.tail.as_deref()?));
        boundaries.push(Boundary {
            at: tail.map_or(start, |tail| start.min(*tail)),
            created: message.created,
            automatic: compaction.map(|c| c.automatic),
            summary_id: Some(message.id.clone()),
        });
    }
    boundaries
}

/// The index of the message that the session's `revert` names, if the message still exists.
fn reverted_at(session: &SessionText, messages: &[Message]) -> Option<usize> {
    let object = Object::parse(&session.text).ok()?;
    let id = object.object("revert").ok()??.text("messageID")?;
    messages.iter().position(|message| *message.id == *id)
}
