//! Verification of an uploaded bundle: `/ui/integrity`. Nothing is stored.

use axum::extract::State;
use filrouge_engine::bundle::{BundleReport, PublicKey, verify};
use filrouge_engine::caller::may;
use filrouge_http::extract::{TenantAccess, UploadBody};
use filrouge_http::join_task;
use filrouge_http::problem::Problem;
use filrouge_http::response::RouteResult;
use filrouge_store::WorkSize;
use filrouge_types::ErrorCode;
use maud::{Markup, html};
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::Pages;
use crate::integrity::{findings, verdict_line, verdict_name};
use crate::layout::page;
use crate::links::INTEGRITY;
use crate::upload::fields;
use crate::visit::Visit;
use crate::words::{FormWords, IntegrityWords, Language, refused};

/// The beginnings of gzip, zip, zstd and xz files.
const COMPRESSED: [&[u8]; 4] = [b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ"];

/// What an upload contained.
enum Outcome {
    /// The form had no file.
    NoFile,
    /// The file is compressed.
    Compressed,
    /// The report about the file.
    Report(BundleReport),
}

/// Shows the form.
pub(crate) async fn ask(visit: Visit, _: TenantAccess<may::Read>) -> RouteResult {
    let words = IntegrityWords::of(visit.language);
    Ok(page(&visit, words.bundle_title, &form(words)))
}

/// Verifies the bundle that the form sends.
pub(crate) async fn verify_upload(
    State(pages): State<Pages>,
    visit: Visit,
    access: TenantAccess<may::Read>,
    body: Result<UploadBody, Problem>,
) -> RouteResult {
    let body = body.map_err(|problem| match problem.0.code {
        ErrorCode::PayloadTooLarge => {
            problem.with_hint("`filrouge verify --bundle FILE` verifies larger bundles")
        }
        _ => problem,
    })?;
    let permit = pages.work_permit(&access.caller, WorkSize::Large).await?;
    // Verification takes seconds of work for a large bundle, so it runs on a thread that may be busy. It owns the permit,
    // because it continues after the caller has disconnected.
    let (runtime, language) = (Handle::current(), visit.language);
    let verifying = move || (runtime.block_on(verify_form(&body, language)), permit);
    let (outcome, _permit) = join_task(spawn_blocking(verifying)).await?;
    let outcome = outcome?;
    let words = IntegrityWords::of(visit.language);
    let content = html! { (result(words, &outcome)) (form(words)) };
    Ok(page(&visit, words.bundle_title, &content))
}

/// Verifies the file of a form. Its field `public_key` names the expected signer; empty, any signer is accepted.
async fn verify_form(body: &UploadBody, language: Language) -> Result<Outcome, Problem> {
    let words = FormWords::of(language);
    let fields = fields(&body.content_type, &body.bytes)
        .ok_or_else(|| Problem::new(ErrorCode::Invalid, words.no_form))?;
    let field = |wanted: &str| {
        let mut found = fields.iter().filter(|(name, _)| name == wanted);
        found.next().map_or(&[][..], |(_, content)| *content)
    };
    let key = String::from_utf8_lossy(field("public_key"));
    let key = match key.trim() {
        "" => None,
        text => {
            let key: Result<PublicKey, _> = text.parse();
            let label = IntegrityWords::of(language).public_key;
            Some(key.map_err(|_| refused(label, text, words.public_key))?)
        }
    };
    let bundle = field("bundle");
    Ok(if bundle.is_empty() {
        Outcome::NoFile
    } else if COMPRESSED.iter().any(|mark| bundle.starts_with(mark)) {
        Outcome::Compressed
    } else {
        Outcome::Report(verify(bundle, key).await?)
    })
}

fn form(words: &IntegrityWords) -> Markup {
    html! {
        section.bundle {
            h1 { (words.bundle_title) }
            p { (words.bundle_hint) }
            form.stacked method="post" action=(INTEGRITY) enctype="multipart/form-data" {
                label { span { (words.bundle_file) }
                    input type="file" name="bundle" accept=".json,application/json" required;
                }
                label { span { (words.public_key) }
                    input name="public_key" autocomplete="off" spellcheck="false";
                }
                button type="submit" { (words.verify) }
            }
        }
    }
}

fn result(words: &IntegrityWords, outcome: &Outcome) -> Markup {
    match outcome {
        Outcome::NoFile => html! { p.wrong role="alert" { (words.no_file) } },
        Outcome::Compressed => html! { p.wrong role="alert" { (words.compressed) } },
        Outcome::Report(report) => show_report(words, report),
    }
}

fn show_report(words: &IntegrityWords, report: &BundleReport) -> Markup {
    html! {
        section.verification data-verdict=(verdict_name(report.verdict)) {
            (verdict_line(words, report.verdict))
            dl.facts {
                @if let Some(session) = &report.session_id {
                    div { dt { (words.session) } dd { bdi { (session) } } }
                }
                @if report.signed_by.is_some() {
                    div { dt { (words.turns) } dd { (report.turns) } }
                    div { dt { (words.items) } dd { (report.items) } }
                }
            }
            @if let Some(signer) = &report.signed_by {
                h2 { (words.signed_by) }
                p { code { (signer.public_key) } }
                p { @if signer.trusted { (words.trusted) } @else { (words.untrusted) } }
            }
            (findings(words, &report.findings, None))
        }
    }
}
