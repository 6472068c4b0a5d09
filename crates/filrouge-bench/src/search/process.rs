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

/// The program, with its own home folder.
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
        let stderr = String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "filrouge {arguments:?}: {stderr}");
        Ok(String::from_utf8(out.stdout)?)
    }

    /// The median duration of a search, ms: every needle, `times` times.
    fn median_search(&self, times: usize) -> Result<f64> {
        let mut millis = Vec::new();
        for _ in 0..times {
            for (needle, planted) in &self.history.truth.needles {
                // One page shows at most 20 sessions.
                if planted.len() > 20 {
                    continue;
                }
                let call_start = Instant::now();
                let found = self.run(&["search", needle, "--json"])?;
                millis.push(micros(call_start) / 1000.0);
                let has_all = planted
                    .iter()
                    .all(|session| found.contains(session.as_str()));
                ensure!(has_all, "{needle:?} was not found in all its sessions");
            }
        }
        Ok(median(millis))
    }
}

/// Measures first without an index, then with one that the program has built.
pub(super) fn measure(setup: &Setup, history: &History, section: &mut Section) -> Result<()> {
    let home = setup.dir()?;
    // Builds the program now if necessary, so that the build is not timed.
    let program = binary(setup)?;
    let setup_with_binary = Setup {
        binary: Some(program),
        root: setup.root.clone(),
        ..*setup
    };
    let program = Program {
        setup: &setup_with_binary,
        history,
        home: home.path(),
    };
    let times = setup.size(3 * setup.pairs, 1);
    let scanning = program.median_search(times)?;
    program.run(&["index", "update"])?;
    let mut line = |label: &str, millis: f64| {
        let label = format!(
            "{}: filrouge search, {label}, ms",
            super::speed::name(history)
        );
        let target = Target::AtMost(25.0);
        let mut line = Line::number(&label, millis, target, format!("{millis:.1} ms"));
        line.limit = format!("{scanning:.1} ms: without an index");
        section.lines.push(line);
    };
    line("the process", program.median_search(times)?);
    if history.form == "json" {
        // The tree was written seconds ago, so the program assumes that agents still write all of its sessions.
        backdate(&history.root)?;
        program.run(&["index", "update"])?;
        line("the same, no active agent", program.median_search(times)?);
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
