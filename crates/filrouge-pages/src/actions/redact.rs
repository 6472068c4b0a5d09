//! Redacts a turn or items: asks what, shows a preview, and shows the receipt.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use filrouge_engine::caller::{Permission, may};
use filrouge_engine::{Leftovers, ListTurns, PatchSession};
use filrouge_http::extract::SessionAccess;
use filrouge_http::problem::Problem;
use filrouge_http::response::RouteResult;
use filrouge_store::WorkSize;
use filrouge_store::command::RedactionTarget;
use filrouge_store::record::Seqs;
use filrouge_types::{ErrorCode, TurnId};
use maud::html;
use serde::Deserialize;
use utoipa::IntoParams;

use super::frame::show;
use super::preview::{Preview, choose};
use super::receipt::stores;
use crate::Pages;
use crate::form::Form;
use crate::links::{item_path, see_other, session_path, with_query};
use crate::visit::Visit;
use crate::words::{ActionWords, FormWords, Language, refused};

/// The maximum number of turns to choose from.
const TURNS_MAX: usize = 50;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetQuery {
    /// The turn.
    turn: Option<String>,
    /// The items, such as `4 7-9`.
    seqs: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Redaction {
    #[serde(default)]
    turn: String,
    #[serde(default)]
    seqs: String,
    /// The items of the preview.
    previewed: String,
    reason: String,
    /// Whether to remove the title too.
    #[serde(default)]
    with_title: bool,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct DoneQuery {
    /// The item that records the redaction.
    seq: u64,
}

/// What to redact; `None` if neither a turn nor items are named.
fn target(language: Language, turn: &str, seqs: &str) -> Result<Option<RedactionTarget>, Problem> {
    let words = FormWords::of(language);
    let invalid = |detail: &str| Problem::new(ErrorCode::Invalid, detail);
    let ranges = seqs.split([' ', ',', ';']).filter(|word| !word.is_empty());
    let ranges: Option<Vec<_>> = ranges.map(Seqs::parse_range).collect();
    let label = ActionWords::of(language).redact_items;
    let ranges = ranges.ok_or_else(|| refused(label, seqs, words.seqs))?;
    let named = (turn.trim(), ranges.is_empty());
    match named {
        ("", true) => Ok(None),
        ("", false) => Ok(Seqs::from_ranges(ranges).map(RedactionTarget::Items)),
        (turn, true) => {
            let turn: Result<TurnId, _> = turn.parse();
            let turn = turn.map_err(|_| invalid(words.turn))?;
            Ok(Some(RedactionTarget::Turn(turn)))
        }
        (_, false) => Err(invalid(words.one_target)),
    }
}

/// Asks what to redact, or shows the preview.
pub(crate) async fn ask(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Redact, TargetQuery>,
) -> RouteResult {
    let (caller, id) = (&access.caller, &access.session);
    let turn = access.query.turn.unwrap_or_default();
    let seqs = access.query.seqs.unwrap_or_default();
    let words = ActionWords::of(visit.language);
    let session = pages.sessions.get(caller, id).await?;
    let content = match target(visit.language, &turn, &seqs)? {
        None => {
            let query = ListTurns {
                newest: true,
                limit: TURNS_MAX,
                ..ListTurns::default()
            };
            let (turns, next) = pages.turns.list(caller, id, query).await?;
            choose(words, id, &turns, next.is_some())
        }
        Some(target) => {
            let _permit = pages.work_permit(caller, WorkSize::Large).await?;
            let items = pages.erasure.items_to_redact(caller, id, &target).await?;
            let leftovers = Leftovers::find(pages.engine(), caller, id, &items).await?;
            let preview = Preview {
                session: id,
                turn: &turn,
                seqs: &seqs,
                items: &items,
                leftovers: &leftovers,
            };
            preview.show(visit.language)
        }
    };
    Ok(show(&visit, words.redact, &session, &content))
}

/// Redacts what the preview showed. If that has changed since, nothing is redacted.
pub(crate) async fn redact(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Redact>,
    Form(sent): Form<Redaction>,
) -> RouteResult {
    let (caller, id) = (&access.caller, &access.session);
    let target = target(visit.language, &sent.turn, &sent.seqs)?.ok_or_else(|| {
        let words = FormWords::of(visit.language);
        Problem::new(ErrorCode::Invalid, words.one_target)
    })?;
    let _permit = pages.work_permit(caller, WorkSize::Large).await?;
    let items = pages.erasure.items_to_redact(caller, id, &target).await?;
    if Preview::seqs_of(&items) != sent.previewed {
        let session = pages.sessions.get(caller, id).await?;
        let words = ActionWords::of(visit.language);
        let again = [("turn", sent.turn.as_str()), ("seqs", sent.seqs.as_str())];
        let again = with_query(&format!("{}/redact", session_path(id)), &again);
        let content = html! {
            p.wrong role="alert" { (words.changed) }
            p.steps { a.button href=(again) { (words.preview) } }
        };
        let page = show(&visit, words.redact, &session, &content);
        return Ok((StatusCode::CONFLICT, page).into_response());
    }
    let scope = caller.scope(Permission::Redact)?;
    let erasure = &pages.erasure;
    let redacted = erasure
        .redact_in_ledger(caller, id.clone(), target, sent.reason.trim())
        .await?;
    let title_removed = match sent.with_title {
        true => {
            let patch = PatchSession {
                title: Some(None),
                ..PatchSession::default()
            };
            let patched = pages.sessions.patch(caller, id.clone(), patch, None).await;
            patched.map(drop)
        }
        false => Ok(()),
    };
    // Cleans the projections; the next page shows the receipts.
    erasure.store_receipts(&scope, id).await;
    title_removed?;
    let seq = redacted.redaction_seq;
    Ok(see_other(&format!(
        "{}/redacted?seq={seq}",
        session_path(id)
    )))
}

/// Shows the receipt of a redaction, with the state of the stores now.
pub(crate) async fn done(
    State(pages): State<Pages>,
    visit: Visit,
    access: SessionAccess<may::Redact, DoneQuery>,
) -> RouteResult {
    let (caller, id) = (&access.caller, &access.session);
    let session = pages.sessions.get(caller, id).await?;
    let scope = caller.scope(Permission::Redact)?;
    let receipts = pages.erasure.store_receipts(&scope, id).await;
    let words = ActionWords::of(visit.language);
    let seq = access.query.seq;
    let content = html! {
        p { (words.recorded_at) " " a href=(item_path(id, seq)) { (seq) } "." }
        (stores(words, &receipts))
        p.steps { a.button href=(session_path(id)) { (words.to_session) } }
    };
    Ok(show(&visit, words.redacted, &session, &content))
}
