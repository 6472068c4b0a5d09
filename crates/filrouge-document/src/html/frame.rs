//! What surrounds an item: the document, or a page that shows a part of a conversation and only so much of each item.

use filrouge_types::Item;
use maud::{Markup, html};

use super::safe_text::listing;
use crate::language::translated;
use crate::part_view::PartView;
use crate::redaction::Redactions;
use crate::url::is_data;
use crate::words::size;

/// What the rendering of items depends on besides their turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    /// The session's redactions.
    pub(crate) redactions: &'a Redactions,
    /// The page of a part of the conversation; `None` for the document.
    pub(crate) view: Option<&'a PartView>,
}

impl<'a> Frame<'a> {
    /// The frame of a page that shows a part of a conversation.
    pub(crate) const fn of_part(redactions: &'a Redactions, view: &'a PartView) -> Self {
        Self {
            redactions,
            view: Some(view),
        }
    }

    /// A word of the document in the language of the page.
    pub(super) fn say<'t>(&self, english: &'t str) -> &'t str {
        match self.view {
            Some(view) => translated(english, view.language),
            None => english,
        }
    }

    /// The id of an item's element.
    pub(super) fn item_id(&self, seq: u64) -> String {
        let prefix = self.view.map_or("", |view| view.ids.as_str());
        format!("{prefix}seq-{seq}")
    }

    /// The address of an item, and of the part of the conversation around it.
    pub(super) fn item_link(&self, seq: u64) -> String {
        match self.view {
            Some(view) if !view.path.is_empty() => format!("{}?at={seq}#seq-{seq}", view.path),
            _ => format!("#seq-{seq}"),
        }
    }
}

/// An item, and what the rendering of its parts depends on besides it.
#[derive(Debug, Clone, Copy)]
pub(super) struct ItemContext<'a> {
    pub(super) item: &'a Item,
    pub(super) frame: Frame<'a>,
}

impl ItemContext<'_> {
    /// A word of the document in the language of the page.
    pub(super) fn say(&self, english: &'static str) -> &'static str {
        self.frame.say(english)
    }

    /// Whether a content is shown completely.
    pub(super) fn fits(&self, content: &str) -> bool {
        let max_bytes = self.frame.view.map_or(usize::MAX, |view| view.max_bytes);
        content.len() <= max_bytes
    }

    /// As much of a content as is shown.
    pub(super) fn beginning<'t>(&self, content: &'t str) -> &'t str {
        let max_bytes = self.frame.view.map_or(usize::MAX, |view| view.max_bytes);
        &content[..content.floor_char_boundary(max_bytes)]
    }

    /// The address of a link; empty if it is too long. The size of a `data:` address is shown instead of itself.
    pub(super) fn address<'t>(&self, address: &'t str) -> &'t str {
        let is_shown = self.fits(address) || is_data(address);
        if is_shown { address } else { "" }
    }

    /// The content, or its beginning with a link to the complete item.
    pub(super) fn limited(&self, content: &str, render: impl FnOnce(&str) -> Markup) -> Markup {
        match self.frame.view {
            Some(_) if !self.fits(content) => html! {
                (render(self.beginning(content)))
                (self.complete_item(content.len()))
            },
            _ => render(content),
        }
    }

    /// A code block; the language is shown above it, unless it is empty.
    pub(super) fn listing(&self, language: &str, text: &str) -> Markup {
        self.limited(text, |text| listing(language, text))
    }

    /// The link to the complete item, because a content of this many bytes is not shown completely.
    pub(super) fn complete_item(&self, bytes: usize) -> Markup {
        html! {
            @if let Some(view) = self.frame.view {
                p.cut { a href={ (view.path) "/items/" (self.item.seq) } { (self.say("The complete item")) } " (" (size(bytes)) ")" }
            }
        }
    }
}
