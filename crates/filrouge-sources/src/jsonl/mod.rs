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
mod text;
mod time;
mod view;

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::files::canonical;
use crate::object::Refusal;
use crate::{
    Conversation, Found, Header, Listing, LoadedSession, Look, ReadError, Scan, Since, SkipReason,
    Skipped, Source, SourceError, Stamp, TokenRule, turns_of,
};

pub(crate) use ends::{ends, title_of};
use lines::{LINE_BYTES_MAX, Lines};
pub(crate) use newest::keep_newest;
pub(crate) use state::{LogFile, State, children, stem};
use talk::ERROR;
pub(crate) use talk::{Talk, call};
pub(crate) use text::Raw;
use view::{Cached, View};

/// Threads of a scan.
const SCAN_THREADS: usize = 2;

/// What one program's files are like.
pub(crate) trait Format: Send + Sync + Sized + 'static {
    /// [`Source::name`].
    const NAME: &'static str;
    /// [`Source::generation`].
    const GENERATION: &'static str;
    /// How usage is read.
    const RULE: TokenRule;
    /// What both ends of a file tell.
    type Head: Send + Sync;
    /// What sessions are made of beside their files.
    type Beside: PartialEq + Send + Sync;
    /// What a session's reader has to know beyond its file.
    type Context: Send + Sync;
    /// Reads the lines of one file.
    type Reader: Reader;

    /// All files there are.
    fn walk(&self, skipped: &mut Vec<Skipped>) -> Result<Vec<LogFile>, SourceError>;

    /// What there is beside the files now.
    fn beside(&self, skipped: &mut Vec<Skipped>) -> Self::Beside;

    /// Reads both ends of a file.
    fn head(&self, file: &LogFile) -> Result<Self::Head, Skipped>;

    /// Makes sessions of files, each id once.
    fn settle(
        &self,
        files: Vec<(LogFile, Arc<Self::Head>)>,
        beside: &Self::Beside,
        skipped: &mut Vec<Skipped>,
    ) -> Vec<Session<Self::Context>>;

    /// Whether a line can be of the conversation; errs only by saying yes.
    fn matters(line: &[u8]) -> bool;

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
    pub(crate) header: Arc<Header>,
    pub(crate) file: LogFile,
    pub(crate) context: C,
    /// Changes with whatever the context was made of.
    pub(crate) mark: u64,
}

/// A session and the state of its file now.
type Present<F> = (Arc<Session<<F as Format>::Context>>, State);

/// The source over a [`Format`].
pub(crate) struct Logs<F: Format> {
    format: F,
    /// [`Source::place`].
    at: PathBuf,
    cached: Cached<F>,
}

impl<F: Format> Logs<F> {
    /// Looks through the folder once, so that a wrong one is refused at once.
    pub(crate) fn open(format: F, path: &Path) -> Result<Self, SourceError> {
        let logs = Self {
            format,
            at: canonical(path),
            cached: Cached::default(),
        };
        logs.view(false)?;
        Ok(logs)
    }

    fn view(&self, anew: bool) -> Result<Arc<View<F>>, SourceError> {
        self.cached.view(&self.format, anew)
    }

    /// A session and the state of its file now. Looks through the folder only when the last look is no longer good, or
    /// the file is another than it was then.
    fn session(&self, id: &str) -> Result<Present<F>, ReadError> {
        let state = |session: &Session<F::Context>| State::of(&session.file.path);
        if let Some(session) = self.cached.recent(id)
            && let Some(state) = state(&session).filter(|state| *state == session.file.state)
        {
            return Ok((session, state));
        }
        let unavailable = |why: SourceError| ReadError::Unavailable(why.to_string());
        for anew in [false, true] {
            let view = self.view(anew).map_err(unavailable)?;
            if let Some(session) = view.session(id)
                && let Some(state) = state(&session)
            {
                return Ok((session, state));
            }
        }
        Err(ReadError::Gone)
    }

