//! Query parameters of lists without filters.

use filrouge_http::extract::{Cursor, Limit};
use serde::Deserialize;
use utoipa::IntoParams;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    /// The maximum number of rows.
    #[serde(default)]
    #[param(inline)]
    pub(super) limit: Limit,
    /// The `next_cursor` of the previous page.
    #[param(inline)]
    pub(super) cursor: Option<Cursor>,
}
