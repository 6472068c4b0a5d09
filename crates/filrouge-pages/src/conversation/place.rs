//! Places in a conversation, and their addresses.

use filrouge_engine::{PartBounds, PartPlace};
use filrouge_http::problem::Problem;
use filrouge_types::ErrorCode;
use maud::{Markup, html};
use serde::Deserialize;
use utoipa::IntoParams;

/// The size of a part. Most contents grow to less than twice their size when they are rendered.
pub(super) const BOUNDS: PartBounds = PartBounds {
    items: 100,
    bytes: 96 << 10,
    item_bytes: 16 << 10,
};
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlaceQuery {
    /// The part around the item with this seq.
    at: Option<u64>,
    /// The part after this seq.
    pub(super) after: Option<u64>,
    /// The part before this seq.
    pub(super) before: Option<u64>,
    /// Whether the part is shown inside the page of another conversation.
    #[serde(default)]
    pub(super) inside: bool,
}

impl PlaceQuery {
    /// The place of the part, by default the beginning.
    pub(super) fn place(&self) -> Result<PartPlace, Problem> {
        match (self.at, self.after, self.before) {
            (None, None, None) => Ok(PartPlace::After(0)),
            (Some(seq), None, None) => Ok(PartPlace::Around(seq)),
            (None, Some(seq), None) => Ok(PartPlace::After(seq)),
            (None, None, Some(seq)) => Ok(PartPlace::Before(seq)),
            _ => Err(Problem::new(
                ErrorCode::Invalid,
                "at, after and before: only one of them",
            )),
        }
    }
}

/// The links to the parts before and after a part; scripts load the part when the reader reaches its link.
pub(super) fn more(path: &str, class: &str, parameter: &str, (seq, label): (u64, &str)) -> Markup {
    html! {
        p class={ "more " (class) } hx-get={ (path) "/part?" (parameter) "=" (seq) } hx-trigger="revealed" hx-swap="outerHTML" {
            a href={ (path) "?" (parameter) "=" (seq) "#conversation" } { (label) }
        }
    }
}
