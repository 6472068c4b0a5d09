//! `/ui/sessions/{session_id}/shares`: the shares of a session, and the form to create one.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use filrouge_engine::Caller;
use filrouge_engine::caller::{Permission, may};
use filrouge_engine::shares::{ListedShare, NewShare, Share, ShareToken};
use filrouge_http::extract::SessionAccess;
use filrouge_http::problem::Problem;
use filrouge_http::response::RouteResult;
use filrouge_store::WorkSize;
use filrouge_types::SessionId;
use maud::{Markup, html};
use serde::Deserialize;

use crate::Pages;
use crate::form::Form;
use crate::format::time;
use crate::layout::page;
use crate::links::{see_other, session_path};
use crate::visit::Visit;
use crate::words::{FormWords, Language, SharesWords, refused};

/// The route of a session's shares.
pub(crate) const PATH: &str = "/ui/sessions/{session_id}/shares";
/// Where the form to revoke a share is sent.
pub(crate) const REVOKE_PATH: &str = "/ui/sessions/{session_id}/shares/revoke";

/// The durations to choose from, in hours.
const HOURS: [u64; 6] = [1, 24, 7 * 24, 30 * 24, 90 * 24, 366 * 24];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewShareForm {
    /// How long it is usable.
    hours: u64,
    /// The first and the last item; empty: the beginning, the end.
    #[serde(default)]
    first: String,
    #[serde(default)]
    last: String,
    /// Checkboxes: present if they are checked.
    grows: Option<String>,
    without_reasoning: Option<String>,
    without_tools: Option<String>,
    without_names: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RevokeForm {
    share_id: String,
}

/// Lists the shares of a session.
pub(crate) async fn list(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Read>,
) -> RouteResult {
    show(&pages, &visit, &access.caller, &access.session, None).await
}

/// Creates a share, and shows its address.
pub(crate) async fn create(
    State(pages): State<Pages>,
    visit: Visit,
    headers: HeaderMap,
    access: SessionAccess<may::Write>,
    Form(sent): Form<NewShareForm>,
) -> RouteResult {
    let new = sent.into_new_share(visit.language)?;
    let needs_credentials = pages.authority().requires_credentials();
    let (caller, session) = (&access.caller, &access.session);
    let created = pages.shares.create(caller, session, new, needs_credentials);
    let (_, token) = created.await?;
    let address = address(&headers, &token);
    show(&pages, &visit, caller, session, Some(&address)).await
}

/// Revokes a share, and returns to the list.
pub(crate) async fn revoke(
    State(pages): State<Pages>,
    access: SessionAccess<may::Write>,
    Form(sent): Form<RevokeForm>,
) -> RouteResult {
    let (caller, session) = (&access.caller, &access.session);
    let revoked = pages.shares.revoke(caller, session, &sent.share_id);
    revoked.await?;
    Ok(see_other(&path(session)))
}

impl NewShareForm {
    fn into_new_share(self, language: Language) -> Result<NewShare, Problem> {
        let words = SharesWords::of(language);
        let why = FormWords::of(language).seq;
        Ok(NewShare {
            first_seq: seq(words.first, &self.first, why)?.unwrap_or(0),
            last_seq: seq(words.last, &self.last, why)?,
            grows: self.grows.is_some(),
            valid_for: Duration::from_secs(self.hours.saturating_mul(3600)),
            reasoning: self.without_reasoning.is_none(),
            tools: self.without_tools.is_none(),
            names: self.without_names.is_none(),
        })
    }
}

/// The seq in a field; `None` if the field is empty.
fn seq(label: &str, text: &str, why: &str) -> Result<Option<u64>, Problem> {
    match text.trim() {
        "" => Ok(None),
        text => {
            let seq = text.parse().map(Some);
            seq.map_err(|_| refused(label, text, why))
        }
    }
}

/// The complete address of a share, at the origin of the page from which the form was sent.
fn address(headers: &HeaderMap, token: &ShareToken) -> String {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let origin = match (header(header::ORIGIN), header(header::HOST)) {
        (Some(origin), _) => origin.to_owned(),
        (None, host) => format!("http://{}", host.unwrap_or_default()),
    };
    format!("{origin}/ui/shared/{}", token.expose())
}

fn path(session: &SessionId) -> String {
    format!("{}/shares", session_path(session))
}

/// The page, with the address of the share that was just created, if one was.
async fn show(
    pages: &Pages,
    visit: &Visit,
    caller: &Caller,
    session_id: &SessionId,
    address: Option<&str>,
) -> RouteResult {
    let session = pages.sessions.get(caller, session_id).await?;
    // This reads all events of the session, so the number of concurrent requests is limited.
    let _permit = pages.work_permit(caller, WorkSize::Small).await?;
    let shares = pages.shares.list(caller, session_id).await?;
    let words = SharesWords::of(visit.language);
    let longest = pages.shares.max_duration();
    let may_share = caller.has_permission(Permission::Write);
    let content = html! {
        section.shares {
            p { a href=(session_path(session_id)) { (words.to_conversation) } }
            h1 { (words.shares) }
            @if let Some(title) = &session.title { p.meta { bdi { (title) } } }
            p.hint { (words.hint) }
            @if let Some(address) = address { (created(words, address)) }
            @if shares.is_empty() {
                section.empty { h2 { (words.none) } p { (words.none_hint) } }
            } @else {
                (table(words, session_id, &shares, may_share))
            }
            @if longest.is_zero() { p { (words.off) } }
            @else if may_share { (form(words, session_id, longest)) }
        }
    };
    Ok(page(visit, words.shares, &content))
}

fn created(words: &SharesWords, address: &str) -> Markup {
    html! {
        section.share-created role="status" {
            h2 { (words.created) }
            label for="share-address" { (words.address) }
            input #share-address type="text" readonly value=(address) aria-describedby="share-address-hint";
            p #share-address-hint { (words.address_hint) }
        }
    }
}

fn table(
    words: &SharesWords,
    session: &SessionId,
    shares: &[ListedShare],
    may_revoke: bool,
) -> Markup {
    html! {
        div.wide tabindex="0" role="group" aria-label=(words.shares) {
            table {
                thead {
                    tr {
                        @for name in [words.created_at, words.created_by, words.expires, words.shows, words.opened, words.state] {
                            th scope="col" { (name) }
                        }
                    }
                }
                // The newest share first.
                tbody { @for listed in shares.iter().rev() { (row(words, session, listed, may_revoke)) } }
            }
        }
    }
}

fn row(words: &SharesWords, session: &SessionId, listed: &ListedShare, may_revoke: bool) -> Markup {
    let share = &listed.share;
    html! {
        tr {
            td { (time(listed.created_at)) }
            td {
                @if let Some(identity) = &share.identity_id { bdi { (identity) } }
                @if let Some(key) = &share.key_id { " " span.meta { (key) } }
            }
            td { (time(share.expires_at)) }
            td { (shows(words, share)) }
            td { @match listed.opened_at { Some(at) => { (time(at)) } None => { (words.not_opened) } } }
            td {
                @if listed.is_usable {
                    (words.usable)
                    @if may_revoke {
                        form method="post" action={ (path(session)) "/revoke" } {
                            input type="hidden" name="share_id" value=(share.share_id);
                            button type="submit" { (words.revoke) }
                        }
                    }
                } @else if let Some(at) = listed.revoked_at {
                    (words.revoked) " " (time(at))
                } @else {
                    (words.expired)
                }
            }
        }
    }
}

/// The items that a share shows, and what it leaves out.
fn shows(words: &SharesWords, share: &Share) -> Markup {
    let options = [
        (share.reasoning, words.without_reasoning),
        (share.tools, words.without_tools),
        (share.names, words.without_names),
    ];
    html! {
        @match share.last_seq {
            Some(last) => { (words.items) " " (share.first_seq) "–" (last) }
            None => { (words.from_item) " " (share.first_seq) }
        }
        @for (_, option) in options.iter().filter(|(is_shown, _)| !is_shown) { ", " (option) }
    }
}

fn form(words: &SharesWords, session: &SessionId, longest: Duration) -> Markup {
    let hours = HOURS.iter().copied();
    let hours = hours.filter(|hours| Duration::from_secs(hours * 3600) <= longest);
    let options = [
        ("without_reasoning", words.reasoning),
        ("without_tools", words.tools),
        ("without_names", words.names),
    ];
    html! {
        form.new-share method="post" action=(path(session)) {
            h2 { (words.new_share) }
            p {
                label for="share-hours" { (words.usable_for) } " "
                select #share-hours name="hours" {
                    @for hours in hours { option value=(hours) { (duration(words, hours)) } }
                }
            }
            p {
                label for="share-first" { (words.first) } " "
                input #share-first name="first" type="number" min="1" inputmode="numeric" aria-describedby="share-range-hint"; " "
                label for="share-last" { (words.last) } " "
                input #share-last name="last" type="number" min="1" inputmode="numeric" aria-describedby="share-range-hint";
            }
            p.meta #share-range-hint { (words.range_hint) }
            p { label { input type="checkbox" name="grows" value="1"; " " (words.grows) } }
            fieldset {
                legend { (words.leave_out) }
                @for (name, label) in options {
                    p { label { input type="checkbox" name=(name) value="1"; " " (label) } }
                }
                p.meta { (words.texts_stay) }
            }
            button type="submit" { (words.create) }
        }
    }
}

fn duration(words: &SharesWords, hours: u64) -> Markup {
    html! {
        @match hours {
            1 => { (words.one_hour) }
            24 => { (words.one_day) }
            hours => { (hours / 24) " " (words.days) }
        }
    }
}
