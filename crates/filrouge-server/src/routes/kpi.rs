//! `/api/admin/tenants/{tenant_id}/…`: key figures, and how live calls of a tenant do (DESIGN §6, §12).

use axum::body::Body as HttpBody;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use filrouge_engine::Caller;
use filrouge_engine::kpi::{Every, KpiQuery, KpiReport, TechnicalStatus};
use filrouge_types::{ErrorCode, Timestamp};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::openapi::{Shown, TenantPath};
use filrouge_http::access::may;
use filrouge_http::answer::{Answer, attachment, json};
use filrouge_http::extract::InTenant;
use filrouge_http::problem::Problem;

/// What the rows are written as.
#[derive(Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Format {
    /// A document.
    #[default]
    Json,
    /// Comma-separated values, with a line of names.
    Csv,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowQuery {
    /// What happened at this moment or later; seven days before `until` when left out.
    since: Option<Timestamp>,
    /// What happened before this moment; now when left out.
    until: Option<Timestamp>,
    /// A row for each week or day, in UTC; one row for all when left out.
    #[param(inline)]
    by: Option<Every>,
    /// What the rows are written as.
    #[serde(default)]
    #[param(inline)]
    format: Format,
}

/// Counts key figures of live calls, a row for each week or day.
///
/// Also weeks and days without events have a row. At most 400 rows.
#[utoipa::path(
    get,
    path = "/api/admin/tenants/{tenant_id}/kpi",
    operation_id = "getKeyFigures",
    tag = "key figures",
    params(TenantPath, ShowQuery),
    responses((
        status = 200,
        description = "The rows, in the order of time.",
        content((KpiReport = "application/json"), (String = "text/csv")),
    ))
)]
pub(super) async fn show(
    State(app): State<App>,
    at: InTenant<may::Administer, ShowQuery>,
    tenant: Named,
) -> Answer {
    own(&at.caller, tenant)?;
    // It reads all events of a time: not too many of them at a time.
    let _leave = app.limits().large_answer().await?;
    let asked = KpiQuery {
        since: at.query.since,
        until: at.query.until,
        by: at.query.by,
    };
    let report = app.events.key_figures(&at.caller, asked).await?;
    match at.query.format {
        Format::Json => json(&report),
        Format::Csv => {
            let media_type = "text/csv; charset=utf-8; header=present";
            let rows = HttpBody::from(report.csv());
            Ok(attachment(media_type, "kpi.csv", rows))
        }
    }
}

/// The tenant that a path names.
type Named = Result<Path<String>, PathRejection>;

/// That the tenant of the path is the caller's; any other one looks absent.
///
/// # Errors
/// `tenant_not_found`; `invalid` for a path that cannot be read.
fn own(caller: &Caller, named: Named) -> Result<(), Problem> {
    let Path(tenant) = named.map_err(|e| Problem::new(ErrorCode::Invalid, e.body_text()))?;
    if caller.tenant().as_str() == tenant {
        return Ok(());
    }
    Err(Problem::new(
        ErrorCode::TenantNotFound,
        format!("there is no tenant {tenant:?}"),
    ))
}

/// Tells how live calls of the tenant do: key figures of the last seven days, and what happened last.
#[utoipa::path(
    get,
    path = "/api/admin/tenants/{tenant_id}/technical-status",
    operation_id = "getTechnicalStatus",
    tag = "key figures",
    params(TenantPath),
    responses(Shown<TechnicalStatus>)
)]
pub(super) async fn technical_status(
    State(app): State<App>,
    at: InTenant<may::Administer>,
    tenant: Named,
) -> Answer {
    own(&at.caller, tenant)?;
    // It reads all events of a week: not too many of them at a time.
    let _leave = app.limits().large_answer().await?;
    let status = app.events.technical_status(&at.caller).await?;
    json(&status)
}
