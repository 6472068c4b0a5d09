//! The section `[pages]`: the pages for people.

use std::time::Duration;

use filrouge_engine::Settings;

use super::layers::{Layers, ValueType, format_or_none, non_empty};
use crate::exit::Result;

/// The maximum of `share_max_days`: a year.
const SHARE_MAX_DAYS: u64 = 366;
/// The seconds of a day.
const DAY_S: u64 = 24 * 60 * 60;

/// Reads the section, partly into the settings of the engine. Returns the path of the file with the prices of models;
/// `None` if there are no prices.
pub(super) fn read(layers: &mut Layers<'_>, engine: &mut Settings) -> Result<Option<String>> {
    let default = engine.share_max.as_secs() / DAY_S;
    let days = layers.number("pages.share_max_days", 0..=SHARE_MAX_DAYS, default)?;
    engine.share_max = Duration::from_secs(days * DAY_S);
    layers.read(
        ("pages.prices", ValueType::FilePath),
        || Ok(None),
        |text| non_empty(text).map(Some),
        format_or_none,
    )
}
