//! `filrouge export ID --format md|html|json`

use std::fmt;
use std::io::{self, BufWriter, Stdout, Write};
use std::sync::{Arc, Mutex, PoisonError};

use filrouge_document::{html, markdown};
use filrouge_engine::Caller;
use filrouge_engine::Engine;
use filrouge_types::{ErrorCode, Failure, Recorded, SessionId};

use crate::cli::ExportFormat;
use crate::config::Config;
use crate::exit::parsed;
use crate::open::{Need, with};

pub(super) async fn run(config: &Config, id: &str, format: ExportFormat) -> anyhow::Result<()> {
    let id: SessionId = parsed(id)?;
    with(config, Need::Existing, async |opened, caller| {
        let (engine, mut out) = (&opened.engine, Output::default());
        let written = match format {
            ExportFormat::Json => bundle(engine, caller, &id, &out).await,
            ExportFormat::Md => document(engine, caller, &id, &mut out, markdown).await,
            ExportFormat::Html => document(engine, caller, &id, &mut out, html).await,
        };
        out.finish(written)
    })
    .await
}

/// Stdout for writers that cannot return an I/O error. The error is kept until [`Self::finish`] returns it. Clones
/// write to the same stdout.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Inner>>);

struct Inner {
    out: BufWriter<Stdout>,
    failed: Option<io::Error>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            out: BufWriter::new(io::stdout()),
            failed: None,
        }
    }
}

impl Output {
    fn write(&self, text: &str) -> Result<(), fmt::Error> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.out.write_all(text.as_bytes()).map_err(|e| {
            inner.failed = Some(e);
            fmt::Error
        })
    }

    /// Flushes stdout. Returns the I/O error of stdout if there was one, because that error caused the failure of
    /// `written`; else the failure of `written`.
    fn finish(&self, written: Result<(), Failure>) -> anyhow::Result<()> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = inner.failed.take() {
            return Err(error.into());
        }
        written?;
        inner.out.flush()?;
        Ok(())
    }
}

impl fmt::Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.write(text)
    }
}

fn not_written(_: fmt::Error) -> Failure {
    Failure::new(ErrorCode::Internal, "the output cannot be written")
}

async fn bundle(
    engine: &Engine,
    caller: &Caller,
    id: &SessionId,
    out: &Output,
) -> Result<(), Failure> {
    let out = out.clone();
    let sink = Box::new(move |text: &str| out.write(text).map_err(not_written));
    engine.bundles.export(caller, id, sink).await
}

async fn document(
    engine: &Engine,
    caller: &Caller,
    id: &SessionId,
    out: &mut Output,
    write: fn(&Recorded, &mut dyn fmt::Write) -> fmt::Result,
) -> Result<(), Failure> {
    let recorded = engine.context.conversation(caller, id).await?;
    write(&recorded, out).map_err(not_written)
}
