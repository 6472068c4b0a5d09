//! `sources`: other programs' histories. Lists, histories, statistics and searches of a generated OpenCode history, as
//! a tree of files and as a database, compared with plain SQLite reads and ripgrep; also a new process of the program.

mod limit;
mod process;
mod queries;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use filrouge_sources::{Library, opencode};
use serde::Deserialize;

use crate::Setup;
use crate::report::Section;

/// The contents of `truth.json`, which `tools/gen_opencode_storage.py` writes.
#[derive(Debug, Deserialize)]
pub(crate) struct Truth {
    pub(crate) sessions: usize,
    pub(crate) messages: u64,
    pub(crate) parts: u64,
    pub(crate) largest: Largest,
    /// Planted texts, with the ids of the sessions that contain them.
    pub(crate) needles: std::collections::BTreeMap<String, Vec<String>>,
    pub(crate) common_word: String,
}

/// The session with the most messages.
#[derive(Debug, Deserialize)]
pub(crate) struct Largest {
    pub(crate) id: String,
    pub(crate) messages: usize,
}

/// Writes a deterministic history in one form; `size`: sessions, messages, parts.
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
    let stderr = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "gen_opencode_storage.py: {stderr}");
    Ok(serde_json::from_slice(&std::fs::read(
        root.join("truth.json"),
    )?)?)
}

/// One generated history in one form.
struct GeneratedHistory {
    root: PathBuf,
    form: &'static str,
    truth: Truth,
}

/// The memory limit for conversations, as in `filrouge mcp` by default.
const CACHE_BYTES: usize = 48 << 20;

impl GeneratedHistory {
    /// Generates a history of `times` × 400 sessions, 8,000 messages, 40,000 parts.
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
    let mut section = Section::new("sources");
    let dir = setup.dir()?;
    for form in ["sqlite", "json"] {
        let history = GeneratedHistory::write(setup, dir.path(), form, 1)?;
        queries::measure(setup, &history, &mut section)?;
        process::measure(setup, &history, &mut section)?;
        let larger = GeneratedHistory::write(setup, dir.path(), form, 5)?;
        process::memory(setup, &history, &larger, &mut section)?;
        std::fs::remove_dir_all(&larger.root)?;
    }
    Ok(section)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_runs_on_both_forms() {
        let setup = Setup::quick();
        let dir = setup.dir().unwrap();
        let mut section = Section::new("sources");
        for form in ["sqlite", "json"] {
            let history = GeneratedHistory::write(&setup, dir.path(), form, 1).unwrap();
            queries::measure(&setup, &history, &mut section).unwrap();
        }
        assert!(section.lines.len() >= 16, "{}", section.lines.len());
    }
}
