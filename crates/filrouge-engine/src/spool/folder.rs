//! A folder of the spool: queued writes, dead letters, and the lock of the process that uses it.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

#[cfg(test)]
mod full_disk;

use super::frame::{DeadLetterReason, EntryInfo, Header, Seal, SpooledLease, scan};

const QUEUE: &str = "queue";
const DEAD: &str = "dead";
const LOCK: &str = "lock";
/// A file of more than this many bytes is rewritten when more than half of them belong to entries that are done.
const REWRITE_BYTES_MIN: u64 = 1 << 20;

/// An entry of the queue: a write that waits for the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) info: EntryInfo,
    /// The lease that the spool granted, renewed or released; `None` for any other write.
    pub(super) lease: Option<SpooledLease>,
    /// The encoded command.
    pub(super) body: Vec<u8>,
}

impl Entry {
    fn header(&self) -> Header {
        match &self.lease {
            Some(lease) => Header::Lease(self.info.clone(), lease.clone()),
            None => Header::Write(self.info.clone()),
        }
    }

    /// The number of bytes that count towards `spool.bytes`: the body, the names, and about 128 for the frame.
    pub(super) fn bytes(&self) -> u64 {
        let names = self.info.tenant.len() + self.info.session.len();
        (self.body.len() + names + 128) as u64
    }
}

/// A dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DeadLetter {
    /// `None` for an unreadable piece.
    pub(super) info: Option<EntryInfo>,
    pub(super) refusal: DeadLetterReason,
    /// The encoded command, or the unreadable piece; empty if the contents were erased.
    pub(super) body: Vec<u8>,
}

impl DeadLetter {
    fn header(&self) -> Header {
        match &self.info {
            Some(info) => Header::Dead(info.clone(), self.refusal.clone()),
            None => Header::Unreadable(self.refusal.clone()),
        }
    }

    pub(super) fn belongs_to(&self, tenant: &str, session: &str) -> bool {
        let info = self.info.as_ref();
        info.is_some_and(|p| p.tenant == tenant && p.session == session)
    }
}

/// The contents of a folder.
#[derive(Debug, Default)]
pub(super) struct FolderContents {
    pub(super) entries: Vec<Entry>,
    pub(super) dead: Vec<DeadLetter>,
    /// Pieces of the folder's files that fail verification.
    pub(super) unreadable: Vec<Vec<u8>>,
    /// The number of bytes of incomplete frames at the ends of the files.
    pub(super) torn: u64,
    /// The highest number of an entry or a dead letter. One sequence numbers both.
    pub(super) last_id: u64,
    /// The length of the queue file and of the file of dead letters, without torn frames.
    valid_bytes: [u64; 2],
}

/// An append-only file.
struct AppendFile {
    file: File,
    length: u64,
}

impl AppendFile {
    fn open(path: &Path, length: u64, folder: &Metadata) -> io::Result<Self> {
        let file = private_file()
            .read(true)
            .write(true)
            .create(true)
            .open(path)?;
        copy_owner(&file, folder)?;
        if file.metadata()?.len() != length {
            file.set_len(length)?;
            file.sync_all()?;
        }
        Ok(Self { file, length })
    }

    /// Appends `bytes`, and with `sync` flushes them to disk. After a failure the file counts as unchanged.
    fn append(&mut self, bytes: &[u8], sync: bool) -> io::Result<()> {
        let written = self.file.write_all_at(bytes, self.length);
        let written = written.and_then(|()| if sync { self.file.sync_data() } else { Ok(()) });
        match written {
            Ok(()) => {
                self.length += bytes.len() as u64;
                Ok(())
            }
            Err(e) => {
                // If the truncation fails as well, the file ends with a torn frame. The next frame overwrites it, or
                // the next scan cuts it off.
                let _ = self.file.set_len(self.length);
                Err(e)
            }
        }
    }
}

pub(super) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// A folder that this process has locked.
pub(super) struct Folder {
    path: PathBuf,
    seal: Seal,
    queue: AppendFile,
    dead: AppendFile,
    last_id: u64,
    /// Entries that became dead letters since the folder was opened.
    dead_ids: HashSet<u64>,
    // The lock is released when the file is closed, and so also when the process dies.
    _lock: File,
}

