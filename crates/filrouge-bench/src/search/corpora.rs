//! The corpora that are searched: copies of the genuine fixtures, the invented conversations, generated histories.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use filrouge_sources::{Library, Source, claude_code, codex, opencode};

use super::invented;
use super::judged::{JudgedCorpus, folder};
use crate::sources::{Truth, generate};

/// The memory limit for conversations, as in `filrouge mcp` by default.
pub(super) const CACHE_BYTES: usize = 48 << 20;

/// The sessions, messages and parts of the generated corpus; the ids in the judged queries depend on these numbers.
const GENERATED: [usize; 3] = [60, 900, 4500];

/// A generated history in one form.
pub(super) struct History {
    pub(super) root: PathBuf,
    pub(super) form: &'static str,
    pub(super) truth: Truth,
}

impl History {
    /// Generates a history; `size` is the numbers of sessions, messages and parts.
    pub(super) fn write(dir: &Path, form: &'static str, size: [usize; 3]) -> Result<Self> {
        let root = dir.join(format!("{form}-{}", size[0]));
        let truth = generate(&root, form, size)?;
        Ok(Self { root, form, truth })
    }

    pub(super) fn sources(&self) -> Result<Vec<Arc<dyn Source>>> {
        Ok(opencode::open(&self.root)?)
    }
}

/// The sources of a judged corpus, written into `dir`.
pub(super) fn sources(corpus: JudgedCorpus, dir: &Path) -> Result<Vec<Arc<dyn Source>>> {
    let target = dir.join(corpus.name());
    let fixture = |name: &str| -> Result<PathBuf> {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
        copy(&from.join(name), &target.join(name))?;
        Ok(target.join(name))
    };
    let mut sources = Vec::new();
    match corpus {
        JudgedCorpus::Genuine => {
            sources.extend(opencode::open(&fixture("opencode-json-whole")?)?);
            sources.extend(claude_code::open(&fixture("claude-code")?)?);
            sources.extend(codex::open(&fixture("codex")?)?);
        }
        JudgedCorpus::OpencodeSqlite => {
            sources.extend(opencode::open(&fixture("opencode-sqlite")?)?);
        }
        JudgedCorpus::Made => {
            for name in ["desk", "coding"] {
                let root = target.join(name);
                invented::write(&folder().join(format!("{name}.json")), &root)?;
                sources.extend(opencode::open(&root)?);
            }
        }
        JudgedCorpus::Generated => {
            sources.extend(History::write(&target, "sqlite", GENERATED)?.sources()?);
        }
    }
    Ok(sources)
}

/// A library of sources.
pub(super) fn library(sources: Vec<Arc<dyn Source>>) -> Library {
    Library::new(sources, CACHE_BYTES)
}

/// Copies a folder: fixtures are never opened themselves, because opening a database can change its files.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::search::judged::queries;

    #[test]
    fn every_graded_session_exists() {
        let dir = tempfile::tempdir().unwrap();
        let queries = queries().unwrap();
        for corpus in JudgedCorpus::ALL {
            let library = library(sources(corpus, dir.path()).unwrap());
            let catalog = library.catalog();
            assert!(catalog.unavailable.is_empty(), "{:?}", catalog.unavailable);
            let own = queries.iter().filter(|q| q.corpus == corpus);
            let graded: BTreeSet<_> = own.flat_map(|q| q.relevant.keys()).collect();
            assert!(!graded.is_empty());
            for id in graded {
                let entry = catalog
                    .get(id)
                    .unwrap_or_else(|_| panic!("{corpus:?}: {id}"));
                let read = library.conversation(entry).unwrap();
                assert!(!read.messages.is_empty(), "{id} is empty");
                let may_skip = corpus != JudgedCorpus::Made;
                assert!(
                    may_skip || read.skipped.is_empty(),
                    "{id}: {:?}",
                    read.skipped
                );
            }
        }
    }
}
