//! Sessions that a session started, at the place where they were started.

use filrouge_engine::{Caller, ConversationPart};
use filrouge_http::problem::Problem;
use filrouge_store::command::{SessionFilter, SessionSort};
use filrouge_types::{Session, Timestamp};
use maud::{Markup, html};

use crate::Pages;
use crate::format::time;
use crate::links::session_path;
use crate::words::ConversationWords;

/// The maximum number of started sessions in one part.
const CHILDREN_MAX: usize = 50;

/// A session that another one started, as a folded block.
pub(super) struct Child {
    /// The seq of the item after which it is shown.
    pub(super) after: u64,
    /// The block; its content is loaded when it is opened.
    pub(super) shown: Markup,
}

impl Child {
    /// The block of a session that was started at this time.
    pub(super) fn new(
        part: &ConversationPart,
        (path, title): (&str, Option<&str>),
        (started_at, agents): (Timestamp, &[Box<str>]),
        words: &ConversationWords,
    ) -> Self {
        let before = part
            .items
            .iter()
            .rev()
            .find(|item| item.when() <= started_at);
        let before = before.or(part.items.first());
        let shown = html! {
            details.child {
                summary {
                    span.role { (words.sub_session) } " "
                    bdi { (title.unwrap_or(words.untitled)) } " "
                    span.meta { bdi { (agents.join(", ")) } " " (time(started_at)) }
                }
                p { a href=(path) { (words.open_session) } }
                div hx-get={ (path) "/part?inside=true" } hx-trigger="toggle from:closest details once" {}
            }
        };
        Self {
            after: before.map_or(0, |item| item.seq),
            shown,
        }
    }
}

/// The time span of a part: the sessions that were started in it belong to it. Parts that follow one another cover all
/// times.
pub(super) fn span(part: &ConversationPart) -> (Option<Timestamp>, Option<Timestamp>) {
    let first = part.items.first().filter(|_| part.has_earlier);
    let last = part.items.last().filter(|_| part.has_later);
    let until = part.later_at.or(last.map(|item| item.when()));
    (
        first.map(|item| item.when()),
        until.filter(|_| part.has_later),
    )
}

/// The sessions that were started within a part, as far as the caller sees them.
pub(super) async fn of_part(
    pages: &Pages,
    caller: &Caller,
    part: &ConversationPart,
    words: &ConversationWords,
) -> Result<Vec<Child>, Problem> {
    if part.items.is_empty() {
        return Ok(Vec::new());
    }
    let (since, until) = span(part);
    let filter = SessionFilter {
        parent_session_id: Some(part.session.session_id.clone()),
        since,
        until,
        order: SessionSort::Created,
        ..SessionFilter::default()
    };
    let list = pages
        .sessions
        .list_with_findings(caller, filter, None, CHILDREN_MAX);
    let ((sessions, _), _) = list.await?;
    let child = |session: &Session| {
        let path = session_path(&session.session_id);
        let (title, agents) = (session.title.as_deref(), &session.agents[..]);
        Child::new(
            part,
            (path.as_str(), title),
            (session.created_at, agents),
            words,
        )
    };
    // Lists begin with the newest session.
    Ok(sessions.iter().rev().map(child).collect())
}
