//! `/api/v1/sessions/{session_id}/export`.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body as HttpBody;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use filrouge_document::{html, markdown};
use filrouge_types::{ErrorCode, Failure, Recorded};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::busy::join_task;
use crate::app::App;
use crate::openapi::{Bundle, SessionPath};
use filrouge_http::access::may;
use filrouge_http::answer::{Answer, attachment};
use filrouge_http::extract::InSession;

/// The maximum size of a document in bytes. It is limited because documents are built in memory.
const EXPORT_MAX: usize = 256 << 20;

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
pub(super) struct ShowQuery {
    /// The format of the document.
    #[serde(default)]
    #[param(inline)]
    format: Format,
}

/// Exports a conversation as a document.
#[utoipa::path(
    get,
    path = "/api/v1/sessions/{session_id}/export",
    operation_id = "exportSession",
    tag = "reading",
    params(SessionPath, ShowQuery),
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
pub(super) async fn show(State(app): State<App>, at: InSession<may::Read, ShowQuery>) -> Answer {
    let permit = app.limits().large_answer().await?;
    let (text, media_type, name) = match at.query.format {
        Format::Json => (bundle(&app, &at).await?, "application/json", "session.json"),
        Format::Md => {
            let text = document(&app, &at, markdown).await?;
            (text, "text/markdown; charset=utf-8", "session.md")
        }
        Format::Html => {
            let text = document(&app, &at, html).await?;
            (text, "text/html; charset=utf-8", "session.html")
        }
    };
    // Browsers must not treat foreign content as a page of this origin.
    let policy = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'";
    let file = attachment(media_type, name, permit.hold_in(HttpBody::from(text)));
    Ok(([(header::CONTENT_SECURITY_POLICY, policy)], file).into_response())
}

fn too_large() -> Failure {
    let what = format!("the document has more than {EXPORT_MAX} bytes");
    Failure::new(ErrorCode::LimitExceeded, what)
        .with_hint("`filrouge export --format json` writes a bundle of any size")
}

/// A text of at most [`EXPORT_MAX`] bytes; writing more is an error.
#[derive(Default)]
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > EXPORT_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

async fn bundle(app: &App, at: &InSession<may::Read, ShowQuery>) -> Result<String, Failure> {
    let written = Arc::new(Mutex::new(Bounded::default()));
    let out = written.clone();
    let sink = Box::new(move |text: &str| {
        let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
        fmt::Write::write_str(&mut *out, text).map_err(|_| too_large())
    });
    app.bundles.export(&at.caller, &at.session, sink).await?;
    let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(std::mem::take(&mut written.0))
}

async fn document(
    app: &App,
    at: &InSession<may::Read, ShowQuery>,
    write: fn(&Recorded, &mut dyn fmt::Write) -> fmt::Result,
) -> Result<String, Failure> {
    let recorded = app.context.conversation(&at.caller, &at.session).await?;
    let render = move || {
        let mut out = Bounded::default();
        write(&recorded, &mut out).map_err(|_| too_large())?;
        Ok(out.0)
    };
    join_task(tokio::task::spawn_blocking(render)).await?
}
