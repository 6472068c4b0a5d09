//! A folder of the spool: the writes that wait, the writes that were refused, and the lock of the process that they belong to.

use std::collections::HashSet;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use super::frame::{Header, LeaseNow, Place, Refusal, Seal, scan};

const QUEUE: &str = "queue";
const DEAD: &str = "dead";
const LOCK: &str = "lock";
/// A file of at least so many bytes, more than half of them done with, is written anew.
const REWRITE_FROM: u64 = 1 << 20;

/// An entry that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) place: Place,
    /// Of a lease alone.
    pub(super) lease: Option<LeaseNow>,
    /// The command.
    pub(super) body: Vec<u8>,
}

impl Entry {
    fn header(&self) -> Header {
        match &self.lease {
            Some(lease) => Header::Lease(self.place.clone(), lease.clone()),
            None => Header::Write(self.place.clone()),
        }
    }

    /// The bytes that it takes of the bound.
    pub(super) fn bytes(&self) -> u64 {
        let names = self.place.tenant.len() + self.place.session.len();
        (self.body.len() + names + 128) as u64
    }
}

/// A dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dead {
    /// Of what is unreadable nobody knows.
    pub(super) place: Option<Place>,
    pub(super) refusal: Refusal,
    /// The command, or what is there instead; empty once it was erased.
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

/// What a folder holds.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) entries: Vec<Entry>,
    pub(super) dead: Vec<Dead>,
    /// Pieces of its files that are not what was written.
    pub(super) unreadable: Vec<Vec<u8>>,
    /// Bytes of frames that were not written to their end.
    pub(super) torn: u64,
    /// The highest number of an entry or a dead letter.
    pub(super) newest: u64,
    stands: [u64; 2],
}

