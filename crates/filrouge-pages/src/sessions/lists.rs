//! Lists of sessions: of the ledger, of the histories of other programs, and of both in one order.

use std::cmp::Reverse;

use filrouge_engine::Caller;
use filrouge_http::problem::Problem;
use filrouge_http::run_blocking;
use filrouge_sources::library::list::{ListRequest, list};
use filrouge_store::WorkSize;
use filrouge_store::verify::Finding;
use filrouge_types::Timestamp;

use super::ledger;
use super::question::Question;
use super::rows::Row;
use crate::Pages;
use crate::failure::of_library;

/// The number of sessions on a page of a list.
const PAGE_SESSIONS: usize = 50;

/// One page of a list.
#[derive(Default)]
pub(super) struct ListPage {
    pub(super) rows: Vec<Row>,
    /// The cursor of the next page.
    pub(super) next: Option<String>,
    /// The damaged sessions of the ledger that are left out.
    pub(super) findings: Vec<Finding>,
    /// What is left out of other histories.
    pub(super) notices: Vec<String>,
}

/// Where one of the two lists continues.
#[derive(Clone)]
enum Place {
    Start,
    At(String),
    End,
}

impl Place {
    /// The place after a page with this cursor.
    fn after(next: Option<String>) -> Self {
        next.map_or(Self::End, Self::At)
    }

    fn parse(text: &str) -> Self {
        match text {
            "" => Self::Start,
            "-" => Self::End,
            cursor => Self::At(cursor.to_owned()),
        }
    }

    fn as_str(&self) -> &str {
        match self {
            Self::Start => "",
            Self::At(cursor) => cursor,
            Self::End => "-",
        }
    }

    /// The cursor for the query; `None` at the end.
    fn cursor(&self) -> Option<Option<String>> {
        match self {
            Self::Start => Some(None),
            Self::At(cursor) => Some(Some(cursor.clone())),
            Self::End => None,
        }
    }
}

/// Reads a page. Its cursor has the places in both lists, separated by `~`.
///
/// # Errors
/// `invalid` for a bad cursor, and the errors of the ledger and of the library.
pub(super) async fn read(
    pages: &Pages,
    caller: &Caller,
    question: &Question,
    cursor: Option<&str>,
) -> Result<ListPage, Problem> {
    let start = |is_included| {
        if is_included {
            Place::Start
        } else {
            Place::End
        }
    };
    let has_histories = !pages.library().sources().is_empty() && question.includes_histories();
    let (mut in_ledger, mut in_histories) =
        (start(question.includes_ledger()), start(has_histories));
    if let Some(cursor) = cursor {
        let (ledger, histories) = cursor.split_once('~').unwrap_or((cursor, "-"));
        // A cursor does not add a list that the question excludes.
        in_ledger = Place::parse(if question.includes_ledger() {
            ledger
        } else {
            "-"
        });
        in_histories = Place::parse(if has_histories { histories } else { "-" });
    }
    let mut page = ListPage::default();
    let query = Query {
        pages,
        caller,
        question,
    };
    let limit = PAGE_SESSIONS;
    let mut after_ledger = query
        .read(Origin::Ledger, &in_ledger, limit, &mut page)
        .await?;
    let from_ledger = page.rows.len();
    let histories = query.read(Origin::Histories, &in_histories, limit, &mut page);
    let mut after_histories = histories.await?;
    let from_histories = page.rows.len() - from_ledger;
    if from_ledger > 0 && from_histories > 0 {
        // The sort is stable: equal times keep their order.
        page.rows.sort_by_key(|row| Reverse(row.at));
        page.rows.truncate(PAGE_SESSIONS);
        let shown = page.rows.iter().filter(|row| row.is_in_ledger()).count();
        let (places, counts) = ((in_ledger, after_ledger), (shown, from_ledger));
        after_ledger = query.after(Origin::Ledger, places, counts).await?;
        let counts = (page.rows.len() - shown, from_histories);
        let places = (in_histories, after_histories);
        after_histories = query.after(Origin::Histories, places, counts).await?;
    }
    let has_more = |place: &Place| !matches!(place, Place::End);
    if has_more(&after_ledger) || has_more(&after_histories) {
        let places = [after_ledger.as_str(), after_histories.as_str()];
        page.next = Some(places.join("~"));
    }
    Ok(page)
}

/// One of the two lists.
#[derive(Clone, Copy)]
enum Origin {
    Ledger,
    /// The histories of other programs.
    Histories,
}

/// The parameters of both lists.
struct Query<'a> {
    pages: &'a Pages,
    caller: &'a Caller,
    question: &'a Question,
}

impl Query<'_> {
    /// Adds sessions of the ledger to a page, and returns the place after them.
    async fn ledger(
        &self,
        place: &Place,
        limit: usize,
        page: &mut ListPage,
    ) -> Result<Place, Problem> {
        let Some(cursor) = place.cursor() else {
            return Ok(Place::End);
        };
        let found = ledger::read(self.pages, self.caller, self.question, cursor, limit).await?;
        let by_creation = self.question.is_by_creation();
        let rows = found.sessions.iter();
        page.rows
            .extend(rows.map(|session| Row::of_session(session, by_creation)));
        page.findings.extend(found.findings);
        Ok(Place::after(found.next))
    }

    /// Adds sessions of other histories to a page, and returns the place after them.
    async fn histories(
        &self,
        place: &Place,
        limit: usize,
        page: &mut ListPage,
    ) -> Result<Place, Problem> {
        let Some(cursor) = place.cursor() else {
            return Ok(Place::End);
        };
        let question = self.question;
        let millis = |at: Option<Timestamp>| at.map(Timestamp::as_millis);
        let request = ListRequest {
            project_id: question.filter.project_id.as_ref().map(ToString::to_string),
            agent: question.filter.agent.as_deref().map(str::to_owned),
            source: question.source.clone(),
            since: millis(question.active_since),
            until: millis(question.active_until),
            limit,
            by_creation: question.is_by_creation(),
            cursor,
            mask: true,
            ..ListRequest::default()
        };
        // This reads what the programs have written since the last list, so the number of concurrent requests is
        // limited. The list owns the permit, because it may continue briefly after the caller has disconnected.
        let permit = self.pages.work_permit(self.caller, WorkSize::Small).await?;
        let library = self.pages.library().clone();
        let listed = run_blocking(move |stopped| {
            let library = library.for_one_query(Some(stopped));
            (list(&library, &request), permit)
        });
        let (listed, _permit) = listed.await?;
        let sessions = listed.map_err(of_library)?;
        let by_creation = question.is_by_creation();
        let rows = sessions.sessions.into_iter();
        page.rows
            .extend(rows.map(|row| Row::of_history(row, by_creation)));
        page.notices = sessions.notices;
        Ok(Place::after(sessions.next_cursor))
    }

    /// Adds sessions of a list to a page, and returns the place after them.
    async fn read(
        &self,
        list: Origin,
        place: &Place,
        limit: usize,
        page: &mut ListPage,
    ) -> Result<Place, Problem> {
        match list {
            Origin::Ledger => self.ledger(place, limit, page).await,
            Origin::Histories => self.histories(place, limit, page).await,
        }
    }

    /// The place after the first `shown` of the `read` sessions of a list that were read between two places.
    async fn after(
        &self,
        list: Origin,
        (start, end): (Place, Place),
        (shown, read): (usize, usize),
    ) -> Result<Place, Problem> {
        match shown {
            0 => Ok(start),
            _ if shown == read => Ok(end),
            _ => {
                let mut unshown = ListPage::default();
                self.read(list, &start, shown, &mut unshown).await
            }
        }
    }
}
