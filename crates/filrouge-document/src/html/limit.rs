//! Limits how much of an item a page shows.

use maud::{Markup, html};

use super::part::ItemContext;
use super::safe_text::listing;
use crate::words::size;

impl ItemContext<'_> {
    /// Whether a content is shown completely.
    pub(super) fn fits(&self, content: &str) -> bool {
        let max_bytes = self.frame.view.map_or(usize::MAX, |view| view.max_bytes);
        content.len() <= max_bytes
    }

    /// The content, or its beginning with a link to the complete item.
    pub(super) fn limited(&self, content: &str, render: impl FnOnce(&str) -> Markup) -> Markup {
        match self.frame.view {
            Some(view) if !self.fits(content) => html! {
                (render(&content[..content.floor_char_boundary(view.max_bytes)]))
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
                p.cut { a href={ (view.path) "/items/" (self.item.seq) } { "The complete item" } " (" (size(bytes)) ")" }
            }
        }
    }
}
