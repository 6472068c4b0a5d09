//! The conversation in the form that agents read.

use std::fmt::Write as _;

use super::{CHAIN_MAX, Window, kind_word};
use crate::context::ContextManager;
use crate::message::{Cut, Message};

/// The part of the conversation that a prompt shows, without the message `answered`; empty if there is no other
/// message.
pub(super) fn written(context: &ContextManager, answered: &str, window: Window) -> String {
    let messages = context.messages();
    let own = context.position(answered);
    let shown = shown(context, answered, own, window);
    let others = messages.len() - usize::from(own.is_some());
    let mut text = String::new();
    let left_out = others - shown.len();
    if left_out > 0 {
        let _ = write!(text, "({left_out} of {others} messages are left out)\n\n");
    }
    let mut expected = shown.first().copied().unwrap_or_default();
    for at in shown {
        if at > expected && own != Some(expected) {
            text.push_str("(…)\n\n");
        }
        if let Some(message) = messages.get(at) {
            entry(&mut text, message);
        }
        expected = at + 1;
    }
    text
}

/// The positions of the shown messages, the oldest first: the newest ones that fit the window, and the ancestors of
/// `answered`. `own` is the position of `answered`.
fn shown(
    context: &ContextManager,
    answered: &str,
    own: Option<usize>,
    window: Window,
) -> Vec<usize> {
    let messages = context.messages();
    let mut begin = messages.len();
    let mut newest = Vec::new();
    let mut bytes = 0;
    for (at, message) in messages.iter().enumerate().rev() {
        if own == Some(at) {
            continue;
        }
        bytes += size(message);
        if newest.len() == window.messages || bytes > window.bytes {
            break;
        }
        newest.push(at);
        begin = at;
    }
    let chain = context.chain(answered, CHAIN_MAX);
    newest.extend(chain.into_iter().filter(|at| *at < begin));
    newest.reverse();
    newest.sort_unstable();
    newest
}

/// The approximate size of a message in a prompt: its heading is estimated.
fn size(message: &Message) -> usize {
    message.content.len() + message.speaker.name.len() + 64
}

/// Appends a message: its heading, its text, and whether it was cut.
fn entry(text: &mut String, message: &Message) {
    text.push_str(&heading(message));
    text.push('\n');
    match &*message.content {
        "" => text.push_str("  (nothing)\n"),
        content => indented(text, content),
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
    let mut text = format!(
        "[{}] {} ({})",
        message.id,
        message.speaker.name,
        kind_word(message.speaker.kind)
    );
    for (at, addressee) in message.routing.addressees.iter().enumerate() {
        let name = addressee.member_name.as_deref();
        let before = if at == 0 { " to" } else { "," };
        let _ = write!(text, "{before} {}", name.unwrap_or(&addressee.identifier));
    }
    if let Some(parent) = &message.routing.parent {
        let _ = write!(text, ", answering {parent}");
    }
    text.push(':');
    text
}

/// Appends a text, indented so that none of its lines looks like a heading, and with it like another speaker's message.
pub(super) fn indented(text: &mut String, content: &str) {
    for line in content.lines() {
        if !line.is_empty() {
            text.push_str("  ");
            text.push_str(line);
        }
        text.push('\n');
    }
}
