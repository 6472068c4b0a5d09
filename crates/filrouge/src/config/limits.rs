//! The section `[limits]`: the resources that one caller, one request and one connection may use (DESIGN §8).

use std::num::NonZeroU32;

use filrouge_engine::Limits as EngineLimits;
use filrouge_http::limits::{LimitSettings, Rate};

use super::layers::{Layers, ValueType, format_or_none, parse_within};
use crate::exit::Usage;

/// The range of a limit, which may not be 0.
const AT_LEAST_ONE: std::ops::RangeInclusive<u64> = 1..=u64::MAX;

/// Reads a rate per second; 0 means no limit.
fn per_second(layers: &mut Layers<'_>, name: &'static str) -> Result<Option<NonZeroU32>, Usage> {
    let read = |text: &str| {
        let number = parse_within(&(0..=u64::from(u32::MAX)), text)?;
        Ok(u32::try_from(number).ok().and_then(NonZeroU32::new))
    };
    let setting = (name, ValueType::Number);
    layers.read(
        setting,
        || Ok(None),
        read,
        |rate| format_or_none(rate.as_ref()),
    )
}

/// Reads a rate with its burst, which is by default the rate's amount for one second. `None` means no limit.
fn rate(
    layers: &mut Layers<'_>,
    rate: &'static str,
    burst: &'static str,
) -> Result<Option<Rate>, Usage> {
    let (rate, burst) = (per_second(layers, rate)?, per_second(layers, burst)?);
    Ok(rate.map(|per_second| Rate {
        per_second,
        burst: burst.unwrap_or(per_second),
    }))
}

/// Reads the limits. Returns those of the server, and writes those of the engine to `engine`.
pub(super) fn read(
    layers: &mut Layers<'_>,
    engine: &mut EngineLimits,
) -> Result<LimitSettings, Usage> {
    let defaults = LimitSettings::default();
    let body_bytes = layers.number("limits.body_bytes", AT_LEAST_ONE, defaults.body_bytes)?;
    let bodies_in_flight_bytes = layers.number(
        "limits.bodies_in_flight_bytes",
        AT_LEAST_ONE,
        defaults.bodies_in_flight_bytes,
    )?;
    engine.item_bytes = layers.number("limits.item_bytes", AT_LEAST_ONE, engine.item_bytes)?;
    engine.metadata_bytes =
        layers.number("limits.metadata_bytes", AT_LEAST_ONE, engine.metadata_bytes)?;
    Ok(LimitSettings {
        body_bytes,
        bodies_in_flight_bytes,
        header_timeout: layers.millis(
            "limits.header_timeout_ms",
            AT_LEAST_ONE,
            defaults.header_timeout,
        )?,
        body_timeout: layers.millis(
            "limits.body_timeout_ms",
            AT_LEAST_ONE,
            defaults.body_timeout,
        )?,
        answer_timeout: layers.millis(
            "limits.answer_timeout_ms",
            AT_LEAST_ONE,
            defaults.answer_timeout,
        )?,
        write_stall: layers.millis("limits.write_stall_ms", AT_LEAST_ONE, defaults.write_stall)?,
        stream_idle: layers.seconds(
            "limits.stream_idle_seconds",
            AT_LEAST_ONE,
            defaults.stream_idle,
        )?,
        connections: layers.number("limits.connections", AT_LEAST_ONE, defaults.connections)?,
        streams_per_key: layers.number(
            "limits.streams_per_key",
            AT_LEAST_ONE,
            defaults.streams_per_key,
        )?,
        large_answers: layers.number(
            "limits.large_answers",
            AT_LEAST_ONE,
            defaults.large_answers,
        )?,
        rate_per_key: rate(
            layers,
            "limits.requests_per_second_per_key",
            "limits.requests_burst_per_key",
        )?,
        rate_per_identity: rate(
            layers,
            "limits.requests_per_second_per_identity",
            "limits.requests_burst_per_identity",
        )?,
        rate_per_session: rate(
            layers,
            "limits.requests_per_second_per_session",
            "limits.requests_burst_per_session",
        )?,
    })
}
