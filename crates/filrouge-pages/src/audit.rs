//! `/ui/audit` and `/ui/sessions/{session_id}/audit`: who said and did what, as a timeline, a table, or CSV.

use axum::extract::State;
use filrouge_engine::Caller;
use filrouge_engine::audit::{AuditCursor, AuditKind, AuditPage, AuditQuery};
use filrouge_engine::caller::may;
use filrouge_http::HttpLayer;
use filrouge_http::access::Principal;
use filrouge_http::audit::{AuditFile, audit_file};
use filrouge_http::extract::{SessionAccess, TenantAccess};
use filrouge_http::problem::Problem;
use filrouge_http::response::RouteResult;
use filrouge_store::verify::Finding;
use filrouge_types::{Clock, IdentityId, Moment, SessionId, SystemClock};
use maud::{Markup, html};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::Pages;
use crate::layout::page;
use crate::links::{AUDIT, session_path, with_query};
use crate::visit::Visit;
use crate::words::{AuditWords, FormWords, Language, refused};

mod rows;

/// The route of a session's audit.
pub(crate) const SESSION_PATH: &str = "/ui/sessions/{session_id}/audit";

/// The maximum number of rows on a page.
const PAGE_ROWS: usize = 100;

/// The view that is a table; otherwise, the rows are a timeline.
const TABLE: &str = "table";

/// The filter, as a form sends it: an empty text is no filter.
#[derive(Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditParameters {
    /// Only rows of this kind.
    kind: Option<String>,
    /// Only turns of this end user.
    identity_id: Option<String>,
    /// Only calls of this tool, and their results.
    tool: Option<String>,
    /// Only items of this agent.
    agent: Option<String>,
    /// Only items committed at this moment or later.
    since: Option<String>,
    /// Only items committed before this moment; a day includes itself.
    until: Option<String>,
    /// `table`, or empty for the timeline.
    view: Option<String>,
    /// `csv` for a file.
    format: Option<String>,
    /// Where the page begins.
    cursor: Option<String>,
}

/// A text without surrounding white space; `None` if it is empty.
fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref()
        .map(str::trim)
        .filter(|text| !text.is_empty())
}

impl AuditParameters {
    fn to_query(
        &self,
        language: Language,
        session_id: Option<SessionId>,
    ) -> Result<AuditQuery, Problem> {
        let (labels, words) = (AuditWords::of(language), FormWords::of(language));
        let now = SystemClock.now();
        let moment = |label: &str, text: &Option<String>| {
            let text = given(text).unwrap_or_default();
            let moment = Some(text).filter(|text| !text.is_empty());
            let moment = moment.map(str::parse::<Moment>).transpose();
            moment.map_err(|_| refused(label, text, words.moment))
        };
        let identity = given(&self.identity_id).map(|text| {
            let identity = text.parse::<IdentityId>();
            identity.map_err(|_| refused(labels.identity, text, words.id))
        });
        let kind = given(&self.kind).map(|word| {
            let known = AuditKind::ALL
                .into_iter()
                .find(|kind| kind.as_str() == word);
            known.ok_or_else(|| refused(labels.kind, word, words.unknown))
        });
        Ok(AuditQuery {
            session_id,
            identity_id: identity.transpose()?,
            tool: given(&self.tool).map(Into::into),
            agent: given(&self.agent).map(Into::into),
            kind: kind.transpose()?,
            since: moment(labels.since, &self.since)?.map(|at| at.start(now)),
            until: moment(labels.until, &self.until)?.map(|at| at.end(now)),
            cursor: given(&self.cursor)
                .map(str::parse::<AuditCursor>)
                .transpose()?,
            limit: PAGE_ROWS,
            ..AuditQuery::default()
        })
    }

    fn is_filtered(&self) -> bool {
        let texts = [&self.kind, &self.identity_id, &self.tool, &self.agent];
        let times = [&self.since, &self.until];
        texts
            .into_iter()
            .chain(times)
            .any(|text| given(text).is_some())
    }

    fn is_table(&self) -> bool {
        given(&self.view) == Some(TABLE)
    }

    /// The address of the same filter with other values of these parameters.
    fn address(&self, path: &str, other: &[(&str, &str)]) -> String {
        let own = [
            ("kind", &self.kind),
            ("identity_id", &self.identity_id),
            ("tool", &self.tool),
            ("agent", &self.agent),
            ("since", &self.since),
            ("until", &self.until),
            ("view", &self.view),
        ];
        let own = own.map(|(name, value)| (name, given(value).unwrap_or_default()));
        let kept = own.into_iter().filter(|(name, _)| {
            let mut names = other.iter().map(|(name, _)| name);
            names.all(|replaced| replaced != name)
        });
        let pairs: Vec<_> = kept.chain(other.iter().copied()).collect();
        with_query(path, &pairs)
    }
}

/// Shows the audit of all sessions.
pub(crate) async fn of_tenant(
    State(pages): State<Pages>,
    visit: Visit,
    access: TenantAccess<may::Audit, AuditParameters>,
) -> RouteResult {
    let shown = Shown {
        words: AuditWords::of(visit.language),
        path: AUDIT.to_owned(),
        session: None,
        parameters: access.query,
    };
    respond(&pages, &visit, (access.caller, access.principal), shown).await
}

