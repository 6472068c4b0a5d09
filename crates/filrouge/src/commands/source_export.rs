//! `filrouge export ID --source …`

use std::io::{self, IsTerminal, Write};

use filrouge_sources::library::export::{ExportError, Form, export};

use super::export::write_pdf;
use super::named_session::in_library;
use super::source::{library_error, query_and_close};
use crate::cli::{Export, ExportFormat};
use crate::config::{Config, sources::open_with_ledger};
use crate::open::Index;
use crate::output::{json_for_stdout, stdout, text_for_stdout};

pub(super) async fn run(config: &Config, args: Export) -> anyhow::Result<()> {
    let format = match args.format {
        ExportFormat::Md => Form::Markdown,
        ExportFormat::Html | ExportFormat::Pdf => Form::Html,
        ExportFormat::Json => Form::Json,
    };
    let is_pdf = matches!(args.format, ExportFormat::Pdf);
    let opened = open_with_ledger(config, &args.sources.sources, Index::Unused).await?;
    let (id, mask) = (args.id, !args.unmasked);
    let written = query_and_close(opened, move |library| -> Result<Vec<u8>, ExportError> {
        let (mut page, id) = (Vec::new(), in_library(library, id)?);
        if is_pdf {
            export(library, &id, format, mask, &mut page)?;
            return Ok(page);
        }
        let mut out = stdout();
        if io::stdout().is_terminal() {
            export(library, &id, format, mask, &mut page)?;
            let text = String::from_utf8_lossy(&page);
            let shown = match format {
                Form::Json => json_for_stdout(&text),
                Form::Markdown | Form::Html => text_for_stdout(&text),
            };
            out.write_all(shown.as_bytes())?;
        } else {
            export(library, &id, format, mask, &mut out)?;
        }
        out.flush()?;
        Ok(page)
    });
    let (written, _) = written.await?;
    let page = written.map_err(|error| match error {
        ExportError::Library(error) => library_error(error),
        // The I/O error is passed on unchanged: its cause reveals whether the reader closed the pipe.
        ExportError::Io(error) => error.into(),
    })?;
    match is_pdf {
        true => write_pdf(String::from_utf8_lossy(&page).into_owned()).await,
        false => Ok(()),
    }
}
