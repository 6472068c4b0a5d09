//! `export_session`

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use filrouge_sources::library::export::{Form, export};
use rmcp::model::ResourceContents;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Count, Tool, page};
use crate::call::Call;
use crate::document::Window;
use crate::refusal::{Refusal, Result};
use crate::resources::session_uri;
use crate::text::{Readable, json_name, quoted_if_needed, write_end, write_quoted};

pub(super) struct ExportSession;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ExportArguments {
    /// The session; by default the one you are in, if it is known.
    #[serde(rename = "sessionID")]
    session_id: Option<String>,
    /// Markdown, one HTML page, JSON with every message and part, or PDF as an attached file; md by default.
    format: Option<Format>,
    /// The maximum number of characters on the page; by default the whole answer has at most 8 kB.
    max_chars: Option<Count>,
    /// nextCursor of the previous page: the concatenated pages are the document.
    cursor: Option<String>,
}

/// The format of a document.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    Md,
    Html,
    Json,
    Pdf,
}

/// A page of a document.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page {
    /// The session.
    #[serde(rename = "sessionID")]
    pub(crate) session_id: String,
    /// The program that recorded the session.
    pub(crate) source: String,
    /// The format.
    pub(crate) format: String,
    /// The characters of this page.
    pub(crate) content: String,
    /// The offset of the page in the document, in characters.
    pub(crate) offset: usize,
    /// The number of characters of the document.
    pub(crate) total_chars: usize,
    /// Continues after this page; `null` at the end.
    pub(crate) next_cursor: Option<String>,
    /// Notices for the reader.
    pub(crate) notices: Vec<String>,
    /// The document as a file; it has no pages.
    #[serde(skip)]
    pdf: Option<Vec<u8>>,
}

impl Page {
    /// Drops the last block of Markdown from a page, unless the page ends the document. The page may lack the end of a
    /// code span in this block; then a reader would take the span's content for Markdown.
    pub(crate) fn drop_last_block(&mut self) {
        let cursor = self.next_cursor.as_deref().map(ExportCursor::parse);
        let Some(Ok(mut cursor)) = cursor else {
            return;
        };
        // A blank line ends a block, also in a quote.
        let blank_lines = ["\n\n", "\n>\n"].map(|blank| self.content.rfind(blank));
        if let Some(end) = blank_lines.into_iter().flatten().max() {
            self.content.truncate(end + 1);
        }
        cursor.offset = self.offset + self.content.chars().count();
        self.next_cursor = Some(cursor.to_text());
    }
}

/// A cursor: the offset at which the next page of an exported document begins, and the time of the session's last
/// change. Its text is `md.40000.1766880000000.ses_1`: format, offset, time of the session's last change, session id.
struct ExportCursor {
    /// The session's id.
    session: String,
    format: Form,
    /// In characters.
    offset: usize,
    /// The time of the session's last change, in milliseconds since 1970.
    updated: i64,
}

impl ExportCursor {
    fn parse(cursor: &str) -> Result<Self> {
        let mut parts = cursor.splitn(4, '.');
        let mut next = || parts.next();
        let position = (|| {
            Some(Self {
                format: serde_json::from_value(next()?.into()).ok()?,
                offset: next()?.parse().ok()?,
                updated: next()?.parse().ok()?,
                session: next()?.to_owned(),
            })
        })();
        position.ok_or_else(|| {
            Refusal::invalid(
                "cursor: not a cursor of export_session",
                "give nextCursor unchanged, or leave cursor out to begin",
            )
        })
    }

    fn to_text(&self) -> String {
        let (form, offset, updated) = (json_name(&self.format), self.offset, self.updated);
        format!("{form}.{offset}.{updated}.{}", self.session)
    }
}