/// A file that grows at its end.
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

    /// Adds `bytes`; after a failure the file is as it was.
    fn add(&mut self, bytes: &[u8], sync: bool) -> io::Result<()> {
        let written = self.file.write_all_at(bytes, self.length);
        let written = written.and_then(|()| if sync { self.file.sync_data() } else { Ok(()) });
        match written {
            Ok(()) => {
                self.length += bytes.len() as u64;
                Ok(())
            }
            Err(e) => {
                // A half that stays is torn: the next frame is written over it, or whoever reads cuts it.
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

/// A folder that this process has to itself.
pub(super) struct Folder {
    path: PathBuf,
    seal: Seal,
    queue: Growing,
    dead: Growing,
    newest: u64,
    /// The entries that were made dead letters since it was taken.
    buried: HashSet<u64>,
    // Released when it is dropped, also by a process that dies.
    _lock: File,
}

/// Gives a file to the owner of its folder, when that is somebody else than who it was made by.
fn owned_as(file: &File, folder: &Metadata) -> io::Result<()> {
    let now = file.metadata()?;
    if (now.uid(), now.gid()) == (folder.uid(), folder.gid()) {
        return Ok(());
    }
    match fchown(file, Some(folder.uid()), Some(folder.gid())) {
        // Only root gives files away. Whoever is not root, and may write here, reads the file as before.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        given => given,
    }
}

/// Makes a folder with its parents, for nobody else to read; they are on disk once this is done.
pub(super) fn make(path: &Path) -> io::Result<()> {
    let is_new = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let fresh: Vec<&Path> = path.ancestors().take_while(is_new).collect();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)?;
    for made in fresh {
        let parent = made.parent().filter(|p| !p.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

/// The folders of a store's spool, by name.
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

/// What a folder holds, whoever it belongs to; nothing is changed.
pub(super) fn look(path: &Path, seal: &Seal) -> io::Result<Contents> {
    let mut contents = Contents::default();
    let read = |name| match fs::read(path.join(name)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    };
    let mut done = std::collections::BTreeSet::new();
    for (nth, name) in [QUEUE, DEAD].into_iter().enumerate() {
        let bytes = read(name)?;
        let scanned = scan(&bytes, seal);
        contents.torn += (bytes.len() - scanned.stands) as u64;
        contents.stands[nth] = scanned.stands as u64;
        contents.unreadable.extend(scanned.unreadable);
        for (header, body) in scanned.frames {
            contents.take(header, body, &mut done);
        }
    }
    contents.entries.retain(|e| !done.contains(&e.place.id));
    Ok(contents)
}

impl Contents {
    fn take(&mut self, header: Header, body: Vec<u8>, done: &mut std::collections::BTreeSet<u64>) {
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
                // It was buried before it was crossed out.
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
    /// Takes a folder; `None` when another process has it.
    pub(super) fn open(path: &Path, seal: &Seal) -> io::Result<Option<(Self, Contents)>> {
        make(path)?;
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
        // Whoever had it may have taken the folder away in between.
        match fs::metadata(path.join(LOCK)) {
            Ok(there) if there.ino() == lock.metadata()?.ino() => {}
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => return Ok(None),
        }
        let contents = look(path, seal)?;
        let like = fs::metadata(path)?;
        owned_as(&lock, &like)?;
        let folder = Self {
            queue: Growing::open(&path.join(QUEUE), contents.stands[0], &like)?,
            dead: Growing::open(&path.join(DEAD), contents.stands[1], &like)?,
            path: path.to_owned(),
            seal: seal.clone(),
            newest: contents.newest,
            buried: HashSet::new(),
            _lock: lock,
        };
        File::open(path)?.sync_all()?;
        Ok(Some((folder, contents)))
    }

    /// The next number.
    pub(super) fn next_id(&mut self) -> u64 {
        self.newest += 1;
        self.newest
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds an entry; it is on disk once this is done.
    pub(super) fn add(&mut self, entry: &Entry) -> io::Result<()> {
        let frame = self.seal.frame(&entry.header(), &entry.body)?;
        self.queue.add(&frame, true)
    }

    /// Crosses entries out, in this order, all or none; a power cut may take that back unless `sync` is asked for.
    pub(super) fn done(&mut self, ids: &[u64], sync: bool) -> io::Result<()> {
        let mut frames = Vec::new();
        for id in ids {
            frames.extend(self.seal.frame(&Header::Done { id: *id }, &[])?);
        }
        self.queue.add(&frames, sync)
    }

    /// Keeps dead letters, all or none; they are on disk once this is done.
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

    /// Whether an entry was made a dead letter already.
    pub(super) fn is_buried(&self, id: u64) -> bool {
        self.buried.contains(&id)
    }

    /// Whether most of the file of entries is done with.
    pub(super) fn is_worn(&self, waiting: u64) -> bool {
        self.queue.length > REWRITE_FROM && waiting < self.queue.length / 2
    }

    /// Writes the file of entries anew, with those that still wait.
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

    /// Writes the dead letters anew.
    pub(super) fn rebury<'a>(&mut self, dead: impl Iterator<Item = &'a Dead>) -> io::Result<()> {
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
        // Whoever looks after the letters may be another user than the server that goes on with them.
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

    /// Empties the file of entries: nothing waits.
    pub(super) fn empty(&mut self) -> io::Result<()> {
        if self.queue.length > 0 {
            self.queue.file.set_len(0)?;
            self.queue.length = 0;
            self.queue.file.sync_data()?;
        }
        Ok(())
    }

    /// What it holds now.
    pub(super) fn contents(&self) -> io::Result<Contents> {
        look(&self.path, &self.seal)
    }

    /// Takes the folder away, when it holds nothing.
    pub(super) fn remove_if_empty(self) -> io::Result<Option<Self>> {
        if self.queue.length + self.dead.length > 0 {
            return Ok(Some(self));
        }
        fs::remove_dir_all(&self.path)?;
        Ok(None)
    }

    /// As on a disk without room for dead letters, or for entries.
    #[cfg(test)]
    pub(super) fn fill(&mut self, dead: bool) {
        let growing = if dead {
            &mut self.dead
        } else {
            &mut self.queue
        };
        growing.file = private().write(true).open("/dev/full").unwrap();
    }

    /// There is room again.
    #[cfg(test)]
    pub(super) fn unfill(&mut self) {
        for (name, growing) in [(QUEUE, &mut self.queue), (DEAD, &mut self.dead)] {
            let file = private().read(true).write(true).open(self.path.join(name));
            growing.file = file.unwrap();
        }
    }
}
