//! Histories that are one file of JSON lines a session, as Claude Code and Codex keep them: written at the end only,
//! while they are read.
//!
//! [`Logs`] is the source; what differs between programs is a [`Format`]. Headers come from both ends of a file and
//! are kept until its state changes; a conversation is one pass over its file.

mod ends;
mod lines;
mod newest;
mod state;
mod talk;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::files::canonical;
use crate::locked::locked;
use crate::object::Refusal;
use crate::{
    Conversation, Fingerprint, Header, Listing, LoadedSession, ReadError, SkipReason, Skipped,
    Source, SourceError, TokenRule, turns_of,
};

pub(crate) use ends::{records, title_of};
use lines::{LINE_BYTES_MAX, Lines};
pub(crate) use newest::keep_newest;
pub(crate) use state::{LogFile, State, children, stem};
pub(crate) use talk::{Place, Talk};

/// What one program's files are like.
pub(crate) trait Format: Send + Sync + Sized + 'static {
    /// [`Source::name`].
    const NAME: &'static str;
    /// [`Header::generation`].
    const GENERATION: &'static str;
    /// How usage is read.
    const RULE: TokenRule;
    /// What both ends of a file tell.
    type Head: Send + Sync;
    /// What a session's reader has to know beyond its file.
    type Context: Send + Sync;
    /// Reads the lines of one file.
    type Reader: Reader;

    /// All files there are.
    fn walk(&self, skipped: &mut Vec<Skipped>) -> Vec<LogFile>;

    /// Reads both ends of a file.
    fn head(&self, file: &LogFile) -> Result<Self::Head, Skipped>;

    /// Makes sessions of files, each id once.
    fn settle(
        &self,
        files: Vec<(LogFile, Arc<Self::Head>)>,
        skipped: &mut Vec<Skipped>,
    ) -> Vec<Session<Self::Context>>;

    /// A reader for one session.
    fn reader(&self, session: &Session<Self::Context>) -> Self::Reader;
}

/// Reads the lines of one file into a [`Talk`].
pub(crate) trait Reader: Sized {
    /// Takes one line.
    fn line(&mut self, talk: &mut Talk, number: u64, line: &str) -> Result<(), Refusal>;

    /// Takes the end of the file; a reader that comes back reads the file once more.
    fn end(self, talk: &mut Talk) -> Option<Self>;
}

/// A session and its file.
pub(crate) struct Session<C> {
    /// Its fingerprint is added by who lists it.
    pub(crate) header: Arc<Header>,
    pub(crate) file: LogFile,
    pub(crate) context: C,
    /// Changes with whatever the context was made of.
    pub(crate) mark: u64,
}

/// The source over a [`Format`].
pub(crate) struct Logs<F: Format> {
    format: F,
    /// [`Source::path`].
    at: PathBuf,
    known: Mutex<Known<F>>,
}

/// The sessions as they were listed last.
struct Known<F: Format> {
    /// Heads by their files, valid as long as a file's state.
    heads: HashMap<PathBuf, (State, Head<F>)>,
    sessions: HashMap<Box<str>, Arc<Session<F::Context>>>,
}

type Head<F> = Result<Arc<<F as Format>::Head>, Skipped>;

impl<F: Format> Logs<F> {
    /// The history at `path`, empty as long as nothing is there.
    pub(crate) fn new(format: F, path: &Path) -> Self {
        let known = Known {
            heads: HashMap::new(),
            sessions: HashMap::new(),
        };
        Self {
            format,
            at: canonical(path),
            known: Mutex::new(known),
        }
    }

    /// A session whose file is as the last listing has seen it; else the sessions are listed again.
    fn session(&self, id: &str) -> Result<Arc<Session<F::Context>>, ReadError> {
        let known = || locked(&self.known).sessions.get(id).cloned();
        let is_there = |session: &Arc<Session<F::Context>>| {
            State::of(&session.file.path) == Some(session.file.state)
        };
        if let Some(session) = known().filter(is_there) {
            return Ok(session);
        }
        self.look();
        known().ok_or(ReadError::Gone)
    }

