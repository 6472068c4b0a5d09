//! Lines typed at the terminal. What was typed is kept in memory alone: what is said belongs into the ledger.

use std::sync::mpsc::{Sender, channel};

use rustyline::error::ReadlineError;
use rustyline::history::{History as _, MemHistory};
use rustyline::{Config, Editor as Rustyline, Prompt};
use tokio::sync::mpsc;

/// Lines that can be taken up again.
const LINES: usize = 1000;

/// What the thread is asked for.
enum Request {
    Line { plain: String, styled: String },
    Remember(String),
}

/// What was typed.
pub(super) enum Typed {
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D, or the terminal is gone.
    End,
    /// Nothing can be typed any more.
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

/// The line editor, in a thread of its own: it waits for keys.
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
        let (requests, asked) = channel();
        let (tell, typed) = mpsc::unbounded_channel();
        // The thread is left behind when the program ends while somebody types.
        std::thread::spawn(move || {
            for request in asked {
                let typed = match request {
                    Request::Remember(line) => {
                        // What cannot be taken up again is no loss.
                        let _ = editor.history_mut().add_owned(line);
                        continue;
                    }
                    Request::Line { plain, styled } => line(&mut editor, plain, styled),
                };
                if tell.send(typed).is_err() {
                    return;
                }
            }
        });
        Ok(Self { requests, typed })
    }

    /// Asks for a line, which [`next`](Self::next) gives.
    pub(super) fn ask(&self, plain: String, styled: String) {
        // A thread that has ended is told by `next`.
        let _ = self.requests.send(Request::Line { plain, styled });
    }

    /// Takes a line into what can be taken up again.
    pub(super) fn remember(&self, line: &str) {
        let _ = self.requests.send(Request::Remember(line.to_owned()));
    }

    /// What was typed. Dropped, it has taken nothing.
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
