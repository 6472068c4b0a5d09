//! The conversation in the form that agents read.

use std::fmt::Write as _;

use super::{CHAIN_MAX, Window};
use crate::context::ContextManager;
use crate::message::{Cut, Message, SpeakerKind};

/// The part of the conversation that a prompt shows, without the message `answered`; empty if there is no other
/// message.
pub(super) fn render(context: &ContextManager, answered: &str, window: Window) -> String {
    let messages = context.messages();
    let answered_position = context.position(answered);
    let positions = shown_positions(context, answered, answered_position, window);
    let others = messages.len() - usize::from(answered_position.is_some());
    let mut text = String::new();
    let left_out = others - positions.len();
    if left_out > 0 {
        let _ = write!(text, "({left_out} of {others} messages are left out)\n\n");
    }
    let mut next_position = positions.first().copied().unwrap_or_default();
    for position in positions {
        if position > next_position && answered_position != Some(next_position) {
            text.push_str("(…)\n\n");
        }
        if let Some(message) = messages.get(position) {
            write_message(&mut text, message);
        }
        next_position = position + 1;
    }
    text
}

/// The positions of the shown messages, the oldest first: the newest ones that fit the window, and the ancestors of
/// `answered`. `answered_position` is the position of `answered`.
fn shown_positions(
    context: &ContextManager,
    answered: &str,
    answered_position: Option<usize>,
    window: Window,
) -> Vec<usize> {
    let messages = context.messages();
    let mut newest = Vec::new();
    let mut bytes = 0;
    for (position, message) in messages.iter().enumerate().rev() {
        if answered_position == Some(position) {
            continue;
        }
        // The size of the heading is estimated.
        bytes += message.content.len() + message.speaker.name.len() + 64;
        if newest.len() == window.messages || bytes > window.bytes {
            break;
        }
        newest.push(position);
    }
    let begin = newest.last().copied().unwrap_or(messages.len());
    let chain = context.ancestor_indexes(answered, CHAIN_MAX);
    newest.extend(chain.into_iter().filter(|position| *position < begin));
    newest.sort_unstable();
    newest
}

/// Appends a message: its heading, its text, and whether it was cut.
fn write_message(text: &mut String, message: &Message) {
    text.push_str(&heading(message));
    text.push('\n');
    match &*message.content {
        "" => text.push_str("  (nothing)\n"),
        content => write_indented(text, content),
    }
    let cut = match message.cut {
        None => "",
        Some(Cut::Cancelled) => "  (cut short: it was cancelled)\n",
        Some(Cut::Failed) => "  (cut short: the agent failed)\n",
        Some(Cut::Interrupted) => "  (cut short: it was interrupted)\n",
    };
    text.push_str(cut);
    text.push('\n');
}

/// A message's heading: its speaker, its addressees and the message it answers.
pub(super) fn heading(message: &Message) -> String {
    let kind = match message.speaker.kind {
        SpeakerKind::Human => "human",
        SpeakerKind::Agent => "agent",
        SpeakerKind::System => "application",
    };
    let mut text = format!("[{}] {} ({kind})", message.id, message.speaker.name);
    for (index, addressee) in message.routing.addressees.iter().enumerate() {
        let name = addressee.member_name.as_ref();
        let name = name.unwrap_or(&addressee.identifier);
        let separator = if index == 0 { " to" } else { "," };
        let _ = write!(text, "{separator} {name}");
    }
    if let Some(parent) = &message.routing.parent {
        let _ = write!(text, ", answering {parent}");
    }
    text.push(':');
    text
}

/// Appends a text, indented so that none of its lines looks like the heading of another speaker's message.
pub(super) fn write_indented(text: &mut String, content: &str) {
    for line in content.lines() {
        if !line.is_empty() {
            text.push_str("  ");
            text.push_str(line);
        }
        text.push('\n');
    }
}
