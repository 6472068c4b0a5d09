//! Writes contents as text, where a provider accepts nothing but text.

use std::borrow::Cow;

use filrouge_engine::restore::{Content, Dispositions, Message};
use filrouge_types::JsonText;

use crate::json;
use crate::media;

/// The heading before a summary of older turns, escaped as in a JSON string.
const SUMMARY_HEADING: &str = "[Summary of the earlier conversation]\\n";

/// The text that replaces a blank text.
const BLANK: &str = "[blank]";

/// A text that will be written inside a JSON string.
#[derive(Debug)]
pub(crate) enum Text<'a> {
    /// The text is already escaped.
    Token(&'a JsonText),
    /// The text is not escaped.
    Plain(Cow<'a, str>),
    /// The text is a summary of older turns that is already escaped; its heading is added.
    Summary(&'a JsonText),
}

impl Text<'_> {
    /// Appends the escaped text, without quotes.
    pub(crate) fn push(&self, out: &mut String) {
        match self {
            Self::Token(token) => out.push_str(token.inner()),
            Self::Plain(plain) => json::push_escaped(out, plain),
            Self::Summary(token) => {
                out.push_str(SUMMARY_HEADING);
                out.push_str(token.inner());
            }
        }
    }

    /// Appends the text as a part of the type `kind`: an object with the members `type` and `text`.
    pub(crate) fn push_part(&self, kind: &str, out: &mut String) {
        out.push_str("{\"type\":\"");
        out.push_str(kind);
        out.push_str("\",\"text\":\"");
        self.push(out);
        out.push_str("\"}");
    }
}

/// Reports that the item `seq` was changed in the way that `change` names. Without a seq, there is no item and no
/// report.
pub(crate) fn report_change(
    dispositions: &mut Dispositions,
    seq: Option<u64>,
    change: &'static str,
) {
    if let Some(seq) = seq {
        dispositions.adapt(seq, change);
    }
}

/// The text itself, or [`BLANK`] for a text of white space and ASCII separators alone. A plan contains no text of white
/// space alone, but some providers also refuse ASCII separators as blank.
fn non_blank<'a>(
    token: &'a JsonText,
    seq: Option<u64>,
    dispositions: &mut Dispositions,
) -> Text<'a> {
    if json::trim_end(token.inner()).is_empty() {
        report_change(dispositions, seq, "blank_as_text");
        return Text::Plain(Cow::Borrowed(BLANK));
    }
    Text::Token(token)
}

/// The content of item `seq` as text; reports content that was not text.
pub(crate) fn as_text<'a>(
    content: &'a Content,
    seq: Option<u64>,
    dispositions: &mut Dispositions,
) -> Text<'a> {
    match content {
        Content::Text(token) => non_blank(token, seq, dispositions),
        Content::Summary(token) => Text::Summary(token),
        Content::Mark(mark) => Text::Plain(Cow::Borrowed(mark.text())),
        Content::Refusal(token) => {
            report_change(dispositions, seq, "refusal_as_text");
            non_blank(token, seq, dispositions)
        }
        Content::Image(image) => {
            report_change(dispositions, seq, "image_as_text");
            Text::Plain(media::placeholder("image", image).into())
        }
        Content::File(file) => {
            report_change(dispositions, seq, "file_as_text");
            let text =
                media::text_with_heading(file).unwrap_or_else(|| media::placeholder("file", file));
            Text::Plain(text.into())
        }
    }
}

/// Appends texts as the content of one JSON string, separated by line feeds; `false` if there is none.
pub(crate) fn push_joined<'a>(out: &mut String, texts: impl Iterator<Item = Text<'a>>) -> bool {
    let mut any = false;
    for text in texts {
        if any {
            out.push_str("\\n");
        }
        text.push(out);
        any = true;
    }
    any
}

/// Appends a note of the application as the content of a JSON string, for providers whose histories have no role for
/// the application.
pub(crate) fn push_note(message: &Message, dispositions: &mut Dispositions, out: &mut String) {
    report_change(dispositions, message.seq, "note_as_user_text");
    out.push_str("<system_note>\\n");
    let texts = message
        .contents
        .iter()
        .map(|c| as_text(c, message.seq, dispositions));
    push_joined(out, texts);
    out.push_str("\\n</system_note>");
}
