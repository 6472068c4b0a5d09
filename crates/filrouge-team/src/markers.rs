//! Markers and mentions: a message's text itself names the next speakers (DESIGN §11).
//!
//! | marker | what it does |
//! |---|---|
//! | `[NEXT: name, name]` | these members speak next, in this order |
//! | `[NEXT: name !P1]` or `[NEXT: name interrupt]` | to the front of the queue |
//! | `[NEXT: name !P2]` or `[NEXT: name reply]` | the default |
//! | `[NEXT: name !P3]` or `[NEXT: name extend]` | to the end of the queue |
//! | `[DROP]`, `[DROP: name, name]` | removes all members, or these, from the queue; the speaker continues |
//! | `[TEAM_TASK: text]` | sets the team task; it may span lines and contain balanced brackets |
//! | `[FROM: name]` | no effect: agents copy it from their prompt |
//!
//! Keywords are case-insensitive and may have blanks around them; the colon and commas may be of other scripts (`：`,
//! `，`, `、`). Names are members' names or ids, with or without `@`, compared without regard to case and width. Markers
//! are removed from the text, together with their line if nothing else is on it. A marker is plain text in each of
//! these cases:
//! - it is in code: between backticks on a line, or in a fenced block
//! - it follows a backslash, or [`MARKERS_MAX`] other markers
//! - it has no end
//! - its list of names is longer than [`NAMES_BYTES_MAX`], or its task is longer than [`HELD_BYTES_MAX`]
//!
//! A message without `NEXT` is addressed to the members it mentions: `@name` at a word boundary, not in code and not in
//! an e-mail address. Mentions stay in the text. Self-mentions are ignored.

mod mention;
mod scan;
mod visible;

use std::ops::Range;

use crate::message::{Addressee, Intent, MessageId, Routing};
use crate::team::{Member, Team, alike};
use scan::{Keyword, Scanner, Token};
use visible::Visible;

/// The maximum number of markers of a message; further ones are text.
pub const MARKERS_MAX: usize = 32;

/// The maximum number of bytes of a list of names.
pub const NAMES_BYTES_MAX: usize = 1 << 10;

/// The maximum number of bytes of a streamed text that are held back until it is clear whether they are a marker, code
/// or text.
pub const HELD_BYTES_MAX: usize = 16 << 10;

/// A text whose markers are separated from its content.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Marked {
    /// The text without markers and without trailing blanks.
    pub content: Box<str>,
    /// The markers as they were written, without brackets.
    pub markers: Vec<Box<str>>,
    /// The addressees, each once: named by markers, or else by mentions.
    pub addressed: Vec<Addressed>,
    /// The members to remove from the queue; `None` if the text has no `DROP`.
    pub dropped: Option<Dropped>,
    /// The task that the message sets for the team.
    pub team_task: Option<Box<str>>,
}

/// An addressee and the intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addressed {
    /// The addressee.
    pub addressee: Addressee,
    /// The intent written after the name; `None` if there is none.
    pub intent: Option<Intent>,
}

/// Which members leave the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dropped {
    /// All members.
    All,
    /// These members.
    Members(Vec<Box<str>>),
}

impl Marked {
    /// Reads an entire text. `speaker` is the id of its speaker.
    #[must_use]
    pub fn read(text: &str, team: &Team, speaker: &str) -> Self {
        let mut reader = MarkerReader::new();
        reader.push(text);
        reader.finish(team, speaker).1
    }

    /// The routing of the message as an answer to `parent`.
    #[must_use]
    pub fn routing(&self, parent: Option<MessageId>) -> Routing {
        let addressed = self.addressed.iter();
        Routing {
            markers: self.markers.clone(),
            addressees: addressed.clone().map(|one| one.addressee.clone()).collect(),
            parent,
            intent: addressed.filter_map(|one| one.intent).min(),
        }
    }

    /// The addressed names that no member has.
    pub fn unresolved(&self) -> impl Iterator<Item = &str> {
        let addressees = self.addressed.iter().map(|one| &one.addressee);
        let unknown = addressees.filter(|addressee| addressee.member_id.is_none());
        unknown.map(|addressee| &*addressee.identifier)
    }
}

/// Reads a text incrementally. The results of [`push`](Self::push), joined, are the content of the entire text: nothing
/// is returned that later becomes part of a marker. The cost is linear in the text, however it is split.
#[derive(Debug, Default)]
pub struct MarkerReader {
    scanner: Scanner,
    /// The text that is held back.
    held: String,
    visible: Visible,
    keywords: Vec<(Keyword, Box<str>)>,
    markers: Vec<Box<str>>,
}

impl MarkerReader {
    /// A reader at the beginning of a text.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the next piece; returns the newly visible text.
    pub fn push(&mut self, text: &str) -> String {
        self.held.push_str(text);
        self.scan(false);
        self.visible.new_text()
    }

