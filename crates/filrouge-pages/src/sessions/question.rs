//! Reads the search box and the address of the page.

use filrouge_search::{ExtraFilter, ExtraValue, outline};
use filrouge_sources::programs::LEDGER;
use filrouge_store::command::{SessionFilter, SessionSort};
use filrouge_types::{Clock, IdentityId, ProjectId, SessionStatus, SystemClock, Timestamp};

use super::query::{ListOrder, ListQuery};
use crate::words::SessionsWords;

/// The filters of the search box that the query language does not have.
const EXTRA: &[ExtraFilter] = &[
    ExtraFilter {
        name: "is",
        means: None,
    },
    ExtraFilter {
        name: "status",
        means: None,
    },
    ExtraFilter {
        name: "owner",
        means: None,
    },
    ExtraFilter {
        name: "since",
        means: Some("after"),
    },
];

/// What the visitor asks for.
pub(super) struct Question {
    /// The query in the query language.
    pub(super) query: String,
    /// Whether the query has words, or filters of messages.
    has_terms: bool,
    /// Only this history; `None` for all.
    pub(super) source: Option<String>,
    /// The order, if the visitor has chosen one.
    pub(super) order: Option<ListOrder>,
    /// The filter of sessions in the ledger.
    pub(super) filter: SessionFilter,
    /// Only sessions active at this time or later.
    pub(super) active_since: Option<Timestamp>,
    /// Only sessions active before this time.
    pub(super) active_until: Option<Timestamp>,
    /// Only sessions whose newest turn failed or was interrupted.
    pub(super) only_failed: bool,
}

impl Question {
    /// Reads the question.
    ///
    /// # Errors
    /// The reason why the search is invalid, for the visitor.
    pub(super) fn parse(query: &ListQuery, words: &SessionsWords) -> Result<Self, String> {
        let outline = outline(&query.q, EXTRA, SystemClock.now())
            .map_err(|error| words.invalid_query(&error))?;
        let (has_terms, list) = (outline.list.is_none(), outline.list.unwrap_or_default());
        let named = query.source.clone().filter(|name| !name.is_empty());
        let is_by_creation = query.order == Some(ListOrder::Created);
        let time = |millis: Option<i64>| millis.and_then(Timestamp::from_millis);
        let project = list.project.map(|id| {
            let project = ProjectId::new(id.as_str());
            project.map_err(|_| format!("project:{id} {}", words.no_id))
        });
        let mut question = Self {
            query: outline.query,
            has_terms,
            source: list.source.or(named),
            order: query.order,
            filter: SessionFilter {
                project_id: project.transpose()?,
                agent: list.agent.map(String::into_boxed_str),
                since: time(list.since).filter(|_| is_by_creation),
                until: time(list.until),
                order: match is_by_creation {
                    true => SessionSort::Created,
                    false => SessionSort::Updated,
                },
                ..SessionFilter::default()
            },
            active_since: time(list.since),
            active_until: time(list.until),
            only_failed: false,
        };
        for extra in outline.extras {
            question.add(extra, words)?;
        }
        Ok(question)
    }

    fn add(&mut self, extra: ExtraValue, words: &SessionsWords) -> Result<(), String> {
        let ExtraValue {
            name,
            value,
            excluded,
        } = extra;
        if excluded {
            return Err(format!("-{name}: {}", words.not_excludable));
        }
        match (name, &*value) {
            ("owner", _) => {
                let owner = IdentityId::new(value.as_str());
                self.filter.identity_id =
                    Some(owner.map_err(|_| format!("owner:{value} {}", words.no_id))?);
            }
            ("is", "failed") => self.only_failed = true,
            (_, status) => {
                let status = status.parse::<SessionStatus>();
                let status =
                    status.map_err(|_| format!("{name}:{value} {}", words.unknown_state))?;
                self.filter.status = Some(status);
            }
        }
        Ok(())
    }

    /// Whether messages must be searched; otherwise a list answers.
    pub(super) const fn needs_search(&self) -> bool {
        self.has_terms
    }

    /// Whether the question has filters that only sessions of the ledger can pass.
    pub(super) const fn is_about_ledger_only(&self) -> bool {
        self.only_failed || self.filter.status.is_some() || self.filter.identity_id.is_some()
    }

    /// Whether the answer may have sessions of the ledger.
    pub(super) fn includes_ledger(&self) -> bool {
        self.source.as_deref().is_none_or(|source| source == LEDGER)
    }

    /// Whether the answer may have sessions of other programs' histories.
    pub(super) fn includes_histories(&self) -> bool {
        !self.is_about_ledger_only() && self.source.as_deref() != Some(LEDGER)
    }

    /// Whether the list is ordered by creation.
    pub(super) const fn is_by_creation(&self) -> bool {
        matches!(self.order, Some(ListOrder::Created))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Language;

    fn parsed(q: &str) -> Result<Question, String> {
        let query = ListQuery {
            q: q.to_owned(),
            ..ListQuery::default()
        };
        Question::parse(&query, SessionsWords::of(Language::English))
    }

    #[test]
    fn filters_alone_need_no_search() {
        let question = parsed("is:paused owner:ada agent:guide project:garden since:7d").unwrap();
        assert!(!question.needs_search() && !question.includes_histories());
        assert_eq!(question.filter.status, Some(SessionStatus::Paused));
        let owner = question.filter.identity_id.unwrap();
        assert_eq!(owner.as_str(), "ada");
        assert_eq!(question.filter.agent.as_deref(), Some("guide"));
        assert!(question.active_since.is_some() && question.filter.since.is_none());
        assert!(parsed("is:failed").unwrap().only_failed);
        for text in ["word", "/a.b/ is:failed", "tool:bash"] {
            assert!(parsed(text).unwrap().needs_search(), "{text}");
        }
    }

    #[test]
    fn invalid_searches_are_refused() {
        for text in [
            "is:red",
            "-is:failed",
            "status:",
            "owner:\u{1}",
            "since:x",
            "\"open",
        ] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }
}
