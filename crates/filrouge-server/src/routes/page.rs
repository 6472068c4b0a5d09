//! What a list without filters is asked with.

use filrouge_http::extract::{Cursor, Limit};
use serde::Deserialize;
use utoipa::IntoParams;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    /// At most so many.
    #[serde(default)]
    #[param(inline)]
    pub(super) limit: Limit,
    /// The `next_cursor` of the page before.
    #[param(inline)]
    pub(super) cursor: Option<Cursor>,
}
