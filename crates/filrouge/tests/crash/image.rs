//! Rebuilds the content of a disk after a power cut from the record that `disk.c` writes.
//!
//! The model of the disk:
//! - A write or change of size is durable once a flush of that file, started after it, has succeeded. Other changes are
//!   kept or lost at random; a write, separately for each sector of 512 bytes. A lost sector within the file has its
//!   old content, or zeros.
//! - When a flush fails, the data that it should have flushed is kept or lost at random at that moment. Later flushes
//!   do not help.
//! - Changes of names (create, rename, link, unlink) reach the disk in order within their directory. A successful flush
//!   of the directory makes all of them durable; a flush of a file, those up to the file's newest name, as in
//!   journaling file systems. Of the others, a random number is kept. A rename belongs to the directory of the new name.
//! - A directory exists if it contains a file. Permissions are those of the live files.
//! - SQLite's shared memory (`-shm`) is lost.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rand::Rng;
use rand::rngs::StdRng;

const SECTOR: u64 = 512;

/// The effect of a power cut on changes that were not flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsynced {
    /// None of them is kept.
    Lost,
    /// All of them are kept, as after a SIGKILL.
    Kept,
    /// Each sector is kept or lost at random.
    Torn,
}

#[derive(Clone)]
enum Change {
    Write { at: u64, data: Vec<u8> },
    Size(u64),
}

#[derive(Clone, Default)]
struct File {
    durable: Vec<u8>,
    /// The pending changes, with their positions in the record.
    pending: Vec<(u64, Change)>,
}

/// A change of a file's names: a create, rename, link or unlink.
struct Renaming {
    position: u64,
    file: usize,
    old: Option<PathBuf>,
    new: Option<PathBuf>,
}

impl Renaming {
    /// Returns the directory whose flush makes the change durable.
    fn directory(&self) -> PathBuf {
        let name = self.new.as_ref().or(self.old.as_ref()).expect("a name");
        name.parent().expect("a directory").to_owned()
    }
}

/// The files below a directory.
#[derive(Default)]
pub(crate) struct Disk {
    files: Vec<File>,
    /// Indexes of `files` by inode number; a number can be reused.
    inodes: HashMap<u64, usize>,
    names: BTreeMap<PathBuf, usize>,
}

impl Disk {
    /// Reads the content below `root`, all of which counts as durable; empty if `root` does not exist.
    pub(crate) fn new(root: &Path) -> Self {
        let mut disk = Self::default();
        if root.exists() {
            disk.add(root);
        }
        disk
    }

    fn add(&mut self, dir: &Path) {
        for entry in fs::read_dir(dir).expect("read a directory") {
            let path = entry.expect("a directory entry").path();
            let metadata = fs::symlink_metadata(&path).expect("metadata");
            if metadata.is_dir() {
                self.add(&path);
            } else if !is_shared_memory(&path) {
                let durable = fs::read(&path).expect("read a file");
                let file = self.add_file(
                    metadata.ino(),
                    File {
                        durable,
                        pending: Vec::new(),
                    },
                );
                self.names.insert(path, file);
            }
        }
    }

    fn add_file(&mut self, inode: u64, file: File) -> usize {
        self.files.push(file);
        self.inodes.insert(inode, self.files.len() - 1);
        self.files.len() - 1
    }

    fn file(&self, inode: u64) -> usize {
        *self
            .inodes
            .get(&inode)
            .expect("the record lacks the creation of a file")
    }

    /// Computes the disk's content after a power cut that follows all entries of `record`.
    pub(crate) fn after_cut(self, record: &Path, unsynced: Unsynced, rng: &mut StdRng) -> Image {
        let kept_probability = match unsynced {
            Unsynced::Lost => 0.0,
            Unsynced::Kept => 1.0,
            Unsynced::Torn => *[0.1, 0.5, 0.9]
                .get(rng.random_range(0..3))
                .expect("three probabilities"),
        };
        let mut replay = Replay {
            disk: self,
            renamings: Vec::new(),
            flushes: HashMap::new(),
            kept_probability,
            rng,
        };
        let bytes = fs::read(record).unwrap_or_default();
        let mut rest = bytes.as_slice();
        for position in 0.. {
            let Some(entry) = Entry::read(&mut rest) else {
                break;
            };
            replay.apply(position, &entry);
        }
        replay.cut()
    }
}

