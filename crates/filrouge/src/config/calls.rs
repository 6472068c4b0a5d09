//! The section `[calls]`: leases, checkpoints and going on with live calls (DESIGN §6).

use std::fmt::Display;
use std::time::Duration;

use filrouge_engine::{CallSettings, Journal};
use serde::Deserialize;

use super::{Layers, Setting};
use crate::exit::Usage;

/// The section in the file; unknown members are refused.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallsFile {
    journal: Option<String>,
    lease_ttl_ms: Option<u64>,
    lease_ttl_max_ms: Option<u64>,
    lease_wait_ms: Option<u64>,
    lease_wait_max_ms: Option<u64>,
    checkpoints_kept: Option<u64>,
    checkpoint_bytes: Option<u64>,
    tail_items: Option<u64>,
    terminal_states: Option<Vec<String>>,
}

/// All of them, each with where it comes from.
#[derive(Debug, Clone)]
pub(crate) struct CallsConfig {
    journal: Setting<Journal>,
    lease_ttl_ms: Setting<u64>,
    lease_ttl_max_ms: Setting<u64>,
    lease_wait_ms: Setting<u64>,
    lease_wait_max_ms: Setting<u64>,
    checkpoints_kept: Setting<u64>,
    checkpoint_bytes: Setting<u64>,
    tail_items: Setting<u64>,
    terminal_states: Setting<Vec<Box<str>>>,
}

/// No lease lasts longer: a holder that is gone keeps a session from everybody for so long.
const LEASE_TTL_MOST: u64 = 24 * 60 * 60 * 1000;
/// What is waited for a lease must end well before an answer has to begin.
const LEASE_WAIT_MOST: u64 = 60_000;
/// What a write deletes at most, and a list shows.
const CHECKPOINTS_MOST: u64 = 1000;
/// A checkpoint is read whole at each resume.
const CHECKPOINT_BYTES_MOST: u64 = 16 << 20;
/// As for lists; each resume reads so many.
const TAIL_ITEMS_MOST: u64 = 500;
/// How no state is written.
const NOTHING: &str = "none";

fn journal(text: &str) -> Result<Journal, String> {
    let known = [Journal::Off, Journal::Shadow, Journal::On];
    let found = known.into_iter().find(|journal| journal.as_str() == text);
    found.ok_or_else(|| format!("calls.journal is {text:?}; known: off, shadow, on"))
}

fn states(text: &str) -> Result<Vec<Box<str>>, String> {
    if text.is_empty() || text == NOTHING {
        return Ok(Vec::new());
    }
    let states = text.split(',').map(str::trim);
    let wrong = |state: &str| state.is_empty() || state == NOTHING;
    if states.clone().any(wrong) {
        return Err(format!(
            "calls.terminal_states is {text:?}: states between commas, or {NOTHING} alone"
        ));
    }
    Ok(states.map(Into::into).collect())
}

