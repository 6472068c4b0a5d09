//! Statistics of many sessions.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use filrouge_types::Timestamp;

use super::count::{Count, Counted};
use super::{Day, Overview, count_sessions, token_rules};
use crate::Header;
use crate::library::facts::{DAY_MILLIS, DaySums};
use crate::library::forks::ForkProject;
use crate::library::list::{ListRequest, Row, select_sessions};
use crate::library::sums::Sums;
use crate::library::{Library, Result, clean};

/// Statistics of all sessions that pass the filters of `request`. Ignores the limit and the cursor of `request`.
///
/// Copies are searched for among all sessions, as in [`super::session`]: a copied message in a fork counts as a copy
/// even if `request` excludes the fork's origin.
///
/// # Errors
/// [`LibraryError::Invalid`](crate::LibraryError::Invalid).
pub fn overview(library: &Library, request: &ListRequest) -> Result<Overview> {
    let library = &library.for_query();
    let catalog = library.catalog();
    let sessions = select_sessions(&catalog, request);
    let (counted, notices) = count_sessions(library, &catalog, &sessions)?;
    let mut all = Count::default();
    let mut sources: BTreeMap<&str, Count> = BTreeMap::new();
    let mut projects: HashMap<ForkProject<'_>, (String, Count)> = HashMap::new();
    for session in &counted {
        let header = &*session.session.entry.header;
        let project = projects.entry(ForkProject::from_header(header));
        let (_, count) = project.or_insert_with(|| (name(header), Count::default()));
        for count in [&mut all, sources.entry(header.source).or_default(), count] {
            count.add(session);
        }
    }
    let sources = sources.into_iter();
    Ok(Overview {
        all: all.all.sums().masked(request.mask),
        without_copied: all.originals.sums().masked(request.mask),
        by_source: sources
            .map(|(name, count)| (name.to_owned(), count.all.sums().masked(request.mask)))
            .collect(),
        by_project: by_project(projects, request.mask),
        days: days(&counted),
        token_rules: token_rules(counted.iter()),
        notices,
    })
}

/// The project's name as lists show it, or else its id.
fn name(header: &Header) -> String {
    let row = Row::from_header(header);
    row.project_name.or(row.project_id).unwrap_or_default()
}

/// The sums by project, the one with the most tokens first.
fn by_project(
    projects: HashMap<ForkProject<'_>, (String, Count)>,
    mask: bool,
) -> Vec<(String, Sums)> {
    let mut projects: Vec<_> = projects
        .into_iter()
        .map(|(key, (name, count))| (key, name, count.all.sums()))
        .collect();
    let size = |sums: &Sums| Reverse((sums.tokens.total(), sums.message_count));
    projects.sort_by(|(a, _, a_sums), (b, _, b_sums)| {
        size(a_sums).cmp(&size(b_sums)).then_with(|| a.cmp(b))
    });
    projects
        .into_iter()
        .map(|(_, name, sums)| (clean::display_text(&name, mask), sums.masked(mask)))
        .collect()
}

/// The sums by day, without copies, in order.
fn days(counted: &[Counted<'_>]) -> Vec<Day> {
    let mut days: BTreeMap<i64, DaySums> = BTreeMap::new();
    for (day, share) in counted.iter().flat_map(Counted::days) {
        days.entry(*day).or_default().add(share);
    }
    let days = days.into_iter().map(|(day, share)| Day {
        date: date(day),
        messages: share.messages,
        tokens: share.tokens,
        cost: share.cost,
    });
    days.collect()
}

/// The date of a day, counted from 1970-01-01 UTC.
fn date(day: i64) -> String {
    let start = day.checked_mul(DAY_MILLIS).and_then(Timestamp::from_millis);
    let text = start.map(|moment| moment.to_string()).unwrap_or_default();
    text.split('T').next().unwrap_or_default().to_owned()
}