/// Returns the number of points of `DISK_KILL_AT` in the recorded run.
pub(crate) fn points(record: &Path) -> u64 {
    let bytes = fs::read(record).expect("the record");
    let mut rest = bytes.as_slice();
    let entries = std::iter::from_fn(|| Entry::read(&mut rest));
    2 * entries.filter(|e| !matches!(e.op, b'S' | b'F')).count() as u64
}

/// Counts the recorded flushes of files that were created during the run and whose path contains `part`.
pub(crate) fn flushes(record: &Path, part: &str) -> u64 {
    let bytes = fs::read(record).expect("the record");
    let (mut rest, mut files, mut count) = (bytes.as_slice(), HashMap::new(), 0);
    while let Some(entry) = Entry::read(&mut rest) {
        if entry.op == b'C' {
            files.insert(entry.inode, entry.names().0);
        }
        let path = files.get(&entry.inode).map(|p| p.to_string_lossy());
        count += u64::from(entry.op == b'B' && path.is_some_and(|p| p.contains(part)));
    }
    count
}

/// An entry of the record: `struct record` of `disk.c`.
struct Entry<'a> {
    op: u8,
    inode: u64,
    at: u64,
    name: &'a [u8],
    data: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Reads the next entry; `None` at the end, and where the writer was killed in the middle of one.
    fn read(rest: &mut &'a [u8]) -> Option<Self> {
        let mut next = *rest;
        let mut number = || Some(u64::from_ne_bytes(next.split_off(..8)?.try_into().ok()?));
        let (op, inode, at, name_len, data_len) =
            (number()?, number()?, number()?, number()?, number()?);
        let name = next.split_off(..usize::try_from(name_len).ok()?)?;
        let data = next.split_off(..usize::try_from(data_len).ok()?)?;
        *rest = next;
        Some(Self {
            op: u8::try_from(op).ok()?,
            inode,
            at,
            name,
            data,
        })
    }

    fn names(&self) -> (PathBuf, Option<PathBuf>) {
        let path = |bytes: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
        let mut names = self.name.splitn(2, |b| *b == 0);
        (
            path(names.next().unwrap_or_default()),
            names.next().map(path),
        )
    }
}

struct Replay<'a> {
    disk: Disk,
    renamings: Vec<Renaming>,
    /// The position at which each running flush began.
    flushes: HashMap<u64, u64>,
    /// The probability that a change that was not flushed is kept.
    kept_probability: f64,
    rng: &'a mut StdRng,
}