/// A list as the variable would say it: one that holds an empty state is no empty list.
fn listed(states: &[String]) -> String {
    match states {
        [one] if one.is_empty() => ",".to_owned(),
        _ => states.join(","),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn size(setting: &Setting<u64>) -> usize {
    usize::try_from(setting.value).unwrap_or(usize::MAX)
}

/// One number's name, variable, bounds, value in the file and default.
struct Number {
    name: &'static str,
    variable: &'static str,
    bounds: (u64, u64),
    in_file: Option<u64>,
    default: u64,
}

impl Number {
    fn read(&self, layers: &Layers<'_>) -> Result<Setting<u64>, Usage> {
        let (least, most) = self.bounds;
        let read = |text: &str| {
            let number = text.parse().ok();
            let within = number.filter(|number| (least..=most).contains(number));
            let name = self.name;
            within.ok_or_else(|| {
                format!("calls.{name}: {text:?} is no whole number from {least} to {most}")
            })
        };
        let in_file = self.in_file.map(|n| n.to_string());
        layers.pick(None, self.variable, in_file, || Ok(self.default), read)
    }
}

/// That a usual value is not above the most there may be.
fn check(name: &str, usual: &Setting<u64>, most: &Setting<u64>) -> Result<(), Usage> {
    if usual.value <= most.value {
        return Ok(());
    }
    let (usual, most) = (usual.value, most.value);
    Err(Usage::new(format!(
        "calls.{name}_ms is {usual}, and calls.{name}_max_ms is {most}"
    ))
    .with_hint("set the second to at least as much as the first"))
}

impl CallsConfig {
    pub(super) fn read(layers: &Layers<'_>, file: CallsFile) -> Result<Self, Usage> {
        let usual = CallSettings::default();
        let number = |name, variable, bounds, in_file, default| {
            let number = Number {
                name,
                variable,
                bounds,
                in_file,
                default,
            };
            number.read(layers)
        };
        let all = Self {
            journal: layers.pick(
                None,
                "FILROUGE_JOURNAL",
                file.journal,
                || Ok(usual.journal),
                journal,
            )?,
            lease_ttl_ms: number(
                "lease_ttl_ms",
                "FILROUGE_LEASE_TTL_MS",
                (1, LEASE_TTL_MOST),
                file.lease_ttl_ms,
                millis(usual.lease_ttl),
            )?,
            lease_ttl_max_ms: number(
                "lease_ttl_max_ms",
                "FILROUGE_LEASE_TTL_MAX_MS",
                (1, LEASE_TTL_MOST),
                file.lease_ttl_max_ms,
                millis(usual.lease_ttl_max),
            )?,
            lease_wait_ms: number(
                "lease_wait_ms",
                "FILROUGE_LEASE_WAIT_MS",
                (0, LEASE_WAIT_MOST),
                file.lease_wait_ms,
                millis(usual.lease_wait),
            )?,
            lease_wait_max_ms: number(
                "lease_wait_max_ms",
                "FILROUGE_LEASE_WAIT_MAX_MS",
                (0, LEASE_WAIT_MOST),
                file.lease_wait_max_ms,
                millis(usual.lease_wait_max),
            )?,
            checkpoints_kept: number(
                "checkpoints_kept",
                "FILROUGE_CHECKPOINTS_KEPT",
                (1, CHECKPOINTS_MOST),
                file.checkpoints_kept,
                usual.checkpoints_kept,
            )?,
            checkpoint_bytes: number(
                "checkpoint_bytes",
                "FILROUGE_CHECKPOINT_BYTES",
                (2, CHECKPOINT_BYTES_MOST),
                file.checkpoint_bytes,
                usual.checkpoint_bytes as u64,
            )?,
            tail_items: number(
                "tail_items",
                "FILROUGE_TAIL_ITEMS",
                (1, TAIL_ITEMS_MOST),
                file.tail_items,
                usual.tail_items as u64,
            )?,
            terminal_states: layers.pick(
                None,
                "FILROUGE_TERMINAL_STATES",
                file.terminal_states.map(|states| listed(&states)),
                || Ok(usual.terminal),
                states,
            )?,
        };
        check("lease_ttl", &all.lease_ttl_ms, &all.lease_ttl_max_ms)?;
        check("lease_wait", &all.lease_wait_ms, &all.lease_wait_max_ms)?;
        Ok(all)
    }

    /// What the engine is told.
    pub(crate) fn settings(&self) -> CallSettings {
        let time = |setting: &Setting<u64>| Duration::from_millis(setting.value);
        CallSettings {
            journal: self.journal.value,
            lease_ttl: time(&self.lease_ttl_ms),
            lease_ttl_max: time(&self.lease_ttl_max_ms),
            lease_wait: time(&self.lease_wait_ms),
            lease_wait_max: time(&self.lease_wait_max_ms),
            checkpoints_kept: self.checkpoints_kept.value,
            checkpoint_bytes: size(&self.checkpoint_bytes),
            tail_items: size(&self.tail_items),
            terminal: self.terminal_states.value.clone(),
        }
    }

    /// Name, value and origin of each.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String, String)> {
        fn row<T>(
            name: &'static str,
            setting: &Setting<T>,
            value: impl Display,
        ) -> (&'static str, String, String) {
            (name, value.to_string(), setting.origin.to_string())
        }
        let number = |name, setting: &Setting<u64>| row(name, setting, setting.value);
        let states = match self.terminal_states.value.as_slice() {
            [] => NOTHING.to_owned(),
            states => states.join(","),
        };
        vec![
            row("calls.journal", &self.journal, self.journal.value.as_str()),
            number("calls.lease_ttl_ms", &self.lease_ttl_ms),
            number("calls.lease_ttl_max_ms", &self.lease_ttl_max_ms),
            number("calls.lease_wait_ms", &self.lease_wait_ms),
            number("calls.lease_wait_max_ms", &self.lease_wait_max_ms),
            number("calls.checkpoints_kept", &self.checkpoints_kept),
            number("calls.checkpoint_bytes", &self.checkpoint_bytes),
            number("calls.tail_items", &self.tail_items),
            row("calls.terminal_states", &self.terminal_states, states),
        ]
    }
}
