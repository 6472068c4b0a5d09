//! `/ui/histories/{source}/{session_id}`: a conversation in the history of another program, read in place.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use filrouge_engine::caller::may;
use filrouge_engine::{ConversationPart, Outline, OutlineTurn, PartBounds, PartPlace};
use filrouge_http::extract::{NoParameters, SessionAccess};
use filrouge_http::join_task;
use filrouge_http::limits::LargeResponsePermit;
use filrouge_http::problem::Problem;
use filrouge_http::response::RouteResult;
use filrouge_sources::library::clean::{display_text, optional_text};
use filrouge_sources::library::export::recorded;
use filrouge_sources::{Header, Library, LibraryError};
use filrouge_store::WorkSize;
use filrouge_types::{Item, Recorded, Session, Timestamp, Turn, TurnId};
use serde::Deserialize;
use tokio::task::spawn_blocking;

use super::children::{Child, span};
use super::item::{ItemSeq, ONE_ITEM, hold, shown};
use super::part::PartPage;
use super::place::{BOUNDS, PlaceQuery};
use super::{Shown, header, thread};
use crate::Pages;
use crate::failure::of_library;
use crate::links::history_path;
use crate::visit::Visit;
use crate::words::ConversationWords;

/// The maximum age of the listing in which a session is looked up.
const LISTING_AGE: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
pub(crate) struct SourceName {
    source: String,
}

/// A part of a history, and what its page shows beside it.
struct HistoryPart {
    part: ConversationPart,
    outline: Outline,
    /// The sessions that this one started.
    started: Vec<Arc<Header>>,
    parent: Option<Box<str>>,
}

/// Shows a conversation: its facts, its navigation, and one part.
pub(crate) async fn show(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Read, PlaceQuery>,
    Path(SourceName { source }): Path<SourceName>,
) -> RouteResult {
    let words = ConversationWords::of(visit.language);
    let path = history_path(&source, access.session.as_str());
    let place = (access.query.place()?, BOUNDS);
    let (read, _permit) = read(&pages, &source, &access, (place, WorkSize::Small)).await?;
    let (session, parent) = (&read.part.session, read.parent.as_deref());
    let head = header::of_history(visit.language, session, &source, parent);
    let thread = thread::of_turns(words, &path, &read.outline, None);
    read.shown(&visit, path).page(&visit, &head, &thread, None)
}

/// Returns another part of a conversation.
pub(crate) async fn part(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Read, PlaceQuery>,
    Path(SourceName { source }): Path<SourceName>,
) -> RouteResult {
    let path = history_path(&source, access.session.as_str());
    let place = (access.query.place()?, BOUNDS);
    let (read, _permit) = read(&pages, &source, &access, (place, WorkSize::Small)).await?;
    read.shown(&visit, path).fragment(&access.query)
}

/// Shows one complete item.
pub(crate) async fn item(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Read, NoParameters>,
    Path(SourceName { source }): Path<SourceName>,
    Path(path): Path<ItemSeq>,
) -> RouteResult {
    let seq = path.get();
    let place = (PartPlace::After(seq.saturating_sub(1)), ONE_ITEM);
    let (read, permit) = read(&pages, &source, &access, (place, WorkSize::Large)).await?;
    let path = history_path(&source, access.session.as_str());
    hold(permit, shown(&visit, path, &read.part, seq)?).await
}

/// Reads the complete session, under a permit, because all of it is in memory until the part is selected. The reading
/// owns the permit, because it continues after the caller has disconnected.
async fn read<Q>(
    pages: &Pages,
    source: &str,
    access: &SessionAccess<may::Read, Q>,
    (place, size): ((PartPlace, PartBounds), WorkSize),
) -> Result<(HistoryPart, LargeResponsePermit), Problem> {
    let permit = pages.work_permit(&access.caller, size).await?;
    let (library, source) = (pages.library().clone(), source.to_owned());
    let id = access.session.to_string();
    let reading = move || {
        let read = read_part(&library, (source.as_str(), id.as_str()), place);
        (read, permit)
    };
    let (read, permit) = join_task(spawn_blocking(reading)).await?;
    Ok((read.map_err(of_library)?, permit))
}

fn read_part(
    library: &Library,
    (source, id): (&str, &str),
    place: (PartPlace, PartBounds),
) -> Result<HistoryPart, LibraryError> {
    let catalog = library.catalog_within(LISTING_AGE);
    let entry = catalog.get(id)?;
    if entry.header.source != source {
        return Err(LibraryError::NoSession(id.to_owned()));
    }
    let Recorded {
        mut session,
        turns,
        loose,
    } = recorded(library, entry, true)?;
    session.agents = masked(&entry.header.agents);
    let outline = Outline {
        turns: turns.iter().map(|(turn, _)| outline_turn(turn)).collect(),
        ..Outline::default()
    };
    let (mut by_id, mut items) = (HashMap::new(), loose);
    for (turn, own) in turns {
        by_id.insert(turn.turn_id, turn);
        items.extend(own);
    }
    items.sort_by_key(|item| item.seq);
    let started = catalog.children(id);
    Ok(HistoryPart {
        part: select(session, by_id, items, place),
        outline,
        started: started.map(|child| child.header.clone()).collect(),
        parent: entry.header.parent_id.clone(),
    })
}

/// Names, in which anything with the form of a credential is masked.
fn masked(names: &[Box<str>]) -> Vec<Box<str>> {
    let names = names.iter();
    names.map(|name| display_text(name, true).into()).collect()
}

const fn outline_turn(turn: &Turn) -> OutlineTurn {
    OutlineTurn {
        ordinal: turn.ordinal,
        status: turn.status,
        first_seq: turn.first_seq,
        last_seq: turn.last_seq,
        is_replaced: false,
        has_late_items: false,
    }
}

fn select(
    session: Session,
    turns: HashMap<TurnId, Turn>,
    items: Vec<Item>,
    (place, bounds): (PartPlace, PartBounds),
) -> ConversationPart {
    let place = match place {
        PartPlace::Around(seq) => PartPlace::Around(seq.min(session.last_seq)),
        place => place,
    };
    let (items, later_at) = bounds.select(place, items);
    ConversationPart {
        has_earlier: items.first().is_some_and(|item| item.seq > 1),
        has_later: items.last().is_some_and(|item| item.seq < session.last_seq),
        later_at,
        items,
        turns,
        redactions: Vec::new(),
        session,
    }
}

impl HistoryPart {
    /// The part as the page at this path shows it.
    fn shown(self, visit: &Visit, path: String) -> Shown {
        Shown {
            page: PartPage::at(path, visit.language),
            children: self.children(ConversationWords::of(visit.language)),
            part: self.part,
        }
    }

    /// The sessions that were started within this part.
    fn children(&self, words: &ConversationWords) -> Vec<Child> {
        let (since, until) = span(&self.part);
        let mut children = Vec::new();
        for header in &self.started {
            let Some(at) = Timestamp::from_millis(header.created) else {
                continue;
            };
            if since.is_none_or(|since| at >= since) && until.is_none_or(|until| at < until) {
                let path = history_path(header.source, &header.id);
                let title = optional_text(header.title.as_deref(), true);
                let place = (path.as_str(), title.as_deref());
                let child = Child::new(&self.part, place, (at, &masked(&header.agents)), words);
                children.push(child);
            }
        }
        children
    }
}
