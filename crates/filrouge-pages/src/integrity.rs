//! Verification of a session on a click: `/ui/sessions/{session_id}/verify`.

use axum::extract::State;
use axum::http::HeaderMap;
use filrouge_engine::anchor::AnchorState;
use filrouge_engine::caller::may;
use filrouge_http::extract::SessionAccess;
use filrouge_http::response::RouteResult;
use filrouge_store::WorkSize;
use filrouge_store::verify::{Finding, Verdict, VerificationReport};
use filrouge_types::{ErrorCode, Session, SessionId};
use maud::{Markup, html};

use crate::Pages;
use crate::layout::{fragment, page};
use crate::links::{item_path, session_path};
use crate::visit::Visit;
use crate::words::{IntegrityWords, Language};

/// The route of a session's verification.
pub(crate) const PATH: &str = "/ui/sessions/{session_id}/verify";

/// The badge of a session's page. A click replaces it by the result; without scripts, it leads to a page.
pub(crate) fn badge(language: Language, session: &Session) -> Markup {
    let words = IntegrityWords::of(language);
    let path = verify_path(&session.session_id);
    html! {
        div.integrity aria-live="polite" {
            a.verify href=(path) title=(words.verify_hint) hx-get=(path) hx-target="closest .integrity"
                hx-swap="innerHTML" { (words.verify) }
        }
    }
}

fn verify_path(session: &SessionId) -> String {
    format!("{}/verify", session_path(session))
}

/// How the store compares with its anchor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Anchor {
    Absent,
    Holds,
    /// It holds, but cannot be advanced, or an operator has not accepted the store.
    Unconfirmed,
    Contradicted,
    Unknown,
}

/// Compares the store with its anchor. The reasons are only for the operator: they name files.
async fn compare_with_anchor(pages: &Pages) -> Anchor {
    let Some(keeper) = pages.anchor() else {
        return Anchor::Absent;
    };
    match keeper.check().await {
        Ok(AnchorState::Broken(reason)) => {
            tracing::error!(%reason, "a verification found that the store contradicts its anchor");
            Anchor::Contradicted
        }
        Ok(AnchorState::Created | AnchorState::Holds) if keeper.failure().is_some() => {
            Anchor::Unconfirmed
        }
        Ok(AnchorState::Created | AnchorState::Holds) => Anchor::Holds,
        Err(failure) => {
            tracing::error!(%failure, "the anchor cannot be compared with the store");
            Anchor::Unknown
        }
    }
}

/// Verifies a session, and shows what was checked: for a script as a part of its page, otherwise as a page.
pub(crate) async fn verify(
    State(pages): State<Pages>,
    visit: Visit,
    headers: HeaderMap,
    access: SessionAccess<may::Read>,
) -> RouteResult {
    // A verification may read the complete session, so the number of concurrent ones is limited.
    let _permit = pages.work_permit(&access.caller, WorkSize::Small).await?;
    let verification = pages
        .sessions
        .verify(&access.caller, access.session.clone());
    let report = verification.await?;
    let anchor = compare_with_anchor(&pages).await;
    let words = IntegrityWords::of(visit.language);
    let result = result(words, &access.session, &report, anchor);
    if headers.contains_key("hx-request") {
        return Ok(fragment(&result));
    }
    let path = session_path(&access.session);
    let content = html! {
        h1 { (words.verification) }
        p { a href=(path) { bdi { (access.session) } } }
        (result)
        p.steps { a.button href=(path) { (words.to_session) } }
    };
    Ok(page(&visit, words.verification, &content))
}

fn result(
    words: &IntegrityWords,
    session: &SessionId,
    report: &VerificationReport,
    anchor: Anchor,
) -> Markup {
    let verdict = match (report.verdict(), anchor) {
        (_, Anchor::Contradicted) => Verdict::Broken,
        (Verdict::Intact, Anchor::Unknown) => Verdict::CannotTell,
        (verdict, _) => verdict,
    };
    let counts = [
        (words.items, report.items),
        (words.turns, report.turns),
        (words.events, report.events),
        (words.checkpoints, report.checkpoints),
    ];
    let anchor = match anchor {
        Anchor::Absent => words.anchor_absent,
        Anchor::Holds => words.anchor_holds,
        Anchor::Unconfirmed => words.anchor_unconfirmed,
        Anchor::Contradicted => words.anchor_broken,
        Anchor::Unknown => words.anchor_unknown,
    };
    html! {
        section.verification data-verdict=(verdict_name(verdict)) {
            (verdict_line(words, verdict))
            h2 { (words.checked) }
            dl.facts {
                @for (name, count) in counts { div { dt { (name) } dd { (count) } } }
                div { dt { (words.anchor) } dd { (anchor) } }
            }
            (findings(words, &report.findings, Some(session)))
        }
    }
}

/// The name of a verdict, for the style sheet.
pub(crate) const fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Intact => "intact",
        Verdict::Broken => "broken",
        Verdict::CannotTell => "cannot_tell",
    }
}

/// The verdict, and what it means.
pub(crate) fn verdict_line(words: &IntegrityWords, verdict: Verdict) -> Markup {
    let (name, hint) = match verdict {
        Verdict::Intact => (words.intact, words.intact_hint),
        Verdict::Broken => (words.broken, words.broken_hint),
        Verdict::CannotTell => (words.cannot_tell, words.cannot_tell_hint),
    };
    html! { p.verdict role="status" { strong { (name) } " " (hint) } }
}

/// Findings with their places: links to items of `session`, or without links for data outside the ledger.
pub(crate) fn findings(
    words: &IntegrityWords,
    findings: &[Finding],
    session: Option<&SessionId>,
) -> Markup {
    html! {
        @if !findings.is_empty() {
            h2 { (words.findings) }
            ul.findings {
                @for finding in findings {
                    li {
                        @if let Some(seq) = finding.seq {
                            @match session {
                                Some(session) => { a href=(item_path(session, seq)) { (words.item) " " (seq) } },
                                None => { (words.item) " " (seq) },
                            }
                            ": "
                        }
                        (meaning(words, finding)) " " span.meta { bdi { (finding.what) } }
                    }
                }
            }
        }
    }
}

/// What a finding means, by its code.
fn meaning(words: &IntegrityWords, finding: &Finding) -> &'static str {
    match finding.code {
        code if code == ErrorCode::IntegrityError.as_str() => words.integrity_error,
        code if code == ErrorCode::KeyMissing.as_str() => words.key_missing,
        _ => words.other_finding,
    }
}
