//! `/api/v1/sessions/{session_id}/export`.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::http::header;
use axum::response::IntoResponse;
use filrouge_document::{html, markdown};
use filrouge_store::WorkSize;
use filrouge_types::{ErrorCode, Failure, Recorded, lock};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::openapi::Bundle;
use filrouge_http::access::may;
use filrouge_http::extract::SessionAccess;
use filrouge_http::response::{RouteResult, attachment};
use filrouge_http::{Load, join_task, log_load};

/// The maximum size of a document in bytes. It is limited because documents are built in memory.
const EXPORT_MAX_BYTES: usize = 256 << 20;

/// The format of a document.
#[derive(Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Format {
    /// Markdown.
    Md,
    /// A single page that loads nothing.
    Html,
    /// A signed bundle, for `filrouge verify --bundle` and `filrouge import`.
    #[default]
    Json,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportQuery {
    /// The format of the document.
    #[serde(default)]
    #[param(inline)]
    format: Format,
}

/// Exports a conversation as a document.
///
/// JSON is a signed bundle, which anybody can verify offline; Markdown and HTML are for people.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/export",
    params(ExportQuery),
    responses((
        status = 200,
        description = "The document.",
        content((Bundle = "application/json"), (String = "text/markdown"), (String = "text/html")),
        headers(
            ("Content-Disposition" = String, description = "An attachment."),
            ("Content-Security-Policy" = String, description = "A sandbox: foreign content is not treated as a page of this origin."),
            ("X-Content-Type-Options" = String, description = "`nosniff`."),
        ),
    ))
)]
pub(super) async fn export_session(
    app: App,
    access: SessionAccess<may::Read, ExportQuery>,
) -> RouteResult {
    let permit = app.work_permit(&access.caller, WorkSize::Large).await?;
    let started_at = Instant::now();
    let (exported, media_type, name) = match access.query.format {
        Format::Json => {
            let exported = write_bundle(&app, &access).await?;
            (exported, "application/json", "session.json")
        }
        Format::Md => {
            let exported = render_document(&app, &access, markdown).await?;
            (exported, "text/markdown; charset=utf-8", "session.md")
        }
        Format::Html => {
            let exported = render_document(&app, &access, html).await?;
            (exported, "text/html; charset=utf-8", "session.html")
        }
    };
    let (text, load) = exported;
    log_load(&access.caller, &access.session, name, load, started_at);
    // Browsers must not treat foreign content as a page of this origin.
    let policy = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'";
    let file = attachment(media_type, name, permit.hold(text).await?.into());
    Ok(([(header::CONTENT_SECURITY_POLICY, policy)], file).into_response())
}

fn too_large() -> Failure {
    let detail = format!("the document has more than {EXPORT_MAX_BYTES} bytes");
    Failure::new(ErrorCode::LimitExceeded, detail)
        .with_hint("`filrouge export --format json` writes a bundle of any size")
}

/// A text of at most [`EXPORT_MAX_BYTES`] bytes; writing more is an error.
#[derive(Default)]
struct LimitedText(String);

impl fmt::Write for LimitedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > EXPORT_MAX_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

async fn write_bundle(
    app: &App,
    access: &SessionAccess<may::Read, ExportQuery>,
) -> Result<(String, Load), Failure> {
    let bundle = Arc::new(Mutex::new(LimitedText::default()));
    let out = bundle.clone();
    let sink = Box::new(move |text: &str| {
        let mut out = lock(&out);
        fmt::Write::write_str(&mut *out, text).map_err(|_| too_large())
    });
    let exporting = app.bundles.export(&access.caller, &access.session, sink);
    let (turns, items) = exporting.await?;
    let mut bundle = lock(&bundle);
    Ok((std::mem::take(&mut bundle.0), load(turns, items)))
}

async fn render_document(
    app: &App,
    access: &SessionAccess<may::Read, ExportQuery>,
    write: fn(&Recorded, &mut dyn fmt::Write) -> fmt::Result,
) -> Result<(String, Load), Failure> {
    let reading = app.context.conversation(&access.caller, &access.session);
    let recorded = reading.await?;
    let items = recorded.turns.iter().map(|(_, items)| items.len());
    let load = load(
        recorded.turns.len(),
        items.sum::<usize>() + recorded.loose.len(),
    );
    let render = move || {
        let mut out = LimitedText::default();
        write(&recorded, &mut out).map_err(|_| too_large())?;
        Ok::<_, Failure>(out.0)
    };
    let text = join_task(tokio::task::spawn_blocking(render)).await??;
    Ok((text, load))
}

const fn load(turns: usize, items: usize) -> Load {
    Load {
        turns: Some(turns),
        items: Some(items),
    }
}
