//! Signals that stop a turn or the program.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal that asks to stop a turn or the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopRequest {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP: the terminal was closed.
    Hangup,
}

impl StopRequest {
    /// The exit code that a shell reports for a program ended by this signal.
    pub(super) const fn exit_code(self) -> u8 {
        match self {
            Self::Hangup => 129,
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// Receives the signals of [`StopRequest`]. After [`Self::install`], they no longer end the process.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    pub(super) fn install() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal. Cancel-safe: a dropped future consumes none.
    pub(super) async fn next(&mut self) -> StopRequest {
        tokio::select! {
            _ = self.interrupt.recv() => StopRequest::Interrupt,
            _ = self.terminate.recv() => StopRequest::Terminate,
            _ = self.hangup.recv() => StopRequest::Hangup,
        }
    }
}
