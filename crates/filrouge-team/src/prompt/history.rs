//! What was said, as agents read it.

use std::fmt::Write as _;

use super::{CHAIN_MAX, Window, kind_word};
use crate::context::ContextManager;
use crate::message::{Cut, Message};

/// What was said beside `answered`. Empty when there is nothing.
pub(super) fn told(context: &ContextManager, answered: &str, window: Window) -> String {
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

/// Where the messages stand that are told, the oldest first: the chain, and the newest as far as the window goes.
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

/// What a message takes in a prompt, about: its heading is estimated.
fn size(message: &Message) -> usize {
    message.content.len() + message.speaker.name.len() + 64
}

fn entry(text: &mut String, message: &Message) {
    text.push_str(&heading(message));
    text.push('\n');
    match &*message.content {
        "" => text.push_str("  (nothing)\n"),
        said => indented(text, said),
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

/// Who says it, to whom, and to what.
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

/// Indented, no line of what somebody says can be taken for a heading, and so for what somebody else says.
pub(super) fn indented(text: &mut String, said: &str) {
    for line in said.lines() {
        if !line.is_empty() {
            text.push_str("  ");
            text.push_str(line);
        }
        text.push('\n');
    }
}
