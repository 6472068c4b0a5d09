//! Markers and mentions in a message's text, which name the next speakers (DESIGN §11).
//!
//! | marker | effect |
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
//! an e-mail address. Mentions stay in the text. Self-mentions are ignored. A mention of a name that the team lacks is reported.

mod mention;
mod scan;
mod visible;

use crate::message::{Addressee, Intent, MessageId, Routing};
use crate::team::{Member, Team, comparison_key};
use scan::{Keyword, Scanner, Token};
use visible::VisibleText;

/// The maximum number of markers of a message; further ones are text.
pub const MARKERS_MAX: usize = 32;

/// The maximum number of bytes of a list of names.
pub const NAMES_BYTES_MAX: usize = 1 << 10;

/// The maximum number of bytes of a streamed text that are held back until it is clear whether they are a marker, code
/// or text.
pub const HELD_BYTES_MAX: usize = 16 << 10;

/// A text whose markers are separated from its content.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ParsedText {
    /// The text without markers and without trailing blanks.
    pub content: Box<str>,
    /// The markers as they were written, without brackets.
    pub markers: Vec<Box<str>>,
    /// The addressees, each once: named by markers, or else by mentions.
    pub addressed: Vec<Addressed>,
    /// The mentioned names that no member has, each once. They address nobody.
    pub unknown_mentions: Vec<Box<str>>,
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

/// The members that a `DROP` removes from the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dropped {
    /// All members.
    All,
    /// These members.
    Members(Vec<Box<str>>),
}

impl ParsedText {
    /// Parses an entire text. `speaker` is the id of its speaker.
    pub fn parse(text: &str, team: &Team, speaker: &str) -> Self {
        let mut reader = MarkerReader::default();
        reader.push(text);
        reader.finish(team, speaker).1
    }

    /// The routing of the message as an answer to `parent`.
    pub fn routing(&self, parent: Option<MessageId>) -> Routing {
        let addressed = self.addressed.iter();
        Routing {
            markers: self.markers.clone(),
            addressees: addressed
                .clone()
                .map(|addressed| addressed.addressee.clone())
                .collect(),
            parent,
            intent: addressed.filter_map(|addressed| addressed.intent).min(),
        }
    }

    /// The addressed and mentioned names that no member has.
    pub fn unresolved(&self) -> impl Iterator<Item = &str> {
        let addressees = self.addressed.iter().map(|addressed| &addressed.addressee);
        let unknown = addressees.filter(|addressee| addressee.member_id.is_none());
        let addressed = unknown.map(|addressee| &*addressee.identifier);
        addressed.chain(self.unknown_mentions.iter().map(|name| &**name))
    }
}

/// Reads a text incrementally. The results of [`push`](Self::push), joined, are the content of the entire text: nothing
/// is returned that later becomes part of a marker. The cost is linear in the text, however it is split.
#[derive(Debug, Default)]
pub struct MarkerReader {
    scanner: Scanner,
    /// Text whose meaning is not decided yet.
    held: String,
    visible: VisibleText,
    keywords: Vec<(Keyword, Box<str>)>,
    markers: Vec<Box<str>>,
}

impl MarkerReader {
    /// Reads the next piece; returns the newly visible text.
    pub fn push(&mut self, text: &str) -> String {
        self.held.push_str(text);
        self.scan(false);
        self.visible.take_new_text()
    }

    /// Ends the text: returns the visible text that `push` has not returned, and the complete result. `speaker` is the
    /// id of the text's speaker.
    #[must_use]
    pub fn finish(mut self, team: &Team, speaker: &str) -> (String, ParsedText) {
        self.scan(true);
        let remaining_text = self.visible.take_new_text();
        let mut parsed = ParsedText {
            markers: std::mem::take(&mut self.markers),
            ..ParsedText::default()
        };
        let mut has_names = false;
        for (keyword, body) in &self.keywords {
            match keyword {
                Keyword::Next => has_names |= add_next(&mut parsed, body, team),
                Keyword::Drop => add_dropped(&mut parsed, body, team),
                Keyword::TeamTask => {
                    let task = Some(body.trim()).filter(|task| !task.is_empty());
                    parsed.team_task = task.map(Into::into).or(parsed.team_task);
                }
                Keyword::From => {}
            }
        }
        let (content, code) = self.visible.finish();
        if !has_names {
            for (written, member) in mention::mentions(&content, &code, team) {
                match member {
                    Some(member) if &*member.id == speaker => {}
                    Some(member) => add_addressee(&mut parsed, written, None, Some(member)),
                    None if parsed
                        .unknown_mentions
                        .iter()
                        .any(|name| &**name == written) => {}
                    None => parsed.unknown_mentions.push(written.into()),
                }
            }
        }
        parsed.content = content.into();
        (remaining_text, parsed)
    }