/// Exports the session `session_id` and returns one page of the document: `chars` characters from the position of
/// `cursor` on. No `cursor` means the first page; no `format` means the cursor's format, or Markdown.
///
/// # Errors
/// [`Refusal`] for an unknown session, or a cursor that is malformed, belongs to another session or format, or is after
/// the end of the document.
pub(crate) fn export_page(
    call: &Call<'_>,
    session_id: &str,
    format: Option<Form>,
    cursor: Option<&str>,
    chars: usize,
) -> Result<Page> {
    let catalog = call.library.catalog();
    let header = catalog.get(session_id)?.header.clone();
    let position = cursor.map(ExportCursor::parse).transpose()?;
    if let Some(position) = &position
        && position.session != session_id
    {
        return Err(Refusal::invalid(
            format!("cursor: it continues session {:?}", position.session),
            "give that sessionID with it, or leave cursor out to begin",
        ));
    }
    let cursor_format = position.as_ref().map(|position| position.format);
    if let (Some(cursor_format), Some(requested)) = (cursor_format, format)
        && cursor_format != requested
    {
        let (own, other) = (json_name(&cursor_format), json_name(&requested));
        return Err(Refusal::invalid(
            format!("cursor: it continues {own}, not {other}"),
            "leave format out, or cursor",
        ));
    }
    let format = cursor_format.or(format).unwrap_or_default();
    let offset = position.as_ref().map_or(0, |position| position.offset);
    let mut window = Window::new(offset, chars, call.stopped);
    export(call.library, session_id, format, true, &mut window)?;
    let total = window.total();
    if offset > 0 && offset >= total {
        return Err(Refusal::invalid(
            format!("cursor: it starts after the end, at character {offset} of {total}"),
            "the session may have changed; leave cursor out to start again",
        ));
    }
    let mut notices = Vec::new();
    if position.is_some_and(|position| position.updated != header.updated) {
        notices.push(
            "the session has changed since the previous page; start again for a consistent document"
                .to_owned(),
        );
    }
    let next = window.next_page_start().map(|offset| ExportCursor {
        session: session_id.to_owned(),
        format,
        offset,
        updated: header.updated,
    });
    if let Some(next) = &next {
        let end = next.offset;
        notices.push(format!(
            "cut after character {end} of {total}; nextCursor continues"
        ));
    }
    Ok(Page {
        session_id: session_id.to_owned(),
        source: header.source.to_owned(),
        format: json_name(&format),
        content: window.text(),
        offset,
        total_chars: total,
        next_cursor: next.map(|next| next.to_text()),
        notices,
        pdf: None,
    })
}

/// Exports the session `session_id` as a PDF file.
///
/// # Errors
/// [`Refusal`] for an unknown session, and `pdf_unavailable` if nothing can print it.
fn export_pdf(call: &Call<'_>, session_id: &str) -> Result<Page> {
    let unavailable = |why: String| Refusal::new("pdf_unavailable", why, "export html instead");
    let Some(print) = call.print_pdf else {
        return Err(unavailable("this server prints no PDF".to_owned()));
    };
    let catalog = call.library.catalog();
    let source = catalog.get(session_id)?.header.source.to_owned();
    let mut html = Vec::new();
    export(call.library, session_id, Form::Html, true, &mut html)?;
    let pdf = print(&String::from_utf8_lossy(&html)).map_err(unavailable)?;
    Ok(Page {
        session_id: session_id.to_owned(),
        source,
        format: "pdf".to_owned(),
        content: String::new(),
        offset: 0,
        total_chars: 0,
        next_cursor: None,
        notices: vec![format!("the PDF is attached: {} bytes", pdf.len())],
        pdf: Some(pdf),
    })
}

impl Tool for ExportSession {
    const NAME: &'static str = "export_session";
    const TITLE: &'static str = "Export a session";
    const DESCRIPTION: &'static str = "Writes a session as one document to keep or to show somebody: Markdown, HTML or JSON, a page at a time, or PDF. \
        To read it yourself, get_session_history is shorter.";
    type Arguments = ExportArguments;
    type Answer = Page;

    fn answer(call: &Call<'_>, arguments: ExportArguments) -> Result<Page> {
        let session = call.resolve_session(arguments.session_id.as_deref())?;
        let cursor = arguments.cursor.as_deref();
        let form = match arguments.format {
            None => None,
            Some(Format::Md) => Some(Form::Markdown),
            Some(Format::Html) => Some(Form::Html),
            Some(Format::Json) => Some(Form::Json),
            Some(Format::Pdf) => return export_pdf(call, &session),
        };
        page(arguments.max_chars, |chars| {
            export_page(call, &session, form, cursor, chars)
        })
    }
}

impl Readable for Page {
    fn origin(&self) -> String {
        self.source.clone()
    }

    fn conversation(&self) -> Option<(&str, Option<usize>)> {
        Some((&self.session_id, None))
    }

    fn attachment(&self) -> Option<ResourceContents> {
        let pdf = BASE64.encode(self.pdf.as_ref()?);
        let resource = ResourceContents::blob(pdf, session_uri(&self.session_id));
        Some(resource.with_mime_type("application/pdf"))
    }

    fn write(&self, out: &mut String) {
        let (id, form) = (quoted_if_needed(&self.session_id), &self.format);
        let char_count = self.content.chars().count();
        let (first, last, total) = (self.offset, self.offset + char_count, self.total_chars);
        let _ = writeln!(
            out,
            "Session {id} as {form}, characters {first} to {last} of {total}, each line after `> `:"
        );
        write_quoted(out, &self.content);
        write_end(out, &self.notices, "More", self.next_cursor.as_deref());
    }
}
