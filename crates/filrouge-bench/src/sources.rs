//! `sources`: other programs' histories. Lists, histories, statistics and searches of a generated OpenCode history, as
//! a tree of files and as a database, beside sqlite3's own reading and ripgrep, and the built program from a cold start.

mod limit;
mod process;
mod questions;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use filrouge_sources::{Library, opencode};
use serde::Deserialize;

use crate::Setup;
use crate::report::{Section, load_average};

/// What `tools/gen_opencode_storage.py` says of what it has written.
#[derive(Debug, Deserialize)]
pub(crate) struct Truth {
    pub(crate) sessions: usize,
    pub(crate) messages: u64,
    pub(crate) parts: u64,
    pub(crate) largest: Largest,
    /// Planted texts, with the sessions that they were put into.
    pub(crate) needles: std::collections::BTreeMap<String, Vec<String>>,
    pub(crate) common_word: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Largest {
    pub(crate) id: String,
    pub(crate) messages: usize,
}

/// Writes a history in one form, always the same one; `size`: sessions, messages, parts.
pub(crate) fn generate(root: &Path, form: &str, size: [usize; 3]) -> Result<Truth> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let [sessions, messages, parts] = size.map(|n| n.to_string());
    let out = Command::new("python3")
        .arg(here.join("tools/gen_opencode_storage.py"))
        .arg("--out")
        .arg(root)
        .args(["--format", form])
        .args(["--sessions", &sessions])
        .args(["--messages", &messages])
        .args(["--parts", &parts])
        .arg("--schema")
        .arg(here.join("../../tests/fixtures/opencode-sqlite/opencode.db"))
        .output()
        .context("python3")?;
    let told = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{told}");
    Ok(serde_json::from_slice(&std::fs::read(
        root.join("truth.json"),
    )?)?)
}

/// One generated history in one form.
struct Made {
    root: PathBuf,
    form: &'static str,
    truth: Truth,
}

/// Memory for conversations, as `filrouge mcp` takes by default.
const CACHE_BYTES: usize = 48 << 20;

impl Made {
    /// `times` × 400 sessions, 8,000 messages, 40,000 parts.
    fn write(setup: &Setup, dir: &Path, form: &'static str, times: usize) -> Result<Self> {
        let root = dir.join(format!("{form}-{times}"));
        let count = |full: usize, tiny: usize| setup.size(full * times, tiny * times);
        let size = [count(400, 40), count(8000, 400), count(40_000, 2000)];
        Ok(Self {
            truth: generate(&root, form, size)?,
            root,
            form,
        })
    }

    fn library(&self) -> Result<Library> {
        Ok(Library::new(opencode::open(&self.root)?, CACHE_BYTES))
    }
}

/// `sources`.
pub(crate) fn sources(setup: &Setup) -> Result<Section> {
    let before = load_average();
    let mut section = Section {
        name: "sources",
        lines: Vec::new(),
        series: Vec::new(),
        notes: Vec::new(),
        load: (before, before),
    };
    let dir = setup.dir()?;
    for form in ["sqlite", "json"] {
        let made = Made::write(setup, dir.path(), form, 1)?;
        questions::measure(setup, &made, &mut section)?;
        process::measure(setup, &made, &mut section)?;
        let larger = Made::write(setup, dir.path(), form, 5)?;
        process::memory(setup, &made, &larger, &mut section)?;
        std::fs::remove_dir_all(&larger.root)?;
    }
    section.load.1 = load_average();
    Ok(section)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_question_is_answered_and_found() {
        let setup = Setup {
            quick: true,
            pairs: 1,
            root: std::env::temp_dir(),
            binary: None,
        };
        let dir = setup.dir().unwrap();
        let mut section = Section {
            name: "sources",
            lines: Vec::new(),
            series: Vec::new(),
            notes: Vec::new(),
            load: (0.0, 0.0),
        };
        for form in ["sqlite", "json"] {
            let made = Made::write(&setup, dir.path(), form, 1).unwrap();
            questions::measure(&setup, &made, &mut section).unwrap();
        }
        assert!(section.lines.len() >= 16, "{}", section.lines.len());
    }
}
