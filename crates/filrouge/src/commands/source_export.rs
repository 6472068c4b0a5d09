//! `filrouge export ID --source …`

use std::io::Write;

use filrouge_sources::library::export::{ExportError, Form, export};

use super::source::{library_error, unlisted};
use crate::cli::{Export, ExportFormat};
use crate::config::{Config, sources::open_with_ledger};
use crate::open::Index;
use crate::output::{say, stdout};

pub(super) async fn run(config: &Config, args: Export) -> anyhow::Result<()> {
    let form = match args.format {
        ExportFormat::Md => Form::Markdown,
        ExportFormat::Html => Form::Html,
        ExportFormat::Json => Form::Json,
    };
    let opened = open_with_ledger(config, &args.sources.sources, Index::Unused).await?;
    for note in &opened.found.notes {
        say(note);
    }
    let (id, mask) = (args.id, !args.unmasked);
    let written = opened.query(move |library| {
        let mut out = stdout();
        let written = export(library, &id, form, mask, &mut out);
        let written = written.and_then(|()| Ok(out.flush()?));
        (written, unlisted(library))
    });
    let written = written.await;
    opened.close().await;
    let (written, unlisted) = written?;
    unlisted.check()?;
    written.map_err(|error| match error {
        ExportError::Library(why) => library_error(why),
        // The I/O error is passed on unchanged: its cause reveals whether the reader closed the pipe.
        ExportError::Io(why) => why.into(),
    })?;
    Ok(())
}
