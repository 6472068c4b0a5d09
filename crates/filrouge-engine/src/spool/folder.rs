//! A folder of the spool: queued writes, dead letters, and the lock of the process that uses it.

use std::collections::HashSet;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use super::frame::{EntryPlace, Header, LeaseNow, Refusal, Seal, scan};

const QUEUE: &str = "queue";
const DEAD: &str = "dead";
const LOCK: &str = "lock";
/// A file of at least this many bytes is rewritten when more than half of them belong to settled entries.
const REWRITE_FROM: u64 = 1 << 20;

/// An entry of the queue: a write that waits for the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) place: EntryPlace,
    /// The lease that the spool granted, renewed or released; `None` for any other write.
    pub(super) lease: Option<LeaseNow>,
    /// The encoded command.
    pub(super) body: Vec<u8>,
}

impl Entry {
    fn header(&self) -> Header {
        match &self.lease {
            Some(lease) => Header::Lease(self.place.clone(), lease.clone()),
            None => Header::Write(self.place.clone()),
        }
    }

    /// The size at which the entry counts towards `spool.bytes`, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let names = self.place.tenant.len() + self.place.session.len();
        (self.body.len() + names + 128) as u64
    }
}

/// A dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dead {
    /// `None` for an unreadable piece.
    pub(super) place: Option<EntryPlace>,
    pub(super) refusal: Refusal,
    /// The encoded command, or the unreadable piece; empty if the contents were erased.
    pub(super) body: Vec<u8>,
}

impl Dead {
    fn header(&self) -> Header {
        match &self.place {
            Some(place) => Header::Dead(place.clone(), self.refusal.clone()),
            None => Header::Unreadable(self.refusal.clone()),
        }
    }

    pub(super) fn is_of(&self, tenant: &str, session: &str) -> bool {
        let place = self.place.as_ref();
        place.is_some_and(|p| p.tenant == tenant && p.session == session)
    }
}

/// The contents of a folder.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) entries: Vec<Entry>,
    pub(super) dead: Vec<Dead>,
    /// Pieces of the folder's files that fail verification.
    pub(super) unreadable: Vec<Vec<u8>>,
    /// The number of bytes of incomplete frames at the ends of the files.
    pub(super) torn: u64,
    /// The highest number of an entry or a dead letter; both are numbered in one sequence.
    pub(super) newest: u64,
    valid_bytes: [u64; 2],
}

/// An append-only file.
struct Growing {
    file: File,
    length: u64,
}

impl Growing {
    fn open(path: &Path, length: u64, like: &Metadata) -> io::Result<Self> {
        let file = private().read(true).write(true).create(true).open(path)?;
        owned_as(&file, like)?;
        if file.metadata()?.len() != length {
            file.set_len(length)?;
            file.sync_all()?;
        }
        Ok(Self { file, length })
    }

