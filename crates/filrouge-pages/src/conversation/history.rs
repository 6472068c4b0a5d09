//! `/ui/histories/{source}/{session_id}`: a conversation in the history of another program, read in place.

use std::collections::HashMap;
use std::time::Duration;

use axum::extract::{Path, State};
use filrouge_engine::caller::may;
use filrouge_engine::{Outline, OutlineTurn, PartPlace, SessionPart};
use filrouge_http::extract::SessionAccess;
use filrouge_http::join_task;
use filrouge_http::problem::Problem;
use filrouge_http::response::RouteResult;
use filrouge_sources::library::export::recorded;
use filrouge_sources::{Header, Library, LibraryError};
use filrouge_types::{ErrorCode, Item, Recorded, Session, Timestamp, Turn, TurnId};
use maud::html;
use serde::Deserialize;
use tokio::task::spawn_blocking;

use super::children::{Child, span};
use super::part::PartPage;
use super::place::{BOUNDS, PlaceQuery, segment};
use super::{header, thread};
use crate::Pages;
use crate::layout::{fragment, page};
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
    part: SessionPart,
    outline: Outline,
    children: Vec<Child>,
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
    let read = read(&pages, &source, &access, words).await?;
    let session = &read.part.session;
    let title = session.title.as_deref().unwrap_or(words.untitled);
    let shown = PartPage::at(path.clone(), words).render(&read.part, read.children)?;
    let content = html! {
        (header::of_history(words, session, &source, read.parent.as_deref()))
        div.conversation {
            (thread::of_turns(words, &path, &read.outline, None))
            div #conversation { (shown) }
        }
    };
    Ok(page(&visit, title, &content))
}

/// Returns another part of a conversation.
pub(crate) async fn part(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Read, PlaceQuery>,
    Path(SourceName { source }): Path<SourceName>,
) -> RouteResult {
    let words = ConversationWords::of(visit.language);
    let path = history_path(&source, access.session.as_str());
    let read = read(&pages, &source, &access, words).await?;
    let page = PartPage::at(path, words);
    let shown = page.render_beside(&access.query, read.part, read.children)?;
    Ok(fragment(&shown))
}

/// The path of the page of a session in the history of a program.
pub(crate) fn history_path(source: &str, id: &str) -> String {
    format!("/ui/histories/{}/{}", segment(source), segment(id))
}

async fn read(
    pages: &Pages,
    source: &str,
    access: &SessionAccess<may::Read, PlaceQuery>,
    words: &'static ConversationWords,
) -> Result<HistoryPart, Problem> {
    let place = access.query.place()?;
    let (library, source) = (pages.library().clone(), source.to_owned());
    let id = access.session.to_string();
    let reading = move || read_part(&library, (source.as_str(), id.as_str()), place, words);
    join_task(spawn_blocking(reading)).await?.map_err(problem)
}

fn read_part(
    library: &Library,
    (source, id): (&str, &str),
    place: PartPlace,
    words: &ConversationWords,
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
    session.agents = entry.header.agents.clone();
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
    let part = select(session, by_id, items, place);
    let started = catalog.children(id).map(|child| &*child.header);
    let children = children(&part, started, words);
    Ok(HistoryPart {
        part,
        outline,
        children,
        parent: entry.header.parent_id.clone(),
    })
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
    place: PartPlace,
) -> SessionPart {
    let place = match place {
        PartPlace::Around(seq) => PartPlace::Around(seq.min(session.last_seq)),
        place => place,
    };
    let (items, later_at) = BOUNDS.select(place, items);
    SessionPart {
        has_earlier: items.first().is_some_and(|item| item.seq > 1),
        has_later: items.last().is_some_and(|item| item.seq < session.last_seq),
        later_at,
        items,
        turns,
        redactions: Vec::new(),
        session,
    }
}

/// The sessions that were started within a part.
fn children<'a>(
    part: &SessionPart,
    started: impl Iterator<Item = &'a Header>,
    words: &ConversationWords,
) -> Vec<Child> {
    let (since, until) = span(part);
    let timed =
        started.filter_map(|header| Some((Timestamp::from_millis(header.created)?, header)));
    let within = timed.filter(|(at, _)| {
        since.is_none_or(|since| *at >= since) && until.is_none_or(|until| *at < until)
    });
    let child = |(at, header): (Timestamp, &Header)| {
        let path = history_path(header.source, &header.id);
        let place = (path.as_str(), header.title.as_deref());
        Child::new(part, place, (at, &header.agents[..]), words)
    };
    within.map(child).collect()
}

fn problem(error: LibraryError) -> Problem {
    match error {
        LibraryError::NoSession(_) => {
            Problem::new(ErrorCode::SessionNotFound, "there is no such session")
        }
        LibraryError::Unavailable(failure) => failure.into(),
        LibraryError::Invalid(_) | LibraryError::Unreadable(..) | LibraryError::Cancelled => {
            Problem::new(ErrorCode::Internal, error.to_string())
        }
    }
}