impl Replay<'_> {
    fn apply(&mut self, position: u64, entry: &Entry<'_>) {
        let (first, second) = entry.names();
        match entry.op {
            b'C' => {
                let file = self.disk.add_file(entry.inode, File::default());
                self.renamings.push(Renaming {
                    position,
                    file,
                    old: None,
                    new: Some(first),
                });
            }
            b'R' => self.rename(position, entry.inode, Some(first), second),
            b'L' => self.rename(position, entry.inode, None, second),
            b'U' => self.rename(position, entry.inode, Some(first), None),
            b'W' => self.change(
                position,
                entry.inode,
                Change::Write {
                    at: entry.at,
                    data: entry.data.to_vec(),
                },
            ),
            b'T' => self.change(position, entry.inode, Change::Size(entry.at)),
            b'B' => {
                self.flushes.insert(entry.at, position);
            }
            b'S' | b'F' => {
                let begun = self
                    .flushes
                    .remove(&entry.at)
                    .expect("a flush ends after it began");
                match (entry.op, entry.inode) {
                    (b'S', 0) => self.flush_names(&first, begun),
                    (b'S', inode) => self.flush(self.disk.file(inode), begun),
                    (_, 0) => {}
                    (_, inode) => self.keep_at_random(self.disk.file(inode), begun),
                }
            }
            other => panic!("unknown kind of record {:?}", char::from(other)),
        }
    }

    fn rename(&mut self, position: u64, inode: u64, old: Option<PathBuf>, new: Option<PathBuf>) {
        self.renamings.push(Renaming {
            position,
            file: self.disk.file(inode),
            old,
            new,
        });
    }

    fn change(&mut self, position: u64, inode: u64, change: Change) {
        let file = self.disk.file(inode);
        self.disk.files[file].pending.push((position, change));
    }

    /// Makes durable what a flush of a file covers that began at position `begun`: the file's earlier changes, and its
    /// name.
    fn flush(&mut self, file: usize, begun: u64) {
        self.decide_pending(file, begun, 1.0);
        let named = self
            .renamings
            .iter()
            .rfind(|r| r.file == file && r.new.is_some() && r.position < begun);
        if let Some((directory, position)) = named.map(|r| (r.directory(), r.position)) {
            self.flush_names(&directory, position + 1);
        }
    }

    fn keep_at_random(&mut self, file: usize, before: u64) {
        self.decide_pending(file, before, self.kept_probability);
    }

    /// Decides on all pending changes before a position: each sector is kept with probability `chance`, and nothing is
    /// pending afterwards.
    fn decide_pending(&mut self, file: usize, before: u64, chance: f64) {
        let file = &mut self.disk.files[file];
        let later = file
            .pending
            .split_off(file.pending.partition_point(|(p, _)| *p < before));
        for (_, change) in std::mem::replace(&mut file.pending, later) {
            apply_change(&mut file.durable, &change, || self.rng.random_bool(chance));
        }
    }

    /// Makes all changes of names in a directory before `begun` durable.
    fn flush_names(&mut self, directory: &Path, begun: u64) {
        let is_durable = |r: &mut Renaming| r.position < begun && r.directory() == directory;
        for renaming in self.renamings.extract_if(.., is_durable) {
            if let Some(old) = renaming
                .old
                .filter(|old| self.disk.names.get(old) == Some(&renaming.file))
            {
                self.disk.names.remove(&old);
            }
            if let Some(new) = renaming.new {
                self.disk.names.insert(new, renaming.file);
            }
        }
    }

    fn cut(mut self) -> Image {
        for file in 0..self.disk.files.len() {
            self.keep_at_random(file, u64::MAX);
        }
        while let Some(directory) = self.renamings.first().map(Renaming::directory) {
            let here = self.renamings.iter().filter(|r| r.directory() == directory);
            let lost = here
                .map(|r| r.position)
                .find(|_| !self.rng.random_bool(self.kept_probability));
            self.flush_names(&directory, lost.unwrap_or(u64::MAX));
            self.renamings.retain(|r| r.directory() != directory);
        }
        let Disk { files, names, .. } = self.disk;
        Image {
            files: names
                .into_iter()
                .map(|(name, file)| (name, files[file].durable.clone()))
                .collect(),
        }
    }
}

/// Applies a change if `keep` returns true; asks it for each sector of a write.
fn apply_change(content: &mut Vec<u8>, change: &Change, mut keep: impl FnMut() -> bool) {
    match change {
        Change::Size(size) => {
            if keep() {
                content.resize(usize::try_from(*size).expect("a size"), 0);
            }
        }
        Change::Write { at, data } => {
            let end = at + data.len() as u64;
            let mut from = *at;
            while from < end {
                let to = end.min((from / SECTOR + 1) * SECTOR);
                if keep() {
                    let [from, to, data_from, data_to] = [from, to, from - at, to - at]
                        .map(|n| usize::try_from(n).expect("an offset"));
                    content.resize(content.len().max(to), 0);
                    content[from..to].copy_from_slice(&data[data_from..data_to]);
                }
                from = to;
            }
        }
    }
}

/// The disk's content after the cut, by full name.
pub(crate) struct Image {
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Image {
    pub(crate) fn files(&self) -> &BTreeMap<PathBuf, Vec<u8>> {
        &self.files
    }

    /// Writes the image of `root` into the directory `target`, with the permissions of the live files.
    pub(crate) fn write(&self, root: &Path, target: &Path) {
        fs::create_dir_all(target).expect("create the image's directory");
        for (name, content) in &self.files {
            let target_file = target.join(name.strip_prefix(root).expect("a name below the root"));
            fs::create_dir_all(target_file.parent().expect("a directory"))
                .expect("create a directory");
            fs::write(&target_file, content).expect("write a file of the image");
            for (live, copy) in name
                .ancestors()
                .zip(target_file.ancestors())
                .take_while(|(live, _)| live.starts_with(root))
            {
                if let Ok(metadata) = fs::metadata(live) {
                    fs::set_permissions(copy, metadata.permissions()).expect("set permissions");
                }
            }
        }
    }
}

fn is_shared_memory(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"-shm")
}
