//! `filrouge search` from its start to its end, with an index and without.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Result, ensure};

use super::corpora::History;
use crate::Setup;
use crate::http::binary;
use crate::report::{Line, Section, Target};
use crate::stats::{median, micros};

/// January 2026, since 1970.
const LONG_AGO: Duration = Duration::from_secs(1_767_225_600);

struct Program<'a> {
    setup: &'a Setup,
    history: &'a History,
    home: &'a Path,
}

impl Program<'_> {
    fn run(&self, arguments: &[&str]) -> Result<String> {
        let source = format!("opencode:{}", self.history.root.display());
        let out = Command::new(binary(self.setup)?)
            .args(arguments)
            .args(["--source", &source])
            .env("HOME", self.home)
            .env_remove("XDG_DATA_HOME")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_CACHE_HOME")
            .output()?;
        let told = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "filrouge {arguments:?}: {told}");
        Ok(String::from_utf8(out.stdout)?)
    }

    /// The median of so many starts, ms.
    fn searches(&self, times: usize) -> Result<f64> {
        let mut took = Vec::new();
        for _ in 0..times {
            for (needle, homes) in &self.history.truth.needles {
                // Beyond a page the program shows part of them.
                if homes.len() > 20 {
                    continue;
                }
                let call = Instant::now();
                let told = self.run(&["search", needle, "--json"])?;
                took.push(micros(call) / 1000.0);
                let all = homes.iter().all(|home| told.contains(home.as_str()));
                ensure!(all, "{needle:?} was not found");
            }
        }
        Ok(median(took))
    }
}

/// Without an index first, then with one that the program has built.
pub(super) fn measure(setup: &Setup, history: &History, section: &mut Section) -> Result<()> {
    let home = setup.dir()?;
    // Cargo builds it when it must: not while it is timed.
    let program = binary(setup)?;
    let own = Setup {
        binary: Some(program),
        root: setup.root.clone(),
        ..*setup
    };
    let program = Program {
        setup: &own,
        history,
        home: home.path(),
    };
    let times = setup.size(3 * setup.pairs, 1);
    let scanning = program.searches(times)?;
    program.run(&["index", "update"])?;
    let mut line = |what: &str, took: f64| {
        let what = format!(
            "{}: filrouge search, {what}, ms",
            super::speed::name(history)
        );
        let target = Target::AtMost(25.0);
        let mut line = Line::number(&what, took, target, format!("{took:.1} ms"));
        line.limit = format!("{scanning:.1} ms: without an index");
        section.lines.push(line);
    };
    line("the whole process", program.searches(times)?);
    if history.form == "json" {
        // A tree is written in seconds here: to the program, agents are at work in all of it.
        leave_alone(&history.root)?;
        program.run(&["index", "update"])?;
        line("the same, no agent at work", program.searches(times)?);
    }
    Ok(())
}

/// As if all files had been written long ago.
fn leave_alone(dir: &Path) -> Result<()> {
    let then = UNIX_EPOCH + LONG_AGO;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            leave_alone(&path)?;
        }
        File::open(&path)?.set_modified(then)?;
    }
    Ok(())
}
