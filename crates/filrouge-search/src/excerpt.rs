//! Builds the excerpts of documents that a search result shows.

use std::ops::Range;

use filrouge_sources::library::clean;

use crate::answer::Excerpt;
use crate::cutting;
use crate::fields::Field;
use crate::matcher::Matcher;
use crate::search_document::{Piece, SearchDocument};
use crate::term::FoldedText;
use crate::unescaped_json::UnescapedJson;

/// The offset of a match in characters, the excerpt around it, and the range of the match in the excerpt.
type Cut = (usize, String, Option<Range<usize>>);

/// Builds excerpts.
pub(crate) struct ExcerptBuilder<'a> {
    pub(crate) matcher: &'a Matcher<'a>,
    /// The id of the session whose documents are shown.
    pub(crate) session: &'a str,
    /// Whether credentials are masked.
    pub(crate) mask: bool,
    /// Whether the texts come from the ledger. Only then do excerpts have a seq.
    pub(crate) is_ledger: bool,
}

impl ExcerptBuilder<'_> {
    /// Builds the excerpts of a message or a title: one for each term of the query that the document contains. A match
    /// that the excerpt before it already shows gets no excerpt of its own. For a query that has only filters, the
    /// excerpt is the beginning of the first text.
    pub(crate) fn match_excerpts(&self, doc: &SearchDocument<'_>) -> Vec<Excerpt> {
        let is_searched = |p: &&Piece<'_>| self.matcher.is_searched(p.field, p.tool.as_deref());
        let mut pieces = doc.pieces.iter().filter(is_searched);
        let (mut remaining, mut excerpts) = (self.matcher.required, Vec::new());
        if remaining == 0 {
            let first = pieces.find(|piece| !piece.text.trim().is_empty());
            return vec![self.beginning(doc, first)];
        }
        for piece in pieces {
            let mut cuts = self.cut(&piece.text, None, &mut remaining);
            let unescaped =
                UnescapedJson::new(&piece.text).filter(|_| remaining != 0 && piece.field.is_json());
            if let Some(unescaped) = unescaped {
                cuts.extend(self.cut(&piece.text, Some(&unescaped), &mut remaining));
            }
            let cuts = cuts.into_iter();
            excerpts.extend(cuts.map(|cut| self.excerpt(doc, Some(piece), cut)));
            if remaining == 0 {
                break;
            }
        }
        excerpts
    }

    /// Builds the excerpts of a message that was found by meaning. They show the terms of the query that the message
    /// contains or, if it contains none, its beginning.
    pub(crate) fn similar_excerpts(&self, doc: &SearchDocument<'_>) -> Vec<Excerpt> {
        let excerpts = match self.matcher.required {
            0 => Vec::new(),
            _ => self.match_excerpts(doc),
        };
        match excerpts.is_empty() {
            true => vec![self.first_text(doc)],
            false => excerpts,
        }
    }

    /// The beginning of a message's text, or of another piece if the message has no text.
    pub(crate) fn first_text(&self, doc: &SearchDocument<'_>) -> Excerpt {
        let is_not_blank = |piece: &&Piece<'_>| !piece.text.trim().is_empty();
        let mut not_blank = doc.pieces.iter().filter(is_not_blank);
        let text = not_blank.find(|piece| piece.field == Field::Text);
        self.beginning(doc, text.or_else(|| doc.pieces.iter().find(is_not_blank)))
    }

    /// The beginning of a piece. `None` if the document has no suitable piece; the excerpt is then empty.
    fn beginning(&self, doc: &SearchDocument<'_>, piece: Option<&Piece<'_>>) -> Excerpt {
        let text = piece.map_or("", |piece| &piece.text);
        let cut = cutting::beginning(text, &self.matcher.hidden(text, None));
        self.excerpt(doc, piece, (0, cut, None))
    }

    /// Builds the excerpts of the original text or, with `unescaped`, of the text with its JSON escapes resolved.
    /// `remaining` is used as in [`ExcerptBuilder::cut_piece`].
    fn cut(
        &self,
        written: &str,
        unescaped: Option<&UnescapedJson>,
        remaining: &mut u64,
    ) -> Vec<Cut> {
        let text = FoldedText::new(unescaped.map_or(written, |unescaped| &unescaped.text));
        let possible = self.matcher.may_contain(&text, *remaining);
        if possible == 0 {
            return Vec::new();
        }
        let bits = (0..u64::BITS).filter(|bit| possible >> bit & 1 == 1);
        let hidden = self.matcher.hidden(written, unescaped);
        let hits =
            bits.filter_map(|bit| Some((self.matcher.first_match(bit, &text, &hidden)?, bit)));
        let mut hits: Vec<(Range<usize>, u32)> = hits.collect();
        hits.sort_by_key(|(hit, _)| hit.start);
        let (mut cuts, mut shown) = (Vec::new(), 0);
        for (hit, bit) in hits {
            *remaining &= !(1 << bit);
            if shown > 0 && hit.end <= shown {
                continue;
            }
            let start =
                unescaped.map_or(hit.start, |unescaped| unescaped.written_position(hit.start));
            let before = written.get(..start).unwrap_or_default();
            let (cut, marked, end) = cutting::excerpt_around(text.text, hit, &hidden);
            cuts.push((before.chars().count(), cut, Some(marked)));
            shown = end;
        }
        cuts
    }

    fn excerpt(
        &self,
        doc: &SearchDocument<'_>,
        piece: Option<&Piece<'_>>,
        (offset, text, marked): Cut,
    ) -> Excerpt {
        let is_message = doc.role.is_some();
        let tool = piece.and_then(|piece| piece.tool.as_deref());
        let part_time = piece.and_then(|piece| piece.at);
        let seq = piece.and_then(|piece| piece.seq).or(doc.seq);
        Excerpt {
            message_id: is_message.then(|| doc.id.to_string()),
            part_id: piece.and_then(|piece| piece.part.as_deref().map(str::to_owned)),
            place: if is_message {
                format!("{}:{}", self.session, doc.id)
            } else {
                self.session.to_owned()
            },
            field: piece.map_or(Field::Text, |p| p.field).as_str().to_owned(),
            role: doc.role,
            tool: clean::optional_text(tool, self.mask),
            created: part_time.or(is_message.then_some(doc.created)),
            seq: seq.filter(|_| self.is_ledger),
            offset,
            text,
            marked,
            turn_ordinal: None,
            score: None,
        }
    }
}
