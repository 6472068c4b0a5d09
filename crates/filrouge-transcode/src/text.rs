//! Contents as text, for where a provider takes nothing else.

use std::borrow::Cow;

use filrouge_engine::restore::{Content, Fates, Say};
use filrouge_types::JsonText;

use crate::json;
use crate::media;

/// What stands before a summary of older turns.
const SUMMARY: &str = "[Summary of the earlier conversation]\\n";

/// What stands in for a text that shows nothing.
const BLANK: &str = "[blank]";

/// A text that is not written yet.
#[derive(Debug)]
pub(crate) enum Text<'a> {
    /// Escaped already.
    Token(&'a JsonText),
    /// Not escaped.
    Plain(Cow<'a, str>),
    /// A summary, escaped already.
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

/// Notes a change of an item, if there is an item.
pub(crate) fn note(fates: &mut Fates, seq: Option<u64>, change: &'static str) {
    if let Some(seq) = seq {
        fates.adapt(seq, change);
    }
}

/// A plan holds no blank text; one of ASCII separators alone is blank to some providers all the same.
fn visible<'a>(token: &'a JsonText, seq: Option<u64>, fates: &mut Fates) -> Text<'a> {
    if json::trim_end(token.inner()).is_empty() {
        note(fates, seq, "blank_as_text");
        return Text::Plain(Cow::Borrowed(BLANK));
    }
    Text::Token(token)
}

/// `content` of item `seq` as text; what was no text is noted.
pub(crate) fn spell<'a>(content: &'a Content, seq: Option<u64>, fates: &mut Fates) -> Text<'a> {
    match content {
        Content::Text(token) => visible(token, seq, fates),
        Content::Summary(token) => Text::Summary(token),
        Content::Mark(mark) => Text::Plain(Cow::Borrowed(mark.text())),
        Content::Refusal(token) => {
            note(fates, seq, "refusal_as_text");
            visible(token, seq, fates)
        }
        Content::Image(image) => {
            note(fates, seq, "image_as_text");
            Text::Plain(media::placeholder("image", image).into())
        }
        Content::File(file) => {
            note(fates, seq, "file_as_text");
            let text = media::textual(file).unwrap_or_else(|| media::placeholder("file", file));
            Text::Plain(text.into())
        }
    }
}

/// Appends texts as the inside of one JSON string, a line feed between them; `false` when there is none.
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

/// Appends a note of the application as the inside of a JSON string, for providers that know no such speaker in a
/// history.
pub(crate) fn push_note(say: &Say, fates: &mut Fates, out: &mut String) {
    note(fates, say.seq, "note_as_user_text");
    out.push_str("<system_note>\\n");
    let texts = say.contents.iter().map(|c| spell(c, say.seq, fates));
    join(out, texts);
    out.push_str("\\n</system_note>");
}