    /// Appends `bytes`, and with `sync` flushes them to disk. After a failure the file counts as unchanged.
    fn add(&mut self, bytes: &[u8], sync: bool) -> io::Result<()> {
        let written = self.file.write_all_at(bytes, self.length);
        let written = written.and_then(|()| if sync { self.file.sync_data() } else { Ok(()) });
        match written {
            Ok(()) => {
                self.length += bytes.len() as u64;
                Ok(())
            }
            Err(e) => {
                // A partly written frame is torn: the next frame overwrites it, or the next scan cuts it off.
                let _ = self.file.set_len(self.length);
                Err(e)
            }
        }
    }
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// A folder that this process has locked.
pub(super) struct Folder {
    path: PathBuf,
    seal: Seal,
    queue: Growing,
    dead: Growing,
    newest: u64,
    /// Entries that became dead letters since the folder was opened.
    buried: HashSet<u64>,
    // The lock is released when the file is closed, so also when the process dies.
    _lock: File,
}

/// Changes a file's owner to that of its folder if another user created the file. Without the right to do so, does
/// nothing.
fn owned_as(file: &File, folder: &Metadata) -> io::Result<()> {
    let now = file.metadata()?;
    if (now.uid(), now.gid()) == (folder.uid(), folder.gid()) {
        return Ok(());
    }
    match fchown(file, Some(folder.uid()), Some(folder.gid())) {
        // Only root can change a file's owner.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        changed => changed,
    }
}

/// Creates a folder and its missing parents with mode 0700, and flushes them to disk.
pub(super) fn create_private_dirs(path: &Path) -> io::Result<()> {
    let is_new = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let fresh: Vec<&Path> = path.ancestors().take_while(is_new).collect();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)?;
    for created in fresh {
        let parent = created.parent().filter(|p| !p.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

/// The folders in a store's spool, sorted by name; empty if the spool does not exist.
pub(super) fn folders(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    let entries = match fs::read_dir(directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(folders),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            folders.push(entry.path());
        }
    }
    folders.sort();
    Ok(folders)
}

/// Reads a folder's contents, even if another process has locked it; changes nothing. Settled entries are left out.
pub(super) fn read_contents(path: &Path, seal: &Seal) -> io::Result<Contents> {
    let mut contents = Contents::default();
    let read = |name| match fs::read(path.join(name)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    };
    let mut done = std::collections::BTreeSet::new();
    for (nth, name) in [QUEUE, DEAD].into_iter().enumerate() {
        let bytes = read(name)?;
        let scanned = scan(&bytes, seal);
        contents.torn += (bytes.len() - scanned.valid_bytes) as u64;
        contents.valid_bytes[nth] = scanned.valid_bytes as u64;
        contents.unreadable.extend(scanned.unreadable);
        for (header, body) in scanned.frames {
            contents.add_frame(header, body, &mut done);
        }
    }
    contents.entries.retain(|e| !done.contains(&e.place.id));
    Ok(contents)
}

impl Contents {
    fn add_frame(
        &mut self,
        header: Header,
        body: Vec<u8>,
        done: &mut std::collections::BTreeSet<u64>,
    ) {
        let newest = match &header {
            Header::Write(place) | Header::Lease(place, _) => place.id,
            Header::Done { id } => *id,
            Header::Dead(_, refusal) | Header::Unreadable(refusal) => refusal.letter,
        };
        self.newest = self.newest.max(newest);
        match header {
            Header::Write(place) => self.entries.push(Entry {
                place,
                lease: None,
                body,
            }),
            Header::Lease(place, lease) => self.entries.push(Entry {
                place,
                lease: Some(lease),
                body,
            }),
            Header::Done { id } => {
                done.insert(id);
            }
            Header::Dead(place, refusal) => {
                // The dead letter was written before the entry was marked done.
                done.insert(place.id);
                self.dead.push(Dead {
                    place: Some(place),
                    refusal,
                    body,
                });
            }
            Header::Unreadable(refusal) => self.dead.push(Dead {
                place: None,
                refusal,
                body,
            }),
        }
    }
}

impl Folder {
    /// Opens and locks a folder, which is created if it does not exist; `None` if another process has locked it or
    /// removes it just now. Incomplete frames at the ends of its files are cut off.
    pub(super) fn open(path: &Path, seal: &Seal) -> io::Result<Option<(Self, Contents)>> {
        create_private_dirs(path)?;
        let mut options = private();
        let options = options.write(true).create(true).truncate(false);
        let lock = match options.open(path.join(LOCK)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            lock => lock?,
        };
        match lock.try_lock() {
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            locked => locked.map_err(io::Error::from)?,
        }
        // The process that had the lock may have removed the folder just before this process locked the file.
        match fs::metadata(path.join(LOCK)) {
            Ok(current) if current.ino() == lock.metadata()?.ino() => {}
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => return Ok(None),
        }
        let contents = read_contents(path, seal)?;
        let like = fs::metadata(path)?;
        owned_as(&lock, &like)?;
        let folder = Self {
            queue: Growing::open(&path.join(QUEUE), contents.valid_bytes[0], &like)?,
            dead: Growing::open(&path.join(DEAD), contents.valid_bytes[1], &like)?,
            path: path.to_owned(),
            seal: seal.clone(),
            newest: contents.newest,
            buried: HashSet::new(),
            _lock: lock,
        };
        File::open(path)?.sync_all()?;
        Ok(Some((folder, contents)))
    }

    /// Allocates the number of a new entry or dead letter.
    pub(super) fn next_id(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds an entry to the queue file, and flushes it to disk.
    pub(super) fn add(&mut self, entry: &Entry) -> io::Result<()> {
        let frame = self.seal.frame(&entry.header(), &entry.body)?;
        self.queue.add(&frame, true)
    }

    /// Marks entries done (settled) in this order, all or none. Without `sync` a power cut may undo the marks.
    pub(super) fn done(&mut self, ids: &[u64], sync: bool) -> io::Result<()> {
        let mut frames = Vec::new();
        for id in ids {
            frames.extend(self.seal.frame(&Header::Done { id: *id }, &[])?);
        }
        self.queue.add(&frames, sync)
    }

    /// Writes dead letters, all or none, and flushes them to disk.
    pub(super) fn bury(&mut self, dead: &[Dead]) -> io::Result<()> {
        if dead.is_empty() {
            return Ok(());
        }
        let mut frames = Vec::new();
        for dead in dead {
            frames.extend(self.seal.frame(&dead.header(), &dead.body)?);
        }
        self.dead.add(&frames, true)?;
        let places = dead.iter().filter_map(|dead| dead.place.as_ref());
        self.buried.extend(places.map(|place| place.id));
        Ok(())
    }

    /// Whether an entry has become a dead letter since the folder was opened.
    pub(super) fn is_buried(&self, id: u64) -> bool {
        self.buried.contains(&id)
    }

    /// Whether the queue file is due to be rewritten because most of its bytes belong to settled entries; `waiting` is
    /// the number of bytes of the queued ones.
    pub(super) fn is_worn(&self, waiting: u64) -> bool {
        self.queue.length > REWRITE_FROM && waiting < self.queue.length / 2
    }

    /// Rewrites the queue file so that it contains only `entries`, which must be all that are still queued.
    pub(super) fn rewrite<'a>(
        &mut self,
        entries: impl Iterator<Item = &'a Entry>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        for entry in entries {
            bytes.extend(self.seal.frame(&entry.header(), &entry.body)?);
        }
        if bytes.is_empty() && self.queue.length == 0 {
            return Ok(());
        }
        self.queue = self.replaced(QUEUE, &bytes)?;
        Ok(())
    }

    /// Rewrites the file of dead letters so that it contains only `dead`.
    pub(super) fn rewrite_dead<'a>(
        &mut self,
        dead: impl Iterator<Item = &'a Dead>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        for dead in dead {
            bytes.extend(self.seal.frame(&dead.header(), &dead.body)?);
        }
        self.dead = self.replaced(DEAD, &bytes)?;
        Ok(())
    }

    fn replaced(&self, name: &str, bytes: &[u8]) -> io::Result<Growing> {
        let fresh = self.path.join(format!(".{name}.new"));
        let mut options = private();
        let options = options.read(true).write(true).create(true).truncate(true);
        let file = options.open(&fresh)?;
        // The operator who edits dead letters may be another user than the server that uses the file next.
        owned_as(&file, &fs::metadata(&self.path)?)?;
        file.write_all_at(bytes, 0)?;
        file.sync_all()?;
        fs::rename(&fresh, self.path.join(name))?;
        File::open(&self.path)?.sync_all()?;
        Ok(Growing {
            file,
            length: bytes.len() as u64,
        })
    }

    /// Truncates the queue file to nothing; call it only when no entry of the folder is queued.
    pub(super) fn empty(&mut self) -> io::Result<()> {
        if self.queue.length > 0 {
            self.queue.file.set_len(0)?;
            self.queue.length = 0;
            self.queue.file.sync_data()?;
        }
        Ok(())
    }

    /// Reads the folder's current contents.
    pub(super) fn contents(&self) -> io::Result<Contents> {
        read_contents(&self.path, &self.seal)
    }

    /// Removes the folder if its files are empty; otherwise returns it.
    pub(super) fn remove_if_empty(self) -> io::Result<Option<Self>> {
        if self.queue.length + self.dead.length > 0 {
            return Ok(Some(self));
        }
        fs::remove_dir_all(&self.path)?;
        Ok(None)
    }

    /// Simulates a full disk for the file of dead letters if `dead`, otherwise for the queue file.
    #[cfg(test)]
    pub(super) fn fill(&mut self, dead: bool) {
        let growing = if dead {
            &mut self.dead
        } else {
            &mut self.queue
        };
        growing.file = private().write(true).open("/dev/full").unwrap();
    }

    /// Ends the simulation of a full disk.
    #[cfg(test)]
    pub(super) fn unfill(&mut self) {
        for (name, growing) in [(QUEUE, &mut self.queue), (DEAD, &mut self.dead)] {
            let file = private().read(true).write(true).open(self.path.join(name));
            growing.file = file.unwrap();
        }
    }
}