    /// Scans the held text up to the point where its meaning is undecided. `is_last` means that no more text follows.
    fn scan(&mut self, is_last: bool) {
        let held = std::mem::take(&mut self.held);
        let mut remaining = held.as_str();
        while !remaining.is_empty() {
            self.scanner.markers_are_text = self.keywords.len() >= MARKERS_MAX;
            let Some((token, len)) = self.scanner.next(remaining, is_last) else {
                break;
            };
            let (text, after) = remaining.split_at_checked(len).unwrap_or((remaining, ""));
            match token {
                Token::Text => self.visible.push_pieces(text, false),
                Token::Code => self.visible.push_pieces(text, true),
                Token::Marker(keyword, body) => {
                    self.visible.after_marker = true;
                    let body = text.get(body).unwrap_or_default();
                    let inside = text.get(1..len - 1).unwrap_or_default();
                    self.markers.push(inside.trim().into());
                    self.keywords.push((keyword, body.into()));
                }
            }
            remaining = after;
        }
        self.held = remaining.to_owned();
    }
}

/// Adds the members that a `NEXT` names; returns whether it names any.
fn add_next(parsed: &mut ParsedText, body: &str, team: &Team) -> bool {
    let mut has_names = false;
    for written in split_names(body) {
        has_names = true;
        let (name, intent, member) = resolve_entry(written, team);
        add_addressee(parsed, name, intent, member);
    }
    has_names
}

/// Adds the members that a `DROP` removes: all, or those that it names.
fn add_dropped(parsed: &mut ParsedText, body: &str, team: &Team) {
    if body.trim().is_empty() {
        parsed.dropped = Some(Dropped::All);
    } else if parsed.dropped != Some(Dropped::All) {
        let members = split_names(body).filter_map(|name| team.find(name.trim_start_matches('@')));
        let ids = members.map(|member| member.id.clone());
        match &mut parsed.dropped {
            Some(Dropped::Members(existing)) => existing.extend(ids),
            other => *other = Some(Dropped::Members(ids.collect())),
        }
    }
}

fn split_names(body: &str) -> impl Iterator<Item = &str> {
    let parts = body.split([',', ';', '，', '、', '；', '،']);
    parts.map(str::trim).filter(|part| !part.is_empty())
}

/// Splits an entry of a name list into the name and the intent after it; also returns the member with this name. If the
/// entire entry is a member's name, its last word is not an intent.
fn resolve_entry<'w, 't>(
    written: &'w str,
    team: &'t Team,
) -> (&'w str, Option<Intent>, Option<&'t Member>) {
    let bare_name = |name: &'w str| name.trim().trim_start_matches('@').trim_start();
    if let Some(member) = team.find(bare_name(written)) {
        return (bare_name(written), None, Some(member));
    }
    let separator = written.rfind(|c: char| c == '!' || c == '！' || c.is_whitespace());
    let split = separator.and_then(|index| written.split_at_checked(index));
    let name_and_intent = split.and_then(|(name, after)| {
        let word = after.trim_start_matches(|c: char| c == '!' || c == '！' || c.is_whitespace());
        let name = bare_name(name.trim_end_matches(['!', '！']));
        parse_intent(word)
            .filter(|_| !name.is_empty())
            .map(|intent| (name, intent))
    });
    match name_and_intent {
        Some((name, intent)) => (name, Some(intent), team.find(name)),
        None => (bare_name(written), None, None),
    }
}

fn parse_intent(word: &str) -> Option<Intent> {
    match comparison_key(word).as_str() {
        "p1" | "interrupt" => Some(Intent::Interrupt),
        "p2" | "reply" => Some(Intent::Reply),
        "p3" | "extend" => Some(Intent::Extend),
        _ => None,
    }
}

/// Adds an addressee; one who is named twice is added once, with the stronger intent.
fn add_addressee(
    parsed: &mut ParsedText,
    written: &str,
    intent: Option<Intent>,
    member: Option<&Member>,
) {
    let is_same = |addressed: &&mut Addressed| match (member, &addressed.addressee.member_id) {
        (Some(member), Some(id)) => *id == member.id,
        (None, None) => comparison_key(&addressed.addressee.identifier) == comparison_key(written),
        _ => false,
    };
    if let Some(existing) = parsed.addressed.iter_mut().find(is_same) {
        let intents = [existing.intent, intent].into_iter().flatten();
        existing.intent = intents.min();
        return;
    }
    parsed.addressed.push(Addressed {
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
