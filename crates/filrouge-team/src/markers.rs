//! Markers and mentions: who is to speak next, said in the text itself (DESIGN §11).
//!
//! | marker | what it does |
//! |---|---|
//! | `[NEXT: name, name]` | these members speak next, in this order |
//! | `[NEXT: name !P1]` or `[NEXT: name interrupt]` | before everybody who waits |
//! | `[NEXT: name !P2]` or `[NEXT: name reply]` | the usual way |
//! | `[NEXT: name !P3]` or `[NEXT: name extend]` | behind everybody who waits |
//! | `[DROP]`, `[DROP: name, name]` | all who wait, or these, wait no more; who speaks goes on |
//! | `[TEAM_TASK: text]` | sets the team task; it may go over several lines and have brackets in pairs |
//! | `[FROM: name]` | nothing: agents copy it from what they read |
//!
//! Keywords are in any case, with blanks around them, the colon and commas also of other scripts (`：`, `，`, `、`). Names are
//! those of members or their ids, without regard to case and width, with or without `@`. Markers are taken out of the text,
//! with the line when they are alone on it. They are text when they stand in code (between backticks on a line, or in a
//! fenced block), behind a backslash, or behind [`MARKERS_MAX`] others; when they have no end; when a name list is longer
//! than [`NAMES_BYTES_MAX`] or a task than [`HELD_BYTES_MAX`].
//!
//! A message without `NEXT` is addressed to whom it mentions: `@name` at the border of a word, not in code and not in an
//! e-mail address. Mentions stay in the text. Nobody mentions themselves.

mod mention;
mod scan;
mod visible;

use std::ops::Range;

use crate::message::{Addressee, Intent, MessageId, Routing};
use crate::team::{Member, Team, alike};
use scan::{Keyword, Scanner, Token};
use visible::Visible;

/// A message has at most so many markers; the rest is text.
pub const MARKERS_MAX: usize = 32;

/// A list of names has at most so many bytes.
pub const NAMES_BYTES_MAX: usize = 1 << 10;

/// While a text is streamed, at most so much of it is held back to see what it becomes.
pub const HELD_BYTES_MAX: usize = 16 << 10;

/// What a text is when its markers are taken out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Marked {
    /// The text without markers, and without blanks at its end.
    pub content: Box<str>,
    /// The markers as they were written, without brackets.
    pub markers: Vec<Box<str>>,
    /// Who is addressed, each once, by markers or else by mentions.
    pub addressed: Vec<Addressed>,
    /// Who waits no more.
    pub dropped: Option<Dropped>,
    /// What the team is to work on.
    pub team_task: Option<Box<str>>,
}

/// One who is addressed, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addressed {
    /// Who.
    pub addressee: Addressee,
    /// What was written behind the name.
    pub intent: Option<Intent>,
}

/// Who waits no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dropped {
    /// Everybody.
    All,
    /// These members.
    Members(Vec<Box<str>>),
}

impl Marked {
    /// Reads a whole text. `speaker` is the id of who says it.
    #[must_use]
    pub fn read(text: &str, team: &Team, speaker: &str) -> Self {
        let mut reader = MarkerReader::new();
        reader.push(text);
        reader.finish(team, speaker).1
    }

    /// To whom it is, as an answer to `parent`.
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

    /// The names that nobody in the team has.
    pub fn unresolved(&self) -> impl Iterator<Item = &str> {
        let addressees = self.addressed.iter().map(|one| &one.addressee);
        let unknown = addressees.filter(|addressee| addressee.member_id.is_none());
        unknown.map(|addressee| &*addressee.identifier)
    }
}

/// Reads a text while it comes. What [`push`](Self::push) gives, joined, is the content of the whole: nothing is shown that
/// becomes part of a marker later. The cost is that of the text, however it is cut.
#[derive(Debug, Default)]
pub struct MarkerReader {
    scanner: Scanner,
    held: String,
    visible: Visible,
    found: Vec<(Keyword, Box<str>)>,
    markers: Vec<Box<str>>,
}

impl MarkerReader {
    /// Nothing was read yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next piece; gives what can be shown since the last one.
    pub fn push(&mut self, text: &str) -> String {
        self.held.push_str(text);
        self.scan(false);
        self.visible.new_text()
    }

    /// The text has ended: what can be shown still, and what it is as a whole. `speaker` is the id of who said it.
    #[must_use]
    pub fn finish(mut self, team: &Team, speaker: &str) -> (String, Marked) {
        self.scan(true);
        let rest = self.visible.new_text();
        let mut marked = Marked {
            markers: std::mem::take(&mut self.markers),
            ..Marked::default()
        };
        let mut has_names = false;
        for (keyword, body) in &self.found {
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

    fn scan(&mut self, last: bool) {
        let held = std::mem::take(&mut self.held);
        let mut rest = held.as_str();
        while !rest.is_empty() {
            self.scanner.markers_are_text = self.found.len() >= MARKERS_MAX;
            let Some((token, len)) = self.scanner.next(rest, last) else {
                break;
            };
            let (text, behind) = rest.split_at_checked(len).unwrap_or((rest, ""));
            match token {
                Token::Text => self.visible.text(text),
                Token::Code => self.visible.code(text),
                Token::Marker(keyword, body) => {
                    self.visible.marker();
                    let body = text.get(body).unwrap_or_default();
                    let inside = text.get(1..len - 1).unwrap_or_default();
                    self.markers.push(inside.trim().into());
                    self.found.push((keyword, body.into()));
                }
            }
            rest = behind;
        }
        self.held = rest.to_owned();
    }
}

/// Adds whom a `NEXT` names; whether it names anybody.
fn next(marked: &mut Marked, body: &str, team: &Team) -> bool {
    let mut any = false;
    for written in names(body) {
        any = true;
        let (name, intent, member) = resolved(written, team);
        address(marked, name, intent, member);
    }
    any
}

fn dropped(marked: &mut Marked, body: &str, team: &Team) {
    if body.trim().is_empty() {
        marked.dropped = Some(Dropped::All);
    } else if marked.dropped != Some(Dropped::All) {
        let members = names(body).filter_map(|name| team.find(name.trim_start_matches('@')));
        let ids = members.map(|member| member.id.clone());
        match &mut marked.dropped {
            Some(Dropped::Members(known)) => known.extend(ids),
            other => *other = Some(Dropped::Members(ids.collect())),
        }
    }
}

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

/// A name of a list, what is written behind it, and who is called so. A whole that is a name is that name, whatever its
/// last word.
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
    let named = split.and_then(|(name, behind)| {
        let word = behind.trim_start_matches(|c: char| c == '!' || c == '！' || c.is_whitespace());
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

/// Adds one who is addressed; who is twice is once, with the stronger intent.
fn address(marked: &mut Marked, written: &str, intent: Option<Intent>, member: Option<&Member>) {
    let same = |one: &&mut Addressed| match (member, &one.addressee.member_id) {
        (Some(member), Some(id)) => *id == member.id,
        (None, None) => alike(&one.addressee.identifier) == alike(written),
        _ => false,
    };
    if let Some(known) = marked.addressed.iter_mut().find(same) {
        let intents = [known.intent, intent].into_iter().flatten();
        known.intent = intents.min();
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