    /// Ends the text: returns the visible text that `push` has not returned, and the complete result. `speaker` is the
    /// id of the text's speaker.
    #[must_use]
    pub fn finish(mut self, team: &Team, speaker: &str) -> (String, Marked) {
        self.scan(true);
        let rest = self.visible.new_text();
        let mut marked = Marked {
            markers: std::mem::take(&mut self.markers),
            ..Marked::default()
        };
        let mut has_names = false;
        for (keyword, body) in &self.keywords {
            match keyword {
                Keyword::Next => has_names |= next(&mut marked, body, team),
                Keyword::Drop => dropped(&mut marked, body, team),
                Keyword::TeamTask => {
                    let task = Some(body.trim()).filter(|task| !task.is_empty());
                    marked.team_task = task.map(Into::into).or(marked.team_task);
                }
                Keyword::From => {}
            }
        }
        let (content, code) = self.visible.finish();
        if !has_names {
            mentioned(&mut marked, &content, &code, team, speaker);
        }
        marked.content = content.into();
        (rest, marked)
    }

    /// Reads the held text as far as its meaning is clear; `last`: no more text follows.
    fn scan(&mut self, last: bool) {
        let held = std::mem::take(&mut self.held);
        let mut rest = held.as_str();
        while !rest.is_empty() {
            self.scanner.markers_are_text = self.keywords.len() >= MARKERS_MAX;
            let Some((token, len)) = self.scanner.next(rest, last) else {
                break;
            };
            let (text, after) = rest.split_at_checked(len).unwrap_or((rest, ""));
            match token {
                Token::Text => self.visible.text(text),
                Token::Code => self.visible.code(text),
                Token::Marker(keyword, body) => {
                    self.visible.marker();
                    let body = text.get(body).unwrap_or_default();
                    let inside = text.get(1..len - 1).unwrap_or_default();
                    self.markers.push(inside.trim().into());
                    self.keywords.push((keyword, body.into()));
                }
            }
            rest = after;
        }
        self.held = rest.to_owned();
    }
}

/// Adds the members that a `NEXT` names; returns whether it names any.
fn next(marked: &mut Marked, body: &str, team: &Team) -> bool {
    let mut any = false;
    for written in names(body) {
        any = true;
        let (name, intent, member) = resolved(written, team);
        address(marked, name, intent, member);
    }
    any
}

/// Adds what a `DROP` removes: all members, or those that it names.
fn dropped(marked: &mut Marked, body: &str, team: &Team) {
    if body.trim().is_empty() {
        marked.dropped = Some(Dropped::All);
    } else if marked.dropped != Some(Dropped::All) {
        let members = names(body).filter_map(|name| team.find(name.trim_start_matches('@')));
        let ids = members.map(|member| member.id.clone());
        match &mut marked.dropped {
            Some(Dropped::Members(existing)) => existing.extend(ids),
            other => *other = Some(Dropped::Members(ids.collect())),
        }
    }
}

/// Adds the members that the content mentions, except its speaker.
fn mentioned(
    marked: &mut Marked,
    content: &str,
    code: &[Range<usize>],
    team: &Team,
    speaker: &str,
) {
    for (written, member) in mention::mentions(content, code, team) {
        if &*member.id != speaker {
            address(marked, written, None, Some(member));
        }
    }
}

fn names(body: &str) -> impl Iterator<Item = &str> {
    let parts = body.split([',', ';', '，', '、', '；', '،']);
    parts.map(str::trim).filter(|part| !part.is_empty())
}

/// Splits an entry of a name list into the name and the intent after it; also returns the member with this name. If the
/// entire entry is a member's name, its last word is not an intent.
fn resolved<'w, 't>(
    written: &'w str,
    team: &'t Team,
) -> (&'w str, Option<Intent>, Option<&'t Member>) {
    let bare = |name: &'w str| name.trim().trim_start_matches('@').trim_start();
    if let Some(member) = team.find(bare(written)) {
        return (bare(written), None, Some(member));
    }
    let cut = written.rfind(|c: char| c == '!' || c == '！' || c.is_whitespace());
    let split = cut.and_then(|cut| written.split_at_checked(cut));
    let named = split.and_then(|(name, after)| {
        let word = after.trim_start_matches(|c: char| c == '!' || c == '！' || c.is_whitespace());
        let name = bare(name.trim_end_matches(['!', '！']));
        intent(word)
            .filter(|_| !name.is_empty())
            .map(|intent| (name, intent))
    });
    match named {
        Some((name, intent)) => (name, Some(intent), team.find(name)),
        None => (bare(written), None, None),
    }
}

fn intent(word: &str) -> Option<Intent> {
    match alike(word).as_str() {
        "p1" | "interrupt" => Some(Intent::Interrupt),
        "p2" | "reply" => Some(Intent::Reply),
        "p3" | "extend" => Some(Intent::Extend),
        _ => None,
    }
}

/// Adds an addressee; one who is named twice is added once, with the stronger intent.
fn address(marked: &mut Marked, written: &str, intent: Option<Intent>, member: Option<&Member>) {
    let same = |one: &&mut Addressed| match (member, &one.addressee.member_id) {
        (Some(member), Some(id)) => *id == member.id,
        (None, None) => alike(&one.addressee.identifier) == alike(written),
        _ => false,
    };
    if let Some(existing) = marked.addressed.iter_mut().find(same) {
        let intents = [existing.intent, intent].into_iter().flatten();
        existing.intent = intents.min();
        return;
    }
    marked.addressed.push(Addressed {
        addressee: Addressee {
            identifier: written.into(),
            member_id: member.map(|member| member.id.clone()),
            member_name: member.map(|member| member.name.clone()),
        },
        intent,
    });
}

#[cfg(test)]
mod tests;