/// Shows the audit of one session.
pub(crate) async fn of_session(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Audit, AuditParameters>,
) -> RouteResult {
    let shown = Shown {
        words: AuditWords::of(visit.language),
        path: format!("{}/audit", session_path(&access.session)),
        session: Some(access.session),
        parameters: access.query,
    };
    respond(&pages, &visit, (access.caller, access.principal), shown).await
}

/// Responds with a page, or with the file that the filter asks for.
async fn respond(
    pages: &Pages,
    visit: &Visit,
    caller: (Caller, Principal),
    shown: Shown,
) -> RouteResult {
    let query = shown
        .parameters
        .to_query(visit.language, shown.session.clone())?;
    match given(&shown.parameters.format) {
        None => {
            let read = pages.audit.page(&caller.0, query).await?;
            Ok(page(visit, shown.title(), &shown.content(&read)))
        }
        Some("csv") => {
            let http = HttpLayer::clone(pages);
            audit_file(http, caller, query, usize::MAX, AuditFile::Csv).await
        }
        Some(other) => {
            let words = FormWords::of(visit.language);
            Err(refused("format", other, words.unknown))
        }
    }
}

/// An audit to show.
struct Shown {
    words: &'static AuditWords,
    /// The page's own path.
    path: String,
    /// The session, if the audit is that of one.
    session: Option<SessionId>,
    parameters: AuditParameters,
}

impl Shown {
    const fn title(&self) -> &'static str {
        match self.session {
            None => self.words.audit,
            Some(_) => self.words.of_session,
        }
    }

    fn address(&self, other: &[(&str, &str)]) -> String {
        self.parameters.address(&self.path, other)
    }

    fn content(&self, read: &AuditPage) -> Markup {
        let words = self.words;
        html! {
            h1 { (self.title()) }
            @if let Some(session) = &self.session {
                p { a href=(session_path(session)) { bdi { (session) } } }
            }
            p.meta { (words.hint) }
            (self.filter())
            (self.damage(&read.findings))
            @if !read.rows.is_empty() {
                @if self.parameters.is_table() { (rows::table(words, &read.rows)) }
                @else { (rows::timeline(words, &read.rows)) }
            } @else if read.next.is_some() {
                p { (words.searching_hint) }
            } @else {
                section.empty { h2 { (words.empty) } p { (words.empty_hint) } }
            }
            nav.paging aria-label=(words.audit) {
                @if given(&self.parameters.cursor).is_some() {
                    a href=(self.address(&[])) { (words.first) }
                }
                @if let Some(next) = &read.next {
                    a rel="next" href=(self.address(&[("cursor", &next.to_string())])) { (words.next) }
                }
            }
        }
    }

    /// The filter, the views and the file.
    fn filter(&self) -> Markup {
        let (words, parameters) = (self.words, &self.parameters);
        let fields = [
            ("identity_id", words.identity, &parameters.identity_id),
            ("tool", words.tool_name, &parameters.tool),
            ("agent", words.agent, &parameters.agent),
            ("since", words.since, &parameters.since),
            ("until", words.until, &parameters.until),
        ];
        let chosen = given(&parameters.kind);
        let is_table = parameters.is_table();
        html! {
            form.audit-filter action=(self.path) aria-label=(words.filter) {
                label { span { (words.kind) }
                    select name="kind" {
                        option value="" { (words.everything) }
                        @for kind in AuditKind::ALL {
                            option value=(kind.as_str()) selected[chosen == Some(kind.as_str())] { (words.of_kind(kind)) }
                        }
                    }
                }
                @for (name, label, value) in fields {
                    label { span { (label) }
                        input name=(name) value=[given(value)] autocomplete="off"
                            title=[(name == "since" || name == "until").then_some(words.time_hint)];
                    }
                }
                @if is_table { input type="hidden" name="view" value=(TABLE); }
                button type="submit" { (words.apply) }
            }
            nav.audit-views aria-label=(words.views) {
                a href=(self.address(&[("view", "")])) aria-current=[(!is_table).then_some("true")] { (words.timeline) }
                a href=(self.address(&[("view", TABLE)])) aria-current=[is_table.then_some("true")] { (words.table) }
                a href=(self.address(&[("format", "csv"), ("view", "")])) download { (words.csv) }
                @if parameters.is_filtered() { a href=(self.path) { (words.everything) } }
            }
        }
    }

    /// The damaged sessions of which the page lacks items.
    fn damage(&self, findings: &[Finding]) -> Markup {
        let words = self.words;
        html! {
            @if !findings.is_empty() {
                section.damage role="alert" {
                    h2 { (words.damaged) }
                    p { (words.damaged_hint) }
                    ul {
                        @for finding in findings {
                            li {
                                @let session = finding.session_id.as_deref().and_then(|id| id.parse::<SessionId>().ok());
                                @if let Some(session) = session {
                                    a href={ (session_path(&session)) "/verify" } { bdi { (session) } } ": "
                                }
                                bdi { (finding.what) }
                            }
                        }
                    }
                }
            }
        }
    }
}

impl AuditWords {
    /// The name of a kind.
    pub(super) const fn of_kind(&self, kind: AuditKind) -> &'static str {
        match kind {
            AuditKind::Said => self.said,
            AuditKind::Tool => self.tool,
            AuditKind::Failure => self.failure,
            AuditKind::Link => self.link,
            AuditKind::Redaction => self.redaction,
            AuditKind::Erasure => self.erasure,
        }
    }
}
