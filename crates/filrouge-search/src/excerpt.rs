//! A hit with what stands around it.

use std::ops::Range;

use crate::answer::Excerpt;
use crate::cutting;
use crate::fields::{self, Field};
use crate::matcher::Matcher;
use crate::view::View;
use filrouge_sources::library::clean;
use filrouge_sources::{Header, Message, Part, PartKind};

/// Makes excerpts.
pub(crate) struct Cutter<'a> {
    pub(crate) matcher: &'a Matcher,
    /// Whether credentials are masked.
    pub(crate) mask: bool,
}

/// A text of a message.
struct Place<'m> {
    field: Field,
    text: &'m str,
    part: Option<&'m Part>,
}

impl Cutter<'_> {
    /// The excerpts of a title.
    pub(crate) fn of_title(&self, header: &Header) -> Vec<Excerpt> {
        let place = Place {
            field: Field::Title,
            text: header.title.as_deref().unwrap_or_default(),
            part: None,
        };
        let cuts = self.of_place(&place, &mut self.matcher.wanted.clone());
        let excerpts = cuts
            .into_iter()
            .map(|cut| excerpt(self.mask, header, None, &place, cut));
        excerpts.collect()
    }

    /// Excerpts of a message: every term once, several together where they stand side by side. Where nothing was
    /// looked for but filters, its beginning.
    pub(crate) fn of_message(&self, header: &Header, message: &Message) -> Vec<Excerpt> {
        let places = self.places(message);
        let (mut left, mut excerpts) = (self.matcher.wanted, Vec::new());
        if left == 0 {
            let first = places.iter().find(|place| !place.text.trim().is_empty());
            return vec![self.beginning(header, message, first)];
        }
        for place in &places {
            let cuts = self.of_place(place, &mut left).into_iter();
            excerpts.extend(cuts.map(|cut| excerpt(self.mask, header, Some(message), place, cut)));
            if left == 0 {
                break;
            }
        }
        excerpts
    }

    /// The texts of a message in which what is wanted may stand.
    fn places<'m>(&self, message: &'m Message) -> Vec<Place<'m>> {
        let mut places = Vec::new();
        for part in message.parts.iter().filter(|p| self.matcher.looks_in(p)) {
            let mut each = |field, text| {
                let part = Some(part);
                places.push(Place { field, text, part });
            };
            fields::of_part(part, &mut each);
        }
        if let Some(error) = message
            .error
            .as_ref()
            .filter(|_| self.matcher.looks_everywhere())
        {
            let part = None;
            fields::of_error(error, &mut |field, text| {
                places.push(Place { field, text, part });
            });
        }
        places
    }

    fn beginning(&self, header: &Header, message: &Message, place: Option<&Place<'_>>) -> Excerpt {
        let nothing = Place {
            field: Field::Text,
            text: "",
            part: None,
        };
        let place = place.unwrap_or(&nothing);
        let cut = cutting::beginning(place.text, &self.matcher.hidden(place.text, None));
        excerpt(self.mask, header, Some(message), place, (0, cut))
    }

    /// Cuttings of one text, each with its offset in characters: of every term in `left` that it holds. Those are
    /// taken out of `left`.
    fn of_place(&self, place: &Place<'_>, left: &mut u64) -> Vec<(usize, String)> {
        let mut cuts = self.cut(place.text, None, left);
        let view = View::of(place.text).filter(|_| *left != 0 && place.field.is_json());
        if let Some(view) = view {
            cuts.extend(self.cut(place.text, Some(&view), left));
        }
        cuts
    }

    /// Cuttings of a text as it is written, or as it reads.
    fn cut(&self, written: &str, view: Option<&View>, left: &mut u64) -> Vec<(usize, String)> {
        let text = view.map_or(written, |view| &view.text);
        let sought = (0..u64::BITS).filter(|bit| *left >> bit & 1 == 1);
        let hidden = self.matcher.hidden(written, view);
        let hits = sought.filter_map(|bit| Some((self.matcher.place(bit, text, &hidden)?, bit)));
        let mut hits: Vec<(Range<usize>, u32)> = hits.collect();
        hits.sort_by_key(|(hit, _)| hit.start);
        let (mut cuts, mut shown) = (Vec::new(), 0);
        for (hit, bit) in hits {
            *left &= !(1 << bit);
            if shown > 0 && hit.end <= shown {
                continue;
            }
            let start = view.map_or(hit.start, |view| view.written(hit.start));
            let before = written.get(..start).unwrap_or_default();
            let (cut, end) = cutting::around(text, hit, &hidden);
            cuts.push((before.chars().count(), cut));
            shown = end;
        }
        cuts
    }
}

fn excerpt(
    mask: bool,
    header: &Header,
    message: Option<&Message>,
    place: &Place<'_>,
    (offset, text): (usize, String),
) -> Excerpt {
    let tool = place.part.and_then(|part| match &part.kind {
        PartKind::Tool(tool) => Some(clean::word(&tool.name, mask)),
        _ => None,
    });
    let begun = place.part.and_then(|part| part.start);
    Excerpt {
        message_id: message.map(|m| m.id.to_string()),
        part_id: place.part.map(|part| part.id.to_string()),
        place: match message {
            Some(message) => format!("{}:{}", header.id, message.id),
            None => header.id.to_string(),
        },
        field: place.field.as_str().to_owned(),
        role: message.map(|m| m.role),
        tool,
        created: begun.or(message.map(|m| m.created)),
        offset,
        text,
    }
}
