//! The printed results: ratios first, then the medians of all legs.

use std::fs;
use std::io::Write;

use anyhow::Result;
use comfy_table::{Table, presets};
use serde::Serialize;

use crate::stats::{Leg, Series, median};

/// The bound that a value must keep.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    /// The largest allowed value.
    AtMost(f64),
    /// The smallest allowed value.
    AtLeast(f64),
    /// None: the value is only shown.
    Shown,
}

impl Target {
    fn met(self, value: f64) -> Option<bool> {
        match self {
            Self::AtMost(t) => Some(value <= t),
            Self::AtLeast(t) => Some(value >= t),
            Self::Shown => None,
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // Two decimals: the target 1 / 1.15 is printed as 0.87.
            Self::AtMost(t) => write!(f, "<= {}", (t * 100.0).round() / 100.0),
            Self::AtLeast(t) => write!(f, ">= {}", (t * 100.0).round() / 100.0),
            Self::Shown => f.write_str("-"),
        }
    }
}

/// One comparison of the product with its limit.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Line {
    /// The compared quantity.
    pub(crate) what: String,
    /// The median of the pairs' ratios (product / limit), or a plain number.
    pub(crate) ratio: f64,
    /// The smallest and the largest ratio of a pair.
    pub(crate) spread: (f64, f64),
    /// The target.
    pub(crate) target: Target,
    /// Whether the target is met; absent if there is none.
    pub(crate) met: Option<bool>,
    /// The product's median, with its unit.
    pub(crate) product: String,
    /// The median of the limit (the baseline, docs/bench.md), and the baseline's name.
    pub(crate) limit: String,
}

impl Line {
    /// Compares the values of the product with those of the baseline, pair by pair; `shown` are the texts of both
    /// medians.
    pub(crate) fn pairs(
        label: &str,
        product: &[f64],
        limit: &[f64],
        target: Target,
        shown: (String, String),
    ) -> Self {
        let ratios: Vec<f64> = product.iter().zip(limit).map(|(p, l)| p / l).collect();
        let ratio = median(ratios.iter().copied());
        let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (product, limit) = shown;
        Self {
            what: label.to_owned(),
            ratio,
            spread: (low, high),
            target,
            met: target.met(ratio),
            product,
            limit,
        }
    }

    /// Compares the calls per second of two series.
    pub(crate) fn rate(label: &str, compared: (&Series, &Series), target: Target) -> Self {
        Self::series(label, compared, |l| l.per_s, target, "/s")
    }

    /// Compares the median latencies of two series.
    pub(crate) fn p50(label: &str, compared: (&Series, &Series), target: Target) -> Self {
        Self::series(label, compared, |l| l.p50, target, "µs")
    }

    /// Compares the 99th percentiles of the latencies of two series.
    pub(crate) fn p99(label: &str, compared: (&Series, &Series), target: Target) -> Self {
        Self::series(label, compared, |l| l.p99, target, "µs")
    }

    fn series(
        label: &str,
        (product, limit): (&Series, &Series),
        metric: fn(&Leg) -> f64,
        target: Target,
        unit: &str,
    ) -> Self {
        let shown = (
            format!("{:.0} {unit}", product.median(metric)),
            format!("{:.0} {unit}: {}", limit.median(metric), limit.name),
        );
        Self::pairs(
            label,
            &product.values(metric),
            &limit.values(metric),
            target,
            shown,
        )
    }

    /// A number without a limit to compare it with.
    pub(crate) fn number(label: &str, value: f64, target: Target, product: String) -> Self {
        let met = target.met(value);
        Self {
            what: label.to_owned(),
            ratio: value,
            spread: (value, value),
            target,
            met,
            product,
            limit: String::new(),
        }
    }

    /// A number whose limit is that of another build, which runs in turns with this one (`--compare`). `bound` is the
    /// target of this build's number / the other's.
    pub(crate) fn of_builds(label: &str, value: f64, bound: Target, product: String) -> Self {
        Self {
            limit: format!("{bound} x another build's (--compare)"),
            ..Self::number(label, value, Target::Shown, product)
        }
    }
}

/// One workload's result.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Section {
    /// Its name, as on the command line.
    pub(crate) name: &'static str,
    /// The comparisons.
    pub(crate) lines: Vec<Line>,
    /// All legs.
    pub(crate) series: Vec<Series>,
    /// Remarks on the measurement.
    pub(crate) notes: Vec<String>,
    /// The load average of the last minute, before and at the end; [`Section::measured`] sets it.
    pub(crate) load: (f64, f64),
}

impl Section {
    /// The empty result of the workload `name`.
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    /// Runs a workload, and adds the load averages to its result.
    pub(crate) async fn measured(workload: impl Future<Output = Result<Self>>) -> Result<Self> {
        let before = load_average();
        let section = workload.await?;
        Ok(Self {
            load: (before, load_average()),
            ..section
        })
    }
}

/// The load average of the last minute.
fn load_average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(f64::NAN)
}

/// Writes a line about the progress of a long workload to stderr.
pub(crate) fn progress(line: impl std::fmt::Display) {
    // A measurement continues without its stderr.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Writes one section as tables.
pub(crate) fn print(out: &mut impl Write, section: &Section) -> std::io::Result<()> {
    writeln!(
        out,
        "\n## {} (load average {:.2} -> {:.2})\n",
        section.name, section.load.0, section.load.1
    )?;
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "measure", "ratio", "pairs", "target", "met", "product", "limit",
    ]);
    for line in &section.lines {
        table.add_row([
            line.what.clone(),
            format!("{:.2}", line.ratio),
            format!("{:.2}–{:.2}", line.spread.0, line.spread.1),
            line.target.to_string(),
            line.met
                .map_or("", |met| if met { "yes" } else { "NO" })
                .to_owned(),
            line.product.clone(),
            line.limit.clone(),
        ]);
    }
    writeln!(out, "{table}\n")?;
    if !section.series.is_empty() {
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(["leg", "a second", "p50 µs", "p99 µs", "n"]);
        for series in &section.series {
            table.add_row([
                series.name.clone(),
                format!("{:.0}", series.median(|l| l.per_s)),
                format!("{:.0}", series.median(|l| l.p50)),
                format!("{:.0}", series.median(|l| l.p99)),
                series.legs.len().to_string(),
            ]);
        }
        writeln!(out, "{table}\n")?;
    }
    for note in &section.notes {
        writeln!(out, "- {note}")?;
    }
    out.flush()
}