    /// Lists the sessions, and remembers them. Of several who ask at once one looks.
    fn look(&self) -> Listing {
        let mut known = locked(&self.known);
        let (mut skipped, mut found, mut heads) = (Vec::new(), Vec::new(), HashMap::new());
        for file in self.format.walk(&mut skipped) {
            let before = known.heads.remove(&file.path);
            let head = match before.filter(|(state, _)| *state == file.state) {
                Some((_, head)) => head,
                None => self.format.head(&file).map(Arc::new),
            };
            heads.insert(file.path.clone(), (file.state, head.clone()));
            match head {
                Ok(head) => found.push((file, head)),
                Err(why) => skipped.push(why),
            }
        }
        known.heads = heads;
        let sessions = self.format.settle(found, &mut skipped).into_iter();
        let sessions = sessions.map(|mut session| {
            let fingerprint = Fingerprint::of(&(session.file.state, session.mark));
            Arc::make_mut(&mut session.header).fingerprint = Some(fingerprint);
            (session.header.id.clone(), Arc::new(session))
        });
        known.sessions = sessions.collect();
        let headers = known.sessions.values().map(|one| one.header.clone());
        let listing = Listing {
            headers: headers.collect(),
            skipped,
            ..Listing::default()
        };
        listing.in_order()
    }

    /// Reads a file whole.
    fn talk(&self, session: &Session<F::Context>) -> Result<Conversation, ReadError> {
        let mut reader = self.format.reader(session);
        loop {
            let mut talk = Talk::new(&session.file.path);
            let mut lines = Lines::new(open(&session.file)?);
            while let Some(line) = lines.next().map_err(|e| unreadable(&session.file, &e))? {
                let number = line.number;
                let taken = text_of(&line).and_then(|text| match text {
                    "" => Ok(()),
                    text => reader.line(&mut talk, number, text),
                });
                if let Err(why) = &taken {
                    talk.skip(number, why);
                }
            }
            match reader.end(&mut talk) {
                Some(again) => reader = again,
                None => return Ok(talk.finish(F::RULE)),
            }
        }
    }
}

impl<F: Format> Source for Logs<F> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.at)
    }

    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        Ok(Arc::new(self.look()))
    }

    fn read(&self, id: &str) -> Result<Conversation, ReadError> {
        self.talk(&*self.session(id)?)
    }

    fn load(&self, id: &str) -> Result<LoadedSession, ReadError> {
        let session = self.session(id)?;
        let conversation = self.talk(&session)?;
        let path = &session.file.path;
        Ok(turns_of::turns_of(&session.header, &conversation, path))
    }
}

fn open(file: &LogFile) -> Result<File, ReadError> {
    // Looked at anew: the file may have been replaced by a pipe or a link since it was listed.
    if State::of(&file.path).is_none() {
        return Err(ReadError::Gone);
    }
    File::open(&file.path).map_err(|e| match e.kind() {
        ErrorKind::NotFound => ReadError::Gone,
        _ => unreadable(file, &e),
    })
}

fn unreadable(file: &LogFile, error: &std::io::Error) -> ReadError {
    Skipped::new(&file.path, SkipReason::Unreadable, error.to_string()).into()
}

/// The text of a line without white space around.
fn text_of<'a>(line: &lines::Line<'a>) -> Result<&'a str, Refusal> {
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
        Err(_) => return Err(torn()),
    };
    // A last line without an end is whole when its object is closed; else it is still being written.
    if !line.ended && !text.is_empty() && !text.ends_with('}') {
        return Err(torn());
    }
    Ok(text)
}

fn torn() -> Refusal {
    let detail = "the last line has no end: it is still being written, or its program died";
    (SkipReason::Torn, detail.to_owned())
}
