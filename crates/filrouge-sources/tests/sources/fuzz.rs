//! Applies random damage to genuine files: nothing panics, and sessions in other files are unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use filrouge_sources::LoadedSession;
use filrouge_types::RawJson;

use crate::{copy_of, items, read_all};

/// A linear congruential generator with Knuth's MMIX constants. The seed alone determines a run.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

fn all_files(dir: &Path, files: &mut Vec<PathBuf>) {
    let mut children: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|c| c.unwrap().path())
        .collect();
    children.sort();
    for path in children {
        if path.is_dir() {
            all_files(&path, files);
        } else if path.extension().is_some_and(|e| e == "json") {
            files.push(path);
        }
    }
}

/// Applies one to four random changes.
fn mutate(random: &mut Lcg, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len().max(1));
        match random.below(6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, b"{}[]\",:\\\0\xff"[random.below(10)]),
            2 if !bytes.is_empty() => bytes[at] = 0,
            3 if !bytes.is_empty() => drop(bytes.remove(at)),
            _ if !bytes.is_empty() => bytes[at] = random.below(256) as u8,
            _ => {}
        }
    }
}

fn by_id(loaded: Vec<LoadedSession>) -> BTreeMap<String, LoadedSession> {
    loaded
        .into_iter()
        .map(|session| (session.session.id.to_string(), session))
        .collect()
}

/// Damages one random file of a fixture in each round.
fn fuzz(name: &str, seed: u64, rounds: usize) {
    let dir = copy_of(name);
    let mut files = Vec::new();
    all_files(dir.path(), &mut files);
    let before = by_id(read_all(dir.path()).0);
    let mut random = Lcg(seed);
    for round in 0..rounds {
        let file = &files[random.below(files.len())];
        let original = fs::read(file).unwrap();
        let mut bytes = original.clone();
        mutate(&mut random, &mut bytes);
        fs::write(file, &bytes).unwrap();
        let (loaded, skipped) = read_all(dir.path());
        let after = by_id(loaded);
        let text = String::from_utf8_lossy(&original);
        for (id, session) in &before {
            // A file names its session in its path or in its content; a project's file names no session.
            let may_change = file.to_string_lossy().contains(id.as_str())
                || text.contains(id.as_str())
                || file.parent().is_some_and(|p| p.ends_with("project"));
            assert!(
                may_change || after.get(id) == Some(session),
                "round {round}: damage to {file:?} changed {id}"
            );
        }
        assert!(
            after.len() == before.len() || skipped.iter().any(|report| report.path == *file),
            "round {round}: a session is missing, but {file:?} is not reported"
        );
        for item in after.values().flat_map(items) {
            RawJson::parse(item.parts.as_str()).unwrap();
            item.metadata
                .iter()
                .for_each(|m| drop(RawJson::parse(m.as_str()).unwrap()));
        }
        fs::write(file, &original).unwrap();
    }
}

#[test]
fn a_mutated_storage_tree_loses_only_damaged_sessions() {
    fuzz("opencode-json", 20_261_121, 200);
}

#[test]
fn a_mutated_legacy_tree_loses_only_damaged_sessions() {
    fuzz("opencode-json-legacy", 7, 100);
}
