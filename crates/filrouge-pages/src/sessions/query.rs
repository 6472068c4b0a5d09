//! The parameters of the page.

use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::links::with_query;

/// The order of a list, the newest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ListOrder {
    /// By last activity.
    Updated,
    /// By creation.
    Created,
}

impl ListOrder {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Updated => "updated",
            Self::Created => "created",
        }
    }
}

#[derive(Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    /// The search.
    #[serde(default)]
    pub(super) q: String,
    /// Only this history: the name of a program, or `ledger`.
    pub(super) source: Option<String>,
    /// The order. By default the best match is first, and in a list the last activity.
    #[param(inline)]
    pub(super) order: Option<ListOrder>,
    /// Where the previous page ended.
    pub(super) cursor: Option<String>,
}

impl ListQuery {
    /// The address of the page for the same search, with these parameters.
    pub(super) fn address(
        &self,
        source: Option<&str>,
        order: Option<ListOrder>,
        cursor: Option<&str>,
    ) -> String {
        let pairs = [
            ("q", self.q.trim()),
            ("source", source.unwrap_or_default()),
            ("order", order.map_or("", ListOrder::as_str)),
            ("cursor", cursor.unwrap_or_default()),
        ];
        with_query("/", &pairs)
    }

    /// The address of the next page.
    pub(super) fn next_address(&self, cursor: &str) -> String {
        self.address(self.source.as_deref(), self.order, Some(cursor))
    }
}
