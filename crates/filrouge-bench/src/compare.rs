//! `--compare`: runs this benchmark and that of another build in turns, and prints their results side by side.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use comfy_table::{Table, presets};
use serde::Deserialize;

use crate::stats::median;

/// The parts of a JSON document of `--json` that are compared. Other builds may lack further fields.
#[derive(Deserialize)]
struct Section {
    name: String,
    lines: Vec<Line>,
    series: Vec<Series>,
}

#[derive(Deserialize)]
struct Line {
    what: String,
    /// `None`: not a number.
    ratio: Option<f64>,
}

#[derive(Deserialize)]
struct Series {
    name: String,
    legs: Vec<Leg>,
}

#[derive(Deserialize)]
struct Leg {
    per_s: Option<f64>,
    p50: Option<f64>,
}

/// The values of one measure: of this build, and of the other one.
type Values = (Vec<f64>, Vec<f64>);

/// All measures by workload, name and unit.
type Measures = BTreeMap<(String, String, &'static str), Values>;

/// The command line for a child: without the options that `--compare` handles itself.
fn child_arguments(own: impl Iterator<Item = String>) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut own = own.skip(1);
    while let Some(argument) = own.next() {
        match argument.as_str() {
            "--compare" | "--pairs" => drop(own.next()),
            "--json" => {}
            name if name.starts_with("--compare=") || name.starts_with("--pairs=") => {}
            _ => arguments.push(argument),
        }
    }
    arguments
}

/// Runs one build's benchmark once, with one pair of legs.
fn run(binary: &Path, arguments: &[String]) -> Result<Vec<Section>> {
    let out = Command::new(binary)
        .args(["--json", "--pairs", "1"])
        .args(arguments)
        .output()
        .with_context(|| binary.display().to_string())?;
    let stderr = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{}: {stderr}", binary.display());
    Ok(serde_json::from_slice(&out.stdout)?)
}

/// Adds the values of a run. `side` selects the build to which they belong.
fn add(all: &mut Measures, sections: Vec<Section>, side: fn(&mut Values) -> &mut Vec<f64>) {
    for section in sections {
        let mut put = |what: &str, unit, value: Option<f64>| {
            let key = (section.name.clone(), what.to_owned(), unit);
            side(all.entry(key).or_default()).extend(value);
        };
        for line in &section.lines {
            put(&line.what, "ratio or number", line.ratio);
        }
        for series in &section.series {
            for leg in &series.legs {
                put(&series.name, "a second", leg.per_s);
                put(&series.name, "p50 µs", leg.p50);
            }
        }
    }
}

/// Runs both builds `pairs` times in turns, each beginning every other pair. Returns a table of the medians and of the
/// ratio of each pair; measures that only one build has are left out and counted.
///
/// # Errors
/// When a run fails.
pub(crate) fn compare(other: &Path, pairs: usize) -> Result<String> {
    let own = std::env::current_exe()?;
    let arguments = child_arguments(std::env::args());
    let mut all = Measures::new();
    for pair in 0..pairs {
        let mut this = || -> Result<_> {
            add(&mut all, run(&own, &arguments)?, |v| &mut v.0);
            Ok(())
        };
        if pair % 2 == 0 {
            this()?;
        }
        let others = run(other, &arguments)?;
        if pair % 2 == 1 {
            this()?;
        }
        add(&mut all, others, |v| &mut v.1);
    }
    Ok(table(&all, other))
}

fn table(all: &Measures, other: &Path) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "workload",
        "measure",
        "unit",
        "this",
        "other",
        "this / other",
        "pairs",
    ]);
    let mut one_sided = 0;
    for ((section, what, unit), (this, others)) in all {
        if this.is_empty() || others.is_empty() {
            one_sided += 1;
            continue;
        }
        let ratios: Vec<f64> = this.iter().zip(others).map(|(a, b)| a / b).collect();
        let bound = |of: fn(f64, f64) -> f64| ratios.iter().copied().reduce(of).unwrap_or(f64::NAN);
        table.add_row([
            section.clone(),
            what.clone(),
            (*unit).to_owned(),
            format!("{:.2}", median(this.iter().copied())),
            format!("{:.2}", median(others.iter().copied())),
            format!("{:.2}", median(ratios.iter().copied())),
            format!("{:.2}–{:.2}", bound(f64::min), bound(f64::max)),
        ]);
    }
    let other = other.display();
    format!("{table}\n\n- other: {other}\n- measures of only one of both builds: {one_sided}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_get_the_workload_and_its_options() {
        let own = "bench --compare /old --pairs=3 --quick append1 --json --dir /d";
        let own = own.split(' ').map(str::to_owned);
        assert_eq!(child_arguments(own), ["--quick", "append1", "--dir", "/d"]);
    }

    #[test]
    fn a_measure_of_one_build_is_counted_and_not_shown() {
        let section = |what: &str, ratio: f64| {
            let ratio = Some(ratio);
            let (what, name) = (what.to_owned(), "append1".to_owned());
            let lines = vec![Line { what, ratio }];
            vec![Section {
                name,
                lines,
                series: Vec::new(),
            }]
        };
        let mut all = Measures::new();
        add(&mut all, section("both", 3.0), |v| &mut v.0);
        add(&mut all, section("both", 2.0), |v| &mut v.1);
        add(&mut all, section("new", 1.0), |v| &mut v.0);
        let text = table(&all, Path::new("/old"));
        assert!(text.contains("1.50") && !text.contains("| new"), "{text}");
        assert!(text.contains("only one of both builds: 1"), "{text}");
    }
}
