//! The section `[limits]`: the resources that one caller, one request and one connection may use (DESIGN §8).

use std::num::NonZeroU32;

use filrouge_engine::Limits as EngineLimits;
use filrouge_http::limits::{LimitSettings, Rate};

use super::layers::{Form, Layers, shown_or_none, within};
use crate::exit::Usage;

/// The range of a limit, which may not be 0.
const ANY: std::ops::RangeInclusive<u64> = 1..=u64::MAX;

/// Reads a rate per second; 0 means no limit.
fn per_second(layers: &mut Layers<'_>, name: &'static str) -> Result<Option<NonZeroU32>, Usage> {
    let read = |text: &str| {
        let number = within(&(0..=u64::from(u32::MAX)), text)?;
        Ok(u32::try_from(number).ok().and_then(NonZeroU32::new))
    };
    let form = (name, Form::Number);
    layers.read(form, || Ok(None), read, |rate| shown_or_none(rate.as_ref()))
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
    let usual = LimitSettings::default();
    let body_bytes = layers.number("limits.body_bytes", ANY, usual.body_bytes)?;
    let bodies_in_flight_bytes = layers.number(
        "limits.bodies_in_flight_bytes",
        ANY,
        usual.bodies_in_flight_bytes,
    )?;
    engine.item_bytes = layers.number("limits.item_bytes", ANY, engine.item_bytes)?;
    engine.metadata_bytes = layers.number("limits.metadata_bytes", ANY, engine.metadata_bytes)?;
    Ok(LimitSettings {
        body_bytes,
        bodies_in_flight_bytes,
        header_timeout: layers.millis("limits.header_timeout_ms", ANY, usual.header_timeout)?,
        body_timeout: layers.millis("limits.body_timeout_ms", ANY, usual.body_timeout)?,
        answer_timeout: layers.millis("limits.answer_timeout_ms", ANY, usual.answer_timeout)?,
        write_stall: layers.millis("limits.write_stall_ms", ANY, usual.write_stall)?,
        stream_idle: layers.seconds("limits.stream_idle_seconds", ANY, usual.stream_idle)?,
        connections: layers.number("limits.connections", ANY, usual.connections)?,
        streams_per_key: layers.number("limits.streams_per_key", ANY, usual.streams_per_key)?,
        large_answers: layers.number("limits.large_answers", ANY, usual.large_answers)?,
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
