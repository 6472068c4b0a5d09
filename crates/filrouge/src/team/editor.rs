//! Reads lines from the terminal. The history of lines is kept only in memory, so that no history file contains
//! the texts.

use std::sync::mpsc::{Sender, channel};

use rustyline::error::ReadlineError;
use rustyline::history::{History as _, MemHistory};
use rustyline::{Config, Editor as Rustyline, Prompt};
use tokio::sync::mpsc;

/// The maximum number of lines in the history.
const LINES: usize = 1000;

/// A request to the editor's thread.
enum Request {
    /// Read a line, with this prompt. `plain` is the prompt without colors, which determines its width.
    Line { plain: String, styled: String },
    /// Add this line to the history.
    Remember(String),
}

/// The result of reading a line.
pub(super) enum Typed {
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D, or the terminal was closed.
    End,
    /// The editor failed.
    Failed(String),
}

struct Styled {
    plain: String,
    styled: String,
}

impl Prompt for Styled {
    fn raw(&self) -> &str {
        &self.plain
    }

    fn styled(&self) -> &str {
        &self.styled
    }
}

/// The line editor, in its own thread, which blocks on keys.
pub(super) struct Editor {
    requests: Sender<Request>,
    typed: mpsc::UnboundedReceiver<Typed>,
}

impl Editor {
    pub(super) fn new() -> anyhow::Result<Self> {
        let config = Config::builder()
            .max_history_size(LINES)?
            .history_ignore_dups(true)?
            .auto_add_history(false)
            .build();
        let history = MemHistory::with_config(&config);
        let mut editor = Rustyline::<(), MemHistory>::with_history(config, history)?;
        let (requests, received) = channel();
        let (sender, typed) = mpsc::unbounded_channel();
        // The thread is not joined: it may block on keys when the program ends.
        std::thread::spawn(move || {
            for request in received {
                let typed = match request {
                    Request::Remember(line) => {
                        // A line that the history refuses, such as a repeated one, is not added.
                        let _ = editor.history_mut().add_owned(line);
                        continue;
                    }
                    Request::Line { plain, styled } => line(&mut editor, plain, styled),
                };
                if sender.send(typed).is_err() {
                    return;
                }
            }
        });
        Ok(Self { requests, typed })
    }

    /// Requests a line, which [`next`](Self::next) returns.
    pub(super) fn ask(&self, plain: String, styled: String) {
        // If the thread has ended, `next` reports it.
        let _ = self.requests.send(Request::Line { plain, styled });
    }

    /// Adds a line to the history.
    pub(super) fn remember(&self, line: &str) {
        let _ = self.requests.send(Request::Remember(line.to_owned()));
    }

    /// Waits for the next result of a requested line. Cancel-safe: a dropped future consumes nothing.
    pub(super) async fn next(&mut self) -> Typed {
        let ended = || Typed::Failed("the line editor has ended".to_owned());
        self.typed.recv().await.unwrap_or_else(ended)
    }
}

fn line(editor: &mut Rustyline<(), MemHistory>, plain: String, styled: String) -> Typed {
    match editor.readline(&Styled { plain, styled }) {
        Ok(line) => {
            if !line.trim().is_empty() {
                let _ = editor.history_mut().add(&line);
            }
            Typed::Line(line)
        }
        Err(ReadlineError::Interrupted) => Typed::Interrupt,
        Err(ReadlineError::Eof) => Typed::End,
        Err(error) => Typed::Failed(error.to_string()),
    }
}
