//! `export_session`

use std::fmt::Write as _;

use filrouge_sources::library::export::{Form, export};
use filrouge_sources::library::history::MAX_CHARS;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Count, Tool, budget};
use crate::call::Call;
use crate::document::Window;
use crate::refusal::Refusal;
use crate::text::{Readable, end, kind, quote, word};

pub(super) struct ExportSession;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Arguments {
    /// The session; left out: the one you are in, where that can be told.
    #[serde(rename = "sessionID")]
    session_id: Option<String>,
    /// Markdown, one HTML page, or JSON with every message and part; md when left out.
    #[schemars(with = "Option<String>", extend("enum" = ["md", "html", "json"]))]
    format: Option<Form>,
    /// At most so many characters of the document; 40,000 when left out.
    max_chars: Option<Count>,
    /// nextCursor of the page before: the pages put together are the document.
    cursor: Option<String>,
}

/// A page of a document.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page {
    /// The session.
    #[serde(rename = "sessionID")]
    pub(crate) session_id: String,
    /// The program that wrote it.
    pub(crate) source: String,
    /// The form.
    #[schemars(with = "String", extend("enum" = ["md", "html", "json"]))]
    pub(crate) format: Form,
    /// The characters of this page.
    pub(crate) content: String,
    /// Where in the document the page begins, in characters.
    pub(crate) offset: usize,
    /// How many characters the document has.
    pub(crate) total_chars: usize,
    /// Goes on behind this page; `null` at the end.
    pub(crate) next_cursor: Option<String>,
    /// What to know of it, in words.
    pub(crate) notices: Vec<String>,
}

/// A place in a document of a session as it was. Written `md.40000.1766880000000.ses_1`: form, characters before,
/// when the session had changed, and its id.
struct Place {
    session: String,
    format: Form,
    offset: usize,
    updated: i64,
}

impl Place {
    fn read(cursor: &str) -> Result<Self, Refusal> {
        let mut parts = cursor.splitn(4, '.');
        let mut next = || parts.next();
        let place = (|| {
            let format = match next()? {
                "md" => Form::Markdown,
                "html" => Form::Html,
                "json" => Form::Json,
                _ => return None,
            };
            let offset = next()?.parse().ok()?;
            let updated = next()?.parse().ok()?;
            let session = next()?.to_owned();
            Some(Self {
                session,
                format,
                offset,
                updated,
            })
        })();
        place.ok_or_else(|| {
            Refusal::invalid(
                "cursor: this is no cursor of export_session",
                "give nextCursor as it was answered, or leave cursor out to begin",
            )
        })
    }

    fn write(&self) -> String {
        let (form, offset, updated) = (kind(&self.format), self.offset, self.updated);
        format!("{form}.{offset}.{updated}.{}", self.session)
    }
}

/// A page of `session_id` as a document.
pub(crate) fn page(
    call: &Call<'_>,
    session_id: &str,
    format: Option<Form>,
    cursor: Option<&str>,
    chars: usize,
) -> Result<Page, Refusal> {
    let catalog = call.library.catalog();
    let header = catalog.get(session_id)?.header.clone();
    let place = cursor.map(Place::read).transpose()?;
    if let Some(other) = place.as_ref().filter(|place| place.session != session_id) {
        return Err(Refusal::invalid(
            format!("cursor: it goes on in session {:?}", other.session),
            "give that sessionID with it, or leave cursor out to begin",
        ));
    }
    let given = place.as_ref().map(|place| place.format);
    if let (Some(given), Some(asked)) = (given, format)
        && given != asked
    {
        return Err(Refusal::invalid(
            format!(
                "cursor: it goes on in {}, not {}",
                kind(&given),
                kind(&asked)
            ),
            "leave format out, or cursor",
        ));
    }
    let format = given.or(format).unwrap_or_default();
    let offset = place.as_ref().map_or(0, |place| place.offset);
    let chars = if chars == 0 { MAX_CHARS } else { chars };
    let mut window = Window::new(offset, chars, call.stopped);
    export(call.library, session_id, format, true, &mut window)?;
    let total = window.total();
    if offset > 0 && offset >= total {
        return Err(Refusal::invalid(
            format!("cursor: it begins behind the end, at character {offset} of {total}"),
            "the session may have changed; leave cursor out to begin anew",
        ));
    }
    let mut notices = Vec::new();
    if place.is_some_and(|place| place.updated != header.updated) {
        notices.push(
            "the session has changed since the page before; begin anew for a document of one moment"
                .to_owned(),
        );
    }
    let next = window.next().map(|offset| Place {
        session: session_id.to_owned(),
        format,
        offset,
        updated: header.updated,
    });
    if let Some(next) = &next {
        let (end, total) = (next.offset, window.total());
        notices.push(format!(
            "cut behind character {end} of {total}; nextCursor goes on"
        ));
    }
    Ok(Page {
        session_id: session_id.to_owned(),
        source: header.source.to_owned(),
        format,
        content: window.text(),
        offset,
        total_chars: window.total(),
        next_cursor: next.map(|next| next.write()),
        notices,
    })
}

impl Tool for ExportSession {
    const NAME: &'static str = "export_session";
    const TITLE: &'static str = "Export a session";
    const DESCRIPTION: &'static str = "Writes a session as one document to keep or to show somebody: Markdown, HTML or JSON, a page at a time. \
        To read it yourself, get_session_history is shorter.";
    type Arguments = Arguments;
    type Answer = Page;

    fn answer(call: &Call<'_>, arguments: Arguments) -> Result<Page, Refusal> {
        let session = call.session(arguments.session_id.as_deref())?;
        let cursor = arguments.cursor.as_deref();
        let chars = budget(arguments.max_chars)?;
        page(call, &session, arguments.format, cursor, chars)
    }
}

impl Readable for Page {
    fn origin(&self) -> String {
        self.source.clone()
    }

    fn write(&self, out: &mut String) {
        let (id, form) = (word(&self.session_id), kind(&self.format));
        let shown = self.content.chars().count();
        let (first, last, total) = (self.offset, self.offset + shown, self.total_chars);
        let _ = writeln!(
            out,
            "Session {id} as {form}, characters {first} to {last} of {total}, each line behind `> `:"
        );
        quote(out, &self.content);
        let next = self.next_cursor.as_deref();
        end(out, &self.notices, next.map(|cursor| ("More", cursor)));
    }
}
