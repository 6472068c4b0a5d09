//! `filrouge search` as a separate process, with and without an index.

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

/// January 2026, as a Unix time.
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
        let reported = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "filrouge {arguments:?}: {reported}");
        Ok(String::from_utf8(out.stdout)?)
    }

    /// The median of `times` runs, ms.
    fn searches(&self, times: usize) -> Result<f64> {
        let mut took = Vec::new();
        for _ in 0..times {
            for (needle, homes) in &self.history.truth.needles {
                // The program shows only part of the results when they exceed a page.
                if homes.len() > 20 {
                    continue;
                }
                let call = Instant::now();
                let reported = self.run(&["search", needle, "--json"])?;
                took.push(micros(call) / 1000.0);
                let all = homes.iter().all(|home| reported.contains(home.as_str()));
                ensure!(all, "{needle:?} was not found");
            }
        }
        Ok(median(took))
    }
}

/// Measures first without an index, then with one that the program has built.
pub(super) fn measure(setup: &Setup, history: &History, section: &mut Section) -> Result<()> {
    let home = setup.dir()?;
    // Builds the program now if necessary, so that the build is not timed.
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
        // The tree was written seconds ago, so the program assumes that agents are active in all of it.
        backdate(&history.root)?;
        program.run(&["index", "update"])?;
        line("the same, no agent at work", program.searches(times)?);
    }
    Ok(())
}

/// Sets the modification time of all files to a distant past.
fn backdate(dir: &Path) -> Result<()> {
    let then = UNIX_EPOCH + LONG_AGO;
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            backdate(&path)?;
        }
        File::open(&path)?.set_modified(then)?;
    }
    Ok(())
}
