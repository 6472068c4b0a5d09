//! `filrouge export ID --source …`

use std::io::{self, IsTerminal, Write};

use filrouge_sources::library::export::{ExportError, Form, export};

use super::source::{library_error, query_and_close};
use crate::cli::{Export, ExportFormat};
use crate::config::{Config, sources::open_with_ledger};
use crate::open::Index;
use crate::output::{json_for_stdout, stdout};

pub(super) async fn run(config: &Config, args: Export) -> anyhow::Result<()> {
    let format = match args.format {
        ExportFormat::Md => Form::Markdown,
        ExportFormat::Html => Form::Html,
        ExportFormat::Json => Form::Json,
    };
    let opened = open_with_ledger(config, &args.sources.sources, Index::Unused).await?;
    let (id, mask) = (args.id, !args.unmasked);
    let written = query_and_close(opened, move |library| -> Result<(), ExportError> {
        let mut out = stdout();
        if format != Form::Json || !io::stdout().is_terminal() {
            export(library, &id, format, mask, &mut out)?;
            return Ok(out.flush()?);
        }
        let mut json = Vec::new();
        export(library, &id, format, mask, &mut json)?;
        out.write_all(json_for_stdout(&String::from_utf8_lossy(&json)).as_bytes())?;
        Ok(out.flush()?)
    });
    let (written, _) = written.await?;
    written.map_err(|error| match error {
        ExportError::Library(error) => library_error(error),
        // The I/O error is passed on unchanged: its cause reveals whether the reader closed the pipe.
        ExportError::Io(error) => error.into(),
    })
}
