//! Contents as text, where a provider accepts nothing else.

use std::borrow::Cow;

use filrouge_engine::restore::{Content, Dispositions, Say};
use filrouge_types::JsonText;

use crate::json;
use crate::media;

/// The text before a summary of older turns.
const SUMMARY: &str = "[Summary of the earlier conversation]\\n";

/// The text that replaces a blank text.
const BLANK: &str = "[blank]";

/// A text that is not written yet.
#[derive(Debug)]
pub(crate) enum Text<'a> {
    /// The text is already escaped.
    Token(&'a JsonText),
    /// The text is not escaped.
    Plain(Cow<'a, str>),
    /// The text is a summary that is already escaped.
    Summary(&'a JsonText),
}

impl Text<'_> {
    /// Appends the inside of the JSON string.
    pub(crate) fn push(&self, out: &mut String) {
        match self {
            Self::Token(token) => out.push_str(token.inner()),
            Self::Plain(plain) => json::escape(out, plain),
            Self::Summary(token) => {
                out.push_str(SUMMARY);
                out.push_str(token.inner());
            }
        }
    }
}

/// Reports a change of an item, if there is an item.
pub(crate) fn note(dispositions: &mut Dispositions, seq: Option<u64>, change: &'static str) {
    if let Some(seq) = seq {
        dispositions.adapt(seq, change);
    }
}

/// A plan has no blank text, but some providers also count text of ASCII separators alone as blank.
fn visible<'a>(token: &'a JsonText, seq: Option<u64>, dispositions: &mut Dispositions) -> Text<'a> {
    if json::trim_end(token.inner()).is_empty() {
        note(dispositions, seq, "blank_as_text");
        return Text::Plain(Cow::Borrowed(BLANK));
    }
    Text::Token(token)
}

/// `content` of item `seq` as text; reports content that was not text.
pub(crate) fn as_text<'a>(
    content: &'a Content,
    seq: Option<u64>,
    dispositions: &mut Dispositions,
) -> Text<'a> {
    match content {
        Content::Text(token) => visible(token, seq, dispositions),
        Content::Summary(token) => Text::Summary(token),
        Content::Mark(mark) => Text::Plain(Cow::Borrowed(mark.text())),
        Content::Refusal(token) => {
            note(dispositions, seq, "refusal_as_text");
            visible(token, seq, dispositions)
        }
        Content::Image(image) => {
            note(dispositions, seq, "image_as_text");
            Text::Plain(media::placeholder("image", image).into())
        }
        Content::File(file) => {
            note(dispositions, seq, "file_as_text");
            let text = media::textual(file).unwrap_or_else(|| media::placeholder("file", file));
            Text::Plain(text.into())
        }
    }
}

/// Appends texts as the content of one JSON string, separated by line feeds; `false` if there is none.
pub(crate) fn join<'a>(out: &mut String, texts: impl Iterator<Item = Text<'a>>) -> bool {
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

/// Appends a note of the application as the content of a JSON string, for providers that have no such speaker in a history.
pub(crate) fn push_note(say: &Say, dispositions: &mut Dispositions, out: &mut String) {
    note(dispositions, say.seq, "note_as_user_text");
    out.push_str("<system_note>\\n");
    let texts = say
        .contents
        .iter()
        .map(|c| as_text(c, say.seq, dispositions));
    join(out, texts);
    out.push_str("\\n</system_note>");
}
