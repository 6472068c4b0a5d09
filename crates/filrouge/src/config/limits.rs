//! The section `[limits]`: what one caller, one request and one connection may take (DESIGN §8).

use std::fmt::Display;
use std::num::NonZeroU32;
use std::time::Duration;

use filrouge_engine::Limits as EngineLimits;
use filrouge_http::limits::{LimitSettings, Rate};
use serde::Deserialize;

use super::{Layers, Setting};
use crate::exit::Usage;

/// The smallest of the numbers that may be set, so that nothing works by being 0.
fn number(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("{text:?} is no whole number above 0")),
        Ok(number) => Ok(number),
    }
}

/// A rate; 0 is none.
fn rate(text: &str) -> Result<Option<NonZeroU32>, String> {
    text.parse()
        .map(NonZeroU32::new)
        .map_err(|_| format!("{text:?} is no whole number"))
}

/// How a setting without a bound is shown.
fn shown(rate: Option<NonZeroU32>) -> String {
    rate.map_or_else(|| "none".to_owned(), |n| n.to_string())
}

macro_rules! limits {
    (numbers { $($number:ident $number_variable:literal = $default:expr;)+ }
     rates { $($rate:ident $rate_variable:literal;)+ }) => {
        /// The section in the file; unknown members are refused.
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct LimitsFile {
            $($number: Option<u64>,)+
            $($rate: Option<u32>,)+
        }

        /// The section, each member with where it comes from.
        #[derive(Debug, Clone)]
        pub(crate) struct LimitsConfig {
            $($number: Setting<u64>,)+
            $($rate: Setting<Option<NonZeroU32>>,)+
        }

        impl LimitsConfig {
            pub(super) fn read(layers: &Layers<'_>, file: &LimitsFile) -> Result<Self, Usage> {
                let defaults = LimitSettings::default();
                let engine = EngineLimits::default();
                Ok(Self {
                    $($number: layers.pick(
                        None,
                        $number_variable,
                        file.$number.map(|n| n.to_string()),
                        || Ok($default(&defaults, &engine)),
                        |text| number(text).map_err(|e| format!("limits.{}: {e}", stringify!($number))),
                    )?,)+
                    $($rate: layers.pick(
                        None,
                        $rate_variable,
                        file.$rate.map(|n| n.to_string()),
                        || Ok(None),
                        |text| rate(text).map_err(|e| format!("limits.{}: {e}", stringify!($rate))),
                    )?,)+
                })
            }

            /// Name, value and origin of each member.
            pub(crate) fn rows(&self) -> Vec<(&'static str, String, String)> {
                fn row<T>(name: &'static str, setting: &Setting<T>, value: impl Display) -> (&'static str, String, String) {
                    (name, value.to_string(), setting.origin.to_string())
                }
                vec![
                    $(row(concat!("limits.", stringify!($number)), &self.$number, self.$number.value),)+
                    $(row(concat!("limits.", stringify!($rate)), &self.$rate, shown(self.$rate.value)),)+
                ]
            }
        }
    };
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

limits! {
    numbers {
        body_bytes "FILROUGE_LIMITS_BODY_BYTES" = |s: &LimitSettings, _| s.body_bytes as u64;
        bodies_in_flight_bytes "FILROUGE_LIMITS_BODIES_IN_FLIGHT_BYTES" = |s: &LimitSettings, _| s.bodies_in_flight_bytes as u64;
        item_bytes "FILROUGE_LIMITS_ITEM_BYTES" = |_: &LimitSettings, e: &EngineLimits| e.item_bytes as u64;
        metadata_bytes "FILROUGE_LIMITS_METADATA_BYTES" = |_: &LimitSettings, e: &EngineLimits| e.metadata_bytes as u64;
        header_timeout_ms "FILROUGE_LIMITS_HEADER_TIMEOUT_MS" = |s: &LimitSettings, _| millis(s.header_timeout);
        body_timeout_ms "FILROUGE_LIMITS_BODY_TIMEOUT_MS" = |s: &LimitSettings, _| millis(s.body_timeout);
        answer_timeout_ms "FILROUGE_LIMITS_ANSWER_TIMEOUT_MS" = |s: &LimitSettings, _| millis(s.answer_timeout);
        write_stall_ms "FILROUGE_LIMITS_WRITE_STALL_MS" = |s: &LimitSettings, _| millis(s.write_stall);
        stream_idle_seconds "FILROUGE_LIMITS_STREAM_IDLE_SECONDS" = |s: &LimitSettings, _| s.stream_idle.as_secs();
        connections "FILROUGE_LIMITS_CONNECTIONS" = |s: &LimitSettings, _| s.connections as u64;
        streams_per_key "FILROUGE_LIMITS_STREAMS_PER_KEY" = |s: &LimitSettings, _| s.streams_per_key as u64;
        large_answers "FILROUGE_LIMITS_LARGE_ANSWERS" = |s: &LimitSettings, _| s.large_answers as u64;
    }
    rates {
        requests_per_second_per_key "FILROUGE_LIMITS_REQUESTS_PER_SECOND_PER_KEY";
        requests_burst_per_key "FILROUGE_LIMITS_REQUESTS_BURST_PER_KEY";
        requests_per_second_per_identity "FILROUGE_LIMITS_REQUESTS_PER_SECOND_PER_IDENTITY";
        requests_burst_per_identity "FILROUGE_LIMITS_REQUESTS_BURST_PER_IDENTITY";
        requests_per_second_per_session "FILROUGE_LIMITS_REQUESTS_PER_SECOND_PER_SESSION";
        requests_burst_per_session "FILROUGE_LIMITS_REQUESTS_BURST_PER_SESSION";
    }
}

fn size(setting: &Setting<u64>) -> usize {
    usize::try_from(setting.value).unwrap_or(usize::MAX)
}

/// A rate with its burst, which is one second's worth unless it is set.
fn rate_of(
    per_second: &Setting<Option<NonZeroU32>>,
    burst: &Setting<Option<NonZeroU32>>,
) -> Option<Rate> {
    per_second.value.map(|per_second| Rate {
        per_second,
        burst: burst.value.unwrap_or(per_second),
    })
}

impl LimitsConfig {
    /// What the server is told.
    pub(crate) fn settings(&self) -> LimitSettings {
        let time = |setting: &Setting<u64>| Duration::from_millis(setting.value);
        LimitSettings {
            body_bytes: size(&self.body_bytes),
            bodies_in_flight_bytes: size(&self.bodies_in_flight_bytes),
            header_timeout: time(&self.header_timeout_ms),
            body_timeout: time(&self.body_timeout_ms),
            answer_timeout: time(&self.answer_timeout_ms),
            write_stall: time(&self.write_stall_ms),
            connections: size(&self.connections),
            stream_idle: Duration::from_secs(self.stream_idle_seconds.value),
            streams_per_key: size(&self.streams_per_key),
            large_answers: size(&self.large_answers),
            rate_per_key: rate_of(
                &self.requests_per_second_per_key,
                &self.requests_burst_per_key,
            ),
            rate_per_identity: rate_of(
                &self.requests_per_second_per_identity,
                &self.requests_burst_per_identity,
            ),
            rate_per_session: rate_of(
                &self.requests_per_second_per_session,
                &self.requests_burst_per_session,
            ),
        }
    }

    /// What the engine is told.
    pub(crate) fn engine(&self) -> EngineLimits {
        EngineLimits {
            item_bytes: size(&self.item_bytes),
            metadata_bytes: size(&self.metadata_bytes),
            ..EngineLimits::default()
        }
    }
}
