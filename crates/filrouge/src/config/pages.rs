//! The section `[pages]`: the pages for people.

use super::layers::{Layers, ValueType, format_or_none, non_empty};
use crate::exit::Result;

/// Reads the path of the file with the prices of models; `None` for the prices of this build.
pub(super) fn read(layers: &mut Layers<'_>) -> Result<Option<String>> {
    layers.read(
        ("pages.prices", ValueType::FilePath),
        || Ok(None),
        |text| non_empty(text).map(Some),
        format_or_none,
    )
}
