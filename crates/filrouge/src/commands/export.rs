//! `filrouge export ID --format md|html|pdf|json`

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::sync::{Arc, Mutex};

use filrouge_document::{html, markdown};
use filrouge_engine::{Caller, Engine};
use filrouge_types::{ErrorCode, Failure, Recorded, SessionId, lock};

use super::named_session::in_ledger;
use crate::cli::ExportFormat;
use crate::config::Config;
use crate::exit::{Usage, parse};
use crate::open::{IfMissing, with};
use crate::output::{json_for_stdout, print, text_for_stdout};
use crate::pdf::print_pdf;

pub(super) async fn run(config: &Config, id: &str, format: ExportFormat) -> anyhow::Result<()> {
    let id: SessionId = parse(id)?;
    with(config, IfMissing::Fail, async |opened, caller| {
        let id = in_ledger(&opened.engine, caller, id).await?;
        let state = SinkState {
            out: BufWriter::new(io::stdout()),
            is_json: matches!(format, ExportFormat::Json),
            error: None,
        };
        let (engine, mut out) = (&opened.engine, StdoutSink(Arc::new(Mutex::new(state))));
        let written = match format {
            ExportFormat::Json => write_bundle(engine, caller, &id, &out).await,
            ExportFormat::Md => write_document(engine, caller, &id, &mut out, markdown).await,
            ExportFormat::Html => write_document(engine, caller, &id, &mut out, html).await,
            ExportFormat::Pdf => {
                let recorded = engine.context.conversation(caller, &id).await?;
                let mut page = String::new();
                html(&recorded, &mut page).map_err(write_failure)?;
                return write_pdf(page).await;
            }
        };
        out.finish(written)
    })
    .await
}

/// Stdout for writers that cannot return an I/O error. Keeps the error until [`Self::finish`] returns it. Clones write
/// to the same stdout.
#[derive(Clone)]
struct StdoutSink(Arc<Mutex<SinkState>>);

struct SinkState {
    out: BufWriter<Stdout>,
    is_json: bool,
    error: Option<io::Error>,
}

impl StdoutSink {
    /// Flushes stdout. Returns the I/O error of stdout, which caused the failure of `written`; without one, the failure
    /// of `written`.
    fn finish(&self, written: Result<(), Failure>) -> anyhow::Result<()> {
        let mut state = lock(&self.0);
        if let Some(error) = state.error.take() {
            return Err(error.into());
        }
        written?;
        state.out.flush()?;
        Ok(())
    }
}

impl fmt::Write for StdoutSink {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut state = lock(&self.0);
        let shown = match state.is_json {
            true => json_for_stdout(text),
            false => text_for_stdout(text),
        };
        state.out.write_all(shown.as_bytes()).map_err(|e| {
            state.error = Some(e);
            fmt::Error
        })
    }
}

/// Writes an HTML document to stdout as PDF.
///
/// # Errors
/// [`Usage`] if stdout is a terminal, and the errors of [`print_pdf`].
pub(super) async fn write_pdf(page: String) -> anyhow::Result<()> {
    if io::stdout().is_terminal() {
        let usage = Usage::new("a PDF is not for a terminal");
        return Err(usage
            .with_hint("redirect it into a file: > session.pdf")
            .into());
    }
    let pdf = tokio::task::spawn_blocking(move || print_pdf(&page)).await??;
    print(|out| out.write_all(&pdf))
}

fn write_failure(_: fmt::Error) -> Failure {
    Failure::new(ErrorCode::Internal, "the output cannot be written")
}

async fn write_bundle(
    engine: &Engine,
    caller: &Caller,
    id: &SessionId,
    out: &StdoutSink,
) -> Result<(), Failure> {
    let mut out = out.clone();
    let sink =
        Box::new(move |text: &str| fmt::Write::write_str(&mut out, text).map_err(write_failure));
    engine.bundles.export(caller, id, sink).await.map(drop)
}

async fn write_document(
    engine: &Engine,
    caller: &Caller,
    id: &SessionId,
    out: &mut StdoutSink,
    write: fn(&Recorded, &mut dyn fmt::Write) -> fmt::Result,
) -> Result<(), Failure> {
    let recorded = engine.context.conversation(caller, id).await?;
    write(&recorded, out).map_err(write_failure)
}
