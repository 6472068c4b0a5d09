//! A conversation as a file: a signed bundle, Markdown or HTML.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::http::header;
use axum::response::IntoResponse;
use filrouge_document::{html, markdown};
use filrouge_engine::Caller;
use filrouge_store::WorkSize;
use filrouge_types::{ErrorCode, Failure, Recorded, SessionId, lock};
use serde::Deserialize;
use tokio::task::spawn_blocking;
use utoipa::ToSchema;

use crate::blocking::join_task;
use crate::layer::HttpLayer;
use crate::load_log::{Load, log_load};
use crate::response::{RouteResult, attachment};

/// The maximum size of a document in bytes. It is limited because documents are built in memory.
const EXPORT_MAX_BYTES: usize = 256 << 20;

/// The format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExportFormat {
    /// Markdown.
    Md,
    /// A single page that loads nothing.
    Html,
    /// A signed bundle, for `filrouge verify --bundle` and `filrouge import`.
    #[default]
    Json,
}

/// Returns a conversation as an attachment. Waits for a permit, because the document is built in memory.
///
/// # Errors
/// `session_not_found`, `limit_exceeded` for a document of more than 256 MiB, `overloaded`, `integrity_error`, and the
/// ledger's errors.
pub async fn export(
    http: &HttpLayer,
    caller: &Caller,
    session: &SessionId,
    format: ExportFormat,
) -> RouteResult {
    let limits = http.limits();
    let permit = limits
        .large_response_permit(caller, WorkSize::Large)
        .await?;
    let started_at = Instant::now();
    let (exported, media_type, name) = match format {
        ExportFormat::Json => {
            let exported = write_bundle(http, caller, session).await?;
            (exported, "application/json", "session.json")
        }
        ExportFormat::Md => {
            let exported = render_document(http, (caller, session), markdown).await?;
            (exported, "text/markdown; charset=utf-8", "session.md")
        }
        ExportFormat::Html => {
            let exported = render_document(http, (caller, session), html).await?;
            (exported, "text/html; charset=utf-8", "session.html")
        }
    };
    let (text, load) = exported;
    log_load(caller, session, name, load, started_at);
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
    http: &HttpLayer,
    caller: &Caller,
    session: &SessionId,
) -> Result<(String, Load), Failure> {
    let bundle = Arc::new(Mutex::new(LimitedText::default()));
    let out = bundle.clone();
    let sink = Box::new(move |text: &str| {
        let mut out = lock(&out);
        fmt::Write::write_str(&mut *out, text).map_err(|_| too_large())
    });
    let (turns, items) = http.bundles.export(caller, session, sink).await?;
    let mut bundle = lock(&bundle);
    Ok((std::mem::take(&mut bundle.0), load(turns, items)))
}

async fn render_document(
    http: &HttpLayer,
    (caller, session): (&Caller, &SessionId),
    write: fn(&Recorded, &mut dyn fmt::Write) -> fmt::Result,
) -> Result<(String, Load), Failure> {
    let recorded = http.context.conversation(caller, session).await?;
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
    Ok((join_task(spawn_blocking(render)).await??, load))
}

const fn load(turns: usize, items: usize) -> Load {
    Load {
        turns: Some(turns),
        items: Some(items),
    }
}
