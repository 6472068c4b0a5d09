//! Histories with one file of JSON lines per session, as Claude Code and Codex write them. Programs only append to
//! these files, and may do so during a read.
//!
//! [`Logs`] is the source; a [`Format`] describes one program's files. A session's header is read from both ends of its
//! file, and is cached until the file changes. A conversation is read in one pass over its file, or in two if the
//! format's reader requests a second one.

mod builder;
mod ends;
mod lines;
mod newest;
mod state;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::files::{canonical, unreadable_report};
use crate::object::{Refusal, Result};
use crate::{
    Conversation, Fingerprint, Header, Listing, LoadedSession, ReadError, SkipReason, Skipped,
    Source, SourceError, TokenRule, turns_of,
};

pub(crate) use builder::{MessageBuilder, RecordInfo};
pub(crate) use ends::{read_both_ends, title_of};
use filrouge_types::lock;
use lines::{LINE_BYTES_MAX, Lines};
pub(crate) use newest::keep_newest;
pub(crate) use state::{LogFile, State, list_folder, stem};

/// The file format of one program.
pub(crate) trait Format: Send + Sync + Sized + 'static {
    /// [`Source::name`].
    const NAME: &'static str;
    /// [`Header::generation`].
    const GENERATION: &'static str;
    /// The rule by which the program's token counts are converted.
    const TOKEN_RULE: TokenRule;
    /// The facts about a session that both ends of its file contain.
    type Head: Send + Sync;
    /// Data that a session's reader needs in addition to the file.
    type Context: Send + Sync;
    /// Reads the lines of one file.
    type LineReader: LineReader;

    /// Lists all files of the history. Entries that cannot be used are reported in `skipped`.
    fn list_files(&self, skipped: &mut Vec<Skipped>) -> Vec<LogFile>;

    /// Reads both ends of a file.
    fn read_head(&self, file: &LogFile) -> Result<Self::Head, Skipped>;

    /// Builds the sessions from the files, each id once. Files that yield no session are reported in `skipped`.
    fn build_sessions(
        &self,
        files: Vec<(LogFile, Arc<Self::Head>)>,
        skipped: &mut Vec<Skipped>,
    ) -> Vec<Session<Self::Context>>;

    /// Creates a reader for one session.
    fn reader(&self, session: &Session<Self::Context>) -> Self::LineReader;
}

/// Reads the lines of one file into a [`MessageBuilder`].
pub(crate) trait LineReader: Sized {
    /// The conversation that has been read so far.
    fn builder(&mut self) -> &mut MessageBuilder;

    /// Reads one line that is not empty; `number` counts from 1. After an error, the line is reported as left out and
    /// reading continues.
    fn read_line(&mut self, number: u64, line: &str) -> Result<()>;

    /// Handles the end of the file. If it returns a reader, that reader reads the file again.
    fn finish(&mut self) -> Option<Self>;
}

/// A session and its file.
pub(crate) struct Session<C> {
    /// The header; the listing adds its fingerprint.
    pub(crate) header: Arc<Header>,
    pub(crate) file: LogFile,
    pub(crate) context: C,
    /// A value that changes whenever the source data of the context changes.
    pub(crate) context_fingerprint: u64,
}

/// The source that reads the files of a [`Format`].
pub(crate) struct Logs<F: Format> {
    format: F,
    /// [`Source::path`].
    path: PathBuf,
    last: Mutex<LastListing<F>>,
}

/// The result of the most recent listing.
struct LastListing<F: Format> {
    /// The head of each file, or the reason why it cannot be read; valid while the file's state is the same.
    heads: HashMap<PathBuf, (State, Head<F>)>,
    sessions: HashMap<Box<str>, Arc<Session<F::Context>>>,
}

type Head<F> = Result<Arc<<F as Format>::Head>, Skipped>;

impl<F: Format> Logs<F> {
    /// Creates the source for the history at `path`; it has no sessions until a history exists there.
    pub(crate) fn new(format: F, path: &Path) -> Self {
        let last = LastListing {
            heads: HashMap::new(),
            sessions: HashMap::new(),
        };
        Self {
            format,
            path: canonical(path),
            last: Mutex::new(last),
        }
    }

    /// Returns a session from the last listing if its file is unchanged; otherwise lists the sessions first.
    fn session(&self, id: &str) -> Result<Arc<Session<F::Context>>, ReadError> {
        let listed = || lock(&self.last).sessions.get(id).cloned();
        let is_unchanged = |session: &Arc<Session<F::Context>>| {
            State::read(&session.file.path) == Some(session.file.state)
        };
        if let Some(session) = listed().filter(is_unchanged) {
            return Ok(session);
        }
        self.refresh();
        listed().ok_or(ReadError::Gone)
    }

