//! The section `[limits]`: the resources that one caller, one request and one connection may use (DESIGN §8).

use std::num::NonZeroU32;
use std::time::Duration;

use filrouge_engine::Limits as EngineLimits;
use filrouge_http::limits::{LimitSettings, Rate};

use super::layers::{Layers, ValueType, format_or_none, parse_within};
use crate::exit::Result;

/// The range of a limit, which may not be 0.
const AT_LEAST_ONE: std::ops::RangeInclusive<u64> = 1..=u64::MAX;

/// Reads a rate per second; 0 means no limit.
fn per_second(layers: &mut Layers<'_>, name: &'static str) -> Result<Option<NonZeroU32>> {
    let read = |text: &str| {
        let number = parse_within(&(0..=u64::from(u32::MAX)), text)?;
        Ok(u32::try_from(number).ok().and_then(NonZeroU32::new))
    };
    let setting = (name, ValueType::Number);
    layers.read(setting, || Ok(None), read, format_or_none)
}

/// Reads a rate with its burst, which is by default the rate's amount for one second. `None` means no limit.
fn rate(layers: &mut Layers<'_>, rate: &'static str, burst: &'static str) -> Result<Option<Rate>> {
    let (rate, burst) = (per_second(layers, rate)?, per_second(layers, burst)?);
    Ok(rate.map(|per_second| Rate {
        per_second,
        burst: burst.unwrap_or(per_second),
    }))
}

/// Reads a limit of a number or of bytes.
fn count(layers: &mut Layers<'_>, name: &'static str, default: usize) -> Result<usize> {
    layers.number(name, AT_LEAST_ONE, default)
}

/// Reads a limit of a time in milliseconds.
fn timeout(layers: &mut Layers<'_>, name: &'static str, default: Duration) -> Result<Duration> {
    layers.millis(name, AT_LEAST_ONE, default)
}

/// Reads the limits. Returns those of the server, and writes those of the engine to `engine`.
pub(super) fn read(layers: &mut Layers<'_>, engine: &mut EngineLimits) -> Result<LimitSettings> {
    let defaults = LimitSettings::default();
    let body_bytes = count(layers, "limits.body_bytes", defaults.body_bytes)?;
    let bodies_in_flight_bytes = count(
        layers,
        "limits.bodies_in_flight_bytes",
        defaults.bodies_in_flight_bytes,
    )?;
    engine.item_bytes = count(layers, "limits.item_bytes", engine.item_bytes)?;
    engine.metadata_bytes = count(layers, "limits.metadata_bytes", engine.metadata_bytes)?;
    Ok(LimitSettings {
        body_bytes,
        bodies_in_flight_bytes,
        header_timeout: timeout(layers, "limits.header_timeout_ms", defaults.header_timeout)?,
        body_timeout: timeout(layers, "limits.body_timeout_ms", defaults.body_timeout)?,
        answer_timeout: timeout(layers, "limits.answer_timeout_ms", defaults.answer_timeout)?,
        write_stall: timeout(layers, "limits.write_stall_ms", defaults.write_stall)?,
        stream_idle: layers.seconds(
            "limits.stream_idle_seconds",
            AT_LEAST_ONE,
            defaults.stream_idle,
        )?,
        connections: count(layers, "limits.connections", defaults.connections)?,
        streams_per_key: count(layers, "limits.streams_per_key", defaults.streams_per_key)?,
        large_answers: count(layers, "limits.large_answers", defaults.large_answers)?,
        unread_bytes: count(layers, "limits.unread_bytes", defaults.unread_bytes)?,
        unread_folder: None,
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