    /// Reads a file whole. `seen` gets each line with the talk it has changed, and whether it could be taken.
    fn read(
        &self,
        session: &Session<F::Context>,
        mut seen: impl FnMut(&[u8], bool, &mut Talk),
    ) -> Result<Conversation, ReadError> {
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
                seen(line.bytes, taken.is_ok(), &mut talk);
            }
            match reader.end(&mut talk) {
                Some(again) => reader = again,
                None => return Ok(talk.finish(F::RULE)),
            }
        }
    }

    /// Reads a conversation.
    fn talk(&self, session: &Session<F::Context>) -> Result<Conversation, ReadError> {
        self.read(session, |_, _, talk| drop(talk.take_touched()))
    }

    /// Whether a line of the file may hold what is looked for. Names the session when a line was not looked at.
    fn may_hold(&self, session: &Session<F::Context>, scan: &Scan<'_>) -> Result<bool, ReadError> {
        let mut lines = Lines::new(open(&session.file)?);
        let mut too_long = false;
        while let Some(line) = lines.next().map_err(|e| unreadable(&session.file, &e))? {
            if F::matters(line.bytes) && (scan.may_hold)(line.bytes) {
                return Ok(true);
            }
            too_long |= line.too_long;
        }
        if too_long {
            (scan.unread)(&session.header.id);
        }
        Ok(false)
    }

    /// Looks through one session; names it when it cannot be read.
    fn scan_one(&self, session: &Session<F::Context>, scan: &Scan<'_>) {
        match self.scan_file(session, scan) {
            // What was deleted meanwhile holds nothing.
            Ok(()) | Err(ReadError::Gone) => {}
            Err(_) => (scan.unread)(&session.header.id),
        }
    }

    /// A result stands in another line than its call, so a file with a line that may hold what is looked for is read
    /// whole, and the parts such lines have made or changed are handed over.
    fn scan_file(&self, session: &Session<F::Context>, scan: &Scan<'_>) -> Result<(), ReadError> {
        if !self.may_hold(session, scan)? {
            return Ok(());
        }
        let mut hits = Vec::new();
        let mut lost = false;
        let mut conversation = self.read(session, |line, taken, talk| {
            let touched = talk.take_touched();
            // Of a line that is too long there are no bytes to ask.
            if !taken {
                lost |= line.is_empty() || (scan.may_hold)(line);
            } else if touched.len() > 0 && (scan.may_hold)(line) {
                hits.extend(touched);
            }
        })?;
        if lost {
            (scan.unread)(&session.header.id);
        }
        hits.sort_unstable();
        hits.dedup();
        for message in &mut conversation.messages {
            let place = message.seq.and_then(|seq| usize::try_from(seq).ok());
            let from = hits.partition_point(|(at, _)| Some(*at) < place);
            let to = hits.partition_point(|(at, _)| Some(*at) <= place);
            let hits = hits.get(from..to).unwrap_or_default();
            let error = message.error.as_ref();
            let error = error.filter(|_| hits.iter().any(|(_, part)| *part == ERROR));
            let mut wanted = hits.iter().peekable();
            let mut index = 0;
            message.parts.retain(|_| {
                let keep = wanted.next_if(|(_, part)| *part == index).is_some();
                index += 1;
                keep
            });
            if !message.parts.is_empty() || error.is_some() {
                (scan.found)(Found {
                    session: &session.header.id,
                    message: &message.id,
                    role: Some(message.role),
                    parts: &message.parts,
                    error,
                });
            }
        }
        Ok(())
    }
}

impl<F: Format> Source for Logs<F> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn generation(&self) -> &'static str {
        F::GENERATION
    }

    fn list(&self) -> Result<Arc<Listing>, SourceError> {
        Ok(self.view(false)?.listing.clone())
    }

    fn stamp(&self, id: &str) -> Result<Option<Stamp>, ReadError> {
        let (session, state) = self.session(id)?;
        let (first, second) = state.stamp();
        Ok(Some(Stamp(first, second ^ session.mark)))
    }

    fn place(&self) -> Option<&Path> {
        Some(&self.at)
    }

    fn lasting(&self, id: &str) -> Result<Option<Stamp>, ReadError> {
        let (session, state) = self.session(id)?;
        Ok(Some(lasting(&session, state)))
    }

    /// As of the last look through the folder.
    fn since(&self, known: &[(&str, Stamp)], _look: Look) -> Result<Vec<Since>, SourceError> {
        let view = self.view(false)?;
        let one = |(id, mark): &(&str, Stamp)| match view.session(id) {
            Some(session) if lasting(&session, session.file.state) == *mark => Since::Same,
            _ => Since::Changed,
        };
        Ok(known.iter().map(one).collect())
    }

    fn conversation(&self, id: &str) -> Result<Conversation, ReadError> {
        let (session, _) = self.session(id)?;
        self.talk(&session)
    }

    fn scan(&self, scan: &Scan<'_>) -> Result<(), SourceError> {
        let view = self.view(false)?;
        let wanted = |s: &&Arc<Session<F::Context>>| (scan.wanted)(&s.header.id);
        let mut sessions: Vec<_> = view.sessions().filter(wanted).collect();
        // The largest first, so that no thread is left with it at the end.
        sessions.sort_by_key(|s| std::cmp::Reverse(s.file.state.size));
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(session) = sessions.get(next.fetch_add(1, Ordering::Relaxed)) {
                if (scan.stopped)() {
                    return;
                }
                self.scan_one(session, scan);
            }
        };
        std::thread::scope(|threads| {
            for _ in 1..SCAN_THREADS {
                threads.spawn(work);
            }
            work();
        });
        Ok(())
    }

    fn load(&self, id: &str) -> Result<LoadedSession, ReadError> {
        let (session, _) = self.session(id)?;
        let conversation = self.talk(&session)?;
        Ok(turns_of::turns_of(
            &session.header,
            &conversation,
            &session.file.path,
        )?)
    }
}

/// The mark of a session whose file is in that state.
fn lasting<C>(session: &Session<C>, state: State) -> Stamp {
    let (first, second) = state.lasting();
    Stamp(first, second ^ session.mark)
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

/// Reads a line as a record.
pub(crate) fn record<'a, T: serde::Deserialize<'a>>(line: &'a str) -> Result<T, Refusal> {
    // A list would be read as the fields in their order.
    if line.starts_with('[') {
        return Err((SkipReason::Malformed, "not a JSON object".to_owned()));
    }
    serde_json::from_str(line).map_err(|error| {
        if memchr::memchr(0, line.as_bytes()).is_some() {
            (SkipReason::Torn, "holds NUL bytes".to_owned())
        } else if error.is_eof() {
            (SkipReason::Torn, "ends too early".to_owned())
        } else if line.starts_with('{') && error.is_data() {
            (SkipReason::DuplicateKey, "a key is there twice".to_owned())
        } else {
            let detail = format!("not a JSON object (column {})", error.column());
            (SkipReason::Malformed, detail)
        }
    })
}