    /// Lists the sessions and caches them; reads only the heads of files that are new or changed since the previous
    /// call. Concurrent callers wait for each other.
    fn refresh(&self) -> Listing {
        let mut last = lock(&self.last);
        let (mut skipped, mut heads_read, mut heads) = (Vec::new(), Vec::new(), HashMap::new());
        for file in self.format.list_files(&mut skipped) {
            let cached = last.heads.remove(&file.path);
            let head = match cached.filter(|(state, _)| *state == file.state) {
                Some((_, head)) => head,
                None => self.format.read_head(&file).map(Arc::new),
            };
            heads.insert(file.path.clone(), (file.state, head.clone()));
            match head {
                Ok(head) => heads_read.push((file, head)),
                Err(why) => skipped.push(why),
            }
        }
        last.heads = heads;
        let sessions = self
            .format
            .build_sessions(heads_read, &mut skipped)
            .into_iter();
        let sessions = sessions.map(|mut session| {
            let fingerprint =
                Fingerprint::compute(&(session.file.state, session.context_fingerprint));
            Arc::make_mut(&mut session.header).fingerprint = Some(fingerprint);
            (session.header.id.clone(), Arc::new(session))
        });
        last.sessions = sessions.collect();
        let headers = last.sessions.values().map(|session| session.header.clone());
        let listing = Listing {
            headers: headers.collect(),
            skipped,
            ..Listing::default()
        };
        listing.sorted()
    }

    /// Reads the entire file of a session.
    fn read_conversation(&self, session: &Session<F::Context>) -> Result<Conversation, ReadError> {
        let (mut reader, path) = (self.format.reader(session), &session.file.path);
        loop {
            let mut lines = Lines::new(open(&session.file)?);
            while let Some(line) = lines.next().map_err(|e| unreadable_report(path, &e))? {
                let number = line.number;
                let result = line_text(&line).and_then(|text| match text {
                    "" => Ok(()),
                    text => reader.read_line(number, text),
                });
                if let Err(why) = result {
                    reader.builder().report_skipped(path, number, why);
                }
            }
            match reader.finish() {
                Some(next_reader) => reader = next_reader,
                None => {
                    let builder = std::mem::take(reader.builder());
                    return Ok(builder.finish(path, F::TOKEN_RULE));
                }
            }
        }
    }
}

impl<F: Format> Source for Logs<F> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        Ok(Arc::new(self.refresh()))
    }

    fn read(&self, id: &str) -> Result<Conversation, ReadError> {
        self.read_conversation(&*self.session(id)?)
    }

    fn load(&self, id: &str) -> Result<LoadedSession, ReadError> {
        let session = self.session(id)?;
        let conversation = self.read_conversation(&session)?;
        let path = &session.file.path;
        Ok(turns_of::turns_of(&session.header, &conversation, path))
    }
}

fn open(file: &LogFile) -> Result<File, ReadError> {
    // The file may have been replaced by a pipe or a link since it was listed.
    if State::read(&file.path).is_none() {
        return Err(ReadError::Gone);
    }
    File::open(&file.path).map_err(|e| match e.kind() {
        ErrorKind::NotFound => ReadError::Gone,
        _ => unreadable_report(&file.path, &e).into(),
    })
}

/// The text of a line, trimmed; an error if it is too long, not UTF-8, or incomplete because it is still being written.
fn line_text<'a>(line: &lines::Line<'a>) -> Result<&'a str> {
    if line.too_long {
        let detail = format!("over {LINE_BYTES_MAX} bytes");
        return Err((SkipReason::TooLarge, detail));
    }
    let text = match std::str::from_utf8(line.bytes) {
        Ok(text) => text.trim(),
        Err(e) if line.ended || e.error_len().is_some() => {
            let at = e.valid_up_to();
            return Err((SkipReason::NotUtf8, format!("not UTF-8 at byte {at}")));
        }
        Err(_) => return Err(torn_line()),
    };
    // A last line without a line ending counts as complete if it ends with a brace; otherwise it is still being
    // written.
    if !line.ended && !text.is_empty() && !text.ends_with('}') {
        return Err(torn_line());
    }
    Ok(text)
}

fn torn_line() -> Refusal {
    let detail = "the last line has no end: it is still being written, or its program died";
    (SkipReason::Torn, detail.to_owned())
}
