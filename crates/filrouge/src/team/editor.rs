//! Reads lines from the terminal. The history of lines is kept only in memory: no history file contains the texts.

use std::sync::mpsc::{Sender, channel};

use rustyline::error::ReadlineError;
use rustyline::history::{History as _, MemHistory};
use rustyline::{Config, Editor as Rustyline};
use tokio::sync::mpsc;

/// The maximum number of lines in the history.
const HISTORY_LINES_MAX: usize = 1000;

/// A request to the editor's thread.
enum Request {
    /// Read a line, with this prompt. `plain` is the prompt without colors, which determines its width.
    Line { plain: String, styled: String },
    /// Add this line to the history.
    AddToHistory(String),
}

/// An input of the user, or its end.
pub(super) enum Input {
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D, or the terminal was closed.
    End,
    /// The editor failed.
    Failed(String),
}

/// The line editor, in its own thread, which blocks on keys.
pub(super) struct Editor {
    requests: Sender<Request>,
    input: mpsc::UnboundedReceiver<Input>,
}

impl Editor {
    pub(super) fn new() -> anyhow::Result<Self> {
        let config = Config::builder()
            .max_history_size(HISTORY_LINES_MAX)?
            .history_ignore_dups(true)?
            .auto_add_history(false)
            .build();
        let history = MemHistory::with_config(&config);
        let mut editor = Rustyline::<(), MemHistory>::with_history(config, history)?;
        let (requests, received) = channel();
        let (sender, input) = mpsc::unbounded_channel();
        // The thread is not joined: it may block on keys when the program ends.
        std::thread::spawn(move || {
            for request in received {
                let input = match request {
                    Request::AddToHistory(line) => {
                        // A line that the history refuses, such as a repeated one, is not added.
                        let _ = editor.history_mut().add_owned(line);
                        continue;
                    }
                    Request::Line { plain, styled } => read_line(&mut editor, plain, styled),
                };
                if sender.send(input).is_err() {
                    return;
                }
            }
        });
        Ok(Self { requests, input })
    }

    /// Requests a line, which [`next`](Self::next) returns.
    pub(super) fn request_line(&self, plain: String, styled: String) {
        // If the thread has ended, `next` reports it.
        let _ = self.requests.send(Request::Line { plain, styled });
    }

    /// Adds a line to the history.
    pub(super) fn add_to_history(&self, line: &str) {
        let _ = self.requests.send(Request::AddToHistory(line.to_owned()));
    }

    /// Waits for the next requested input. Cancel-safe: a dropped future consumes nothing.
    pub(super) async fn next(&mut self) -> Input {
        let thread_ended = || Input::Failed("the line editor has ended".to_owned());
        self.input.recv().await.unwrap_or_else(thread_ended)
    }
}

fn read_line(editor: &mut Rustyline<(), MemHistory>, plain: String, styled: String) -> Input {
    match editor.readline(&(plain, styled)) {
        Ok(line) => {
            if !line.trim().is_empty() {
                let _ = editor.history_mut().add(&line);
            }
            Input::Line(line)
        }
        Err(ReadlineError::Interrupted) => Input::Interrupt,
        Err(ReadlineError::Eof) => Input::End,
        Err(error) => Input::Failed(error.to_string()),
    }
}
