//! `filrouge export ID --source …`

use std::io::Write;

use filrouge_sources::library::export::{ExportError, Form, export};

use super::source::{refused, unlisted};
use crate::cli::{Export, ExportFormat};
use crate::config::{Config, sources::everything};
use crate::open::Index;
use crate::output::{say, stdout};

pub(super) async fn run(config: &Config, asked: Export) -> anyhow::Result<()> {
    let form = match asked.format {
        ExportFormat::Md => Form::Markdown,
        ExportFormat::Html => Form::Html,
        ExportFormat::Json => Form::Json,
    };
    let all = everything(config, &asked.sources.sources, Index::Unused).await?;
    for note in &all.found.notes {
        say(note);
    }
    let (id, mask) = (asked.id, !asked.unmasked);
    let written = all.ask(move |library| {
        let mut out = stdout();
        let written = export(library, &id, form, mask, &mut out);
        let written = written.and_then(|()| Ok(out.flush()?));
        (written, unlisted(library))
    });
    let written = written.await;
    all.close().await;
    let (written, unlisted) = written?;
    unlisted.told()?;
    written.map_err(|error| match error {
        ExportError::Library(why) => refused(why),
        // A reader that has gone away is told by its cause.
        ExportError::Io(why) => why.into(),
    })?;
    Ok(())
}