/// Changes a file's owner to that of its folder if another user created the file. Without the right to do so, does
/// nothing.
fn copy_owner(file: &File, folder: &Metadata) -> io::Result<()> {
    let current = file.metadata()?;
    if (current.uid(), current.gid()) == (folder.uid(), folder.gid()) {
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
    let created_dirs: Vec<&Path> = path.ancestors().take_while(is_new).collect();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)?;
    for created in created_dirs {
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

/// Reads a folder's contents, even if another process has locked it; changes nothing. Entries that are done are left
/// out.
pub(super) fn read_contents(path: &Path, seal: &Seal) -> io::Result<FolderContents> {
    let mut contents = FolderContents::default();
    let read = |name| match fs::read(path.join(name)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    };
    let mut done = BTreeSet::new();
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
    contents.entries.retain(|e| !done.contains(&e.info.id));
    Ok(contents)
}

impl FolderContents {
    fn add_frame(&mut self, header: Header, body: Vec<u8>, done: &mut BTreeSet<u64>) {
        let last_id = match &header {
            Header::Write(info) | Header::Lease(info, _) => info.id,
            Header::Done { id } => *id,
            Header::Dead(_, refusal) | Header::Unreadable(refusal) => refusal.letter,
        };
        self.last_id = self.last_id.max(last_id);
        match header {
            Header::Write(info) => self.entries.push(Entry {
                info,
                lease: None,
                body,
            }),
            Header::Lease(info, lease) => self.entries.push(Entry {
                info,
                lease: Some(lease),
                body,
            }),
            Header::Done { id } => {
                done.insert(id);
            }
            Header::Dead(info, refusal) => {
                // The dead letter was written before the entry was marked done.
                done.insert(info.id);
                self.dead.push(DeadLetter {
                    info: Some(info),
                    refusal,
                    body,
                });
            }
            Header::Unreadable(refusal) => self.dead.push(DeadLetter {
                info: None,
                refusal,
                body,
            }),
        }
    }
}

impl Folder {
    /// Opens and locks a folder, which is created if it does not exist; `None` if another process has locked it or has
    /// just removed it. Incomplete frames at the ends of its files are cut off.
    pub(super) fn open(path: &Path, seal: &Seal) -> io::Result<Option<(Self, FolderContents)>> {
        create_private_dirs(path)?;
        let mut options = private_file();
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
        let folder = fs::metadata(path)?;
        copy_owner(&lock, &folder)?;
        let folder = Self {
            queue: AppendFile::open(&path.join(QUEUE), contents.valid_bytes[0], &folder)?,
            dead: AppendFile::open(&path.join(DEAD), contents.valid_bytes[1], &folder)?,
            path: path.to_owned(),
            seal: seal.clone(),
            last_id: contents.last_id,
            dead_ids: HashSet::new(),
            _lock: lock,
        };
        File::open(path)?.sync_all()?;
        Ok(Some((folder, contents)))
    }

    /// Allocates the number of a new entry or dead letter.
    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes of frames, each with its header and body.
    fn frames<'a>(&self, frames: impl Iterator<Item = (Header, &'a [u8])>) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for (header, body) in frames {
            bytes.extend(self.seal.frame(&header, body)?);
        }
        Ok(bytes)
    }

    /// Adds an entry to the queue file, and flushes it to disk.
    pub(super) fn append(&mut self, entry: &Entry) -> io::Result<()> {
        let frame = self.seal.frame(&entry.header(), &entry.body)?;
        self.queue.append(&frame, true)
    }

    /// Marks entries done in this order, all or none. Without `sync`, a power failure may undo the marks.
    pub(super) fn mark_done(&mut self, ids: &[u64], sync: bool) -> io::Result<()> {
        let done = ids
            .iter()
            .map(|id| (Header::Done { id: *id }, b"".as_slice()));
        let frames = self.frames(done)?;
        self.queue.append(&frames, sync)
    }

    /// Writes dead letters, all or none, and flushes them to disk.
    pub(super) fn add_dead_letters(&mut self, letters: &[DeadLetter]) -> io::Result<()> {
        if letters.is_empty() {
            return Ok(());
        }
        let frames = self.frames(letters.iter().map(|l| (l.header(), &*l.body)))?;
        self.dead.append(&frames, true)?;
        let infos = letters.iter().filter_map(|letter| letter.info.as_ref());
        self.dead_ids.extend(infos.map(|info| info.id));
        Ok(())
    }

    /// Whether an entry has become a dead letter since the folder was opened.
    pub(super) fn is_dead_letter(&self, id: u64) -> bool {
        self.dead_ids.contains(&id)
    }

    /// Whether the queue file is to be rewritten, because most of its bytes belong to entries that are done;
    /// `queued_bytes` is the number of bytes of the other entries.
    pub(super) fn needs_rewrite(&self, queued_bytes: u64) -> bool {
        self.queue.length > REWRITE_BYTES_MIN && queued_bytes < self.queue.length / 2
    }

    /// Rewrites the queue file so that it contains only `entries`, which must be all that are still queued.
    pub(super) fn rewrite<'a>(
        &mut self,
        entries: impl Iterator<Item = &'a Entry>,
    ) -> io::Result<()> {
        let bytes = self.frames(entries.map(|entry| (entry.header(), &*entry.body)))?;
        if bytes.is_empty() && self.queue.length == 0 {
            return Ok(());
        }
        self.queue = self.replace_file(QUEUE, &bytes)?;
        Ok(())
    }

    /// Rewrites the file of dead letters so that it contains only `dead`.
    pub(super) fn rewrite_dead<'a>(
        &mut self,
        dead: impl Iterator<Item = &'a DeadLetter>,
    ) -> io::Result<()> {
        let bytes = self.frames(dead.map(|dead| (dead.header(), &*dead.body)))?;
        self.dead = self.replace_file(DEAD, &bytes)?;
        Ok(())
    }

    /// Replaces the file `name` by a new one with these bytes, atomically.
    fn replace_file(&self, name: &str, bytes: &[u8]) -> io::Result<AppendFile> {
        let temporary = self.path.join(format!(".{name}.new"));
        let mut options = private_file();
        let options = options.read(true).write(true).create(true).truncate(true);
        let file = options.open(&temporary)?;
        // The operator who edits dead letters may be another user than the server that uses the file next.
        copy_owner(&file, &fs::metadata(&self.path)?)?;
        file.write_all_at(bytes, 0)?;
        file.sync_all()?;
        fs::rename(&temporary, self.path.join(name))?;
        File::open(&self.path)?.sync_all()?;
        Ok(AppendFile {
            file,
            length: bytes.len() as u64,
        })
    }

    /// Truncates the queue file to zero bytes. Call it only if no entry of the folder is queued.
    pub(super) fn truncate_queue(&mut self) -> io::Result<()> {
        if self.queue.length > 0 {
            self.queue.file.set_len(0)?;
            self.queue.length = 0;
            self.queue.file.sync_data()?;
        }
        Ok(())
    }

    /// Reads the folder's current contents.
    pub(super) fn contents(&self) -> io::Result<FolderContents> {
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
}
