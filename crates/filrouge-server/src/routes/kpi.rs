//! `/api/admin/tenants/{tenant_id}/…`: key figures, and the state of a tenant's live calls (DESIGN §6, §12).

use axum::body::Body as HttpBody;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use filrouge_engine::Caller;
use filrouge_engine::kpi::{Every, KpiQuery, KpiReport, TechnicalStatus};
use filrouge_store::WorkSize;
use filrouge_types::{ErrorCode, Timestamp};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::openapi::StateResponse;
use filrouge_http::access::may;
use filrouge_http::extract::TenantAccess;
use filrouge_http::problem::Problem;
use filrouge_http::response::{RouteResult, attachment, json};

/// The format of the rows.
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
pub(super) struct KeyFiguresQuery {
    /// Only events at this moment or later; by default seven days before `until`.
    since: Option<Timestamp>,
    /// Only events before this moment; by default now.
    until: Option<Timestamp>,
    /// One row for each week or day, in UTC; by default one row for the whole time.
    #[param(inline)]
    by: Option<Every>,
    /// The format of the rows.
    #[serde(default)]
    #[param(inline)]
    format: Format,
}

/// Counts key figures of live calls, with a row for each week or day.
///
/// Weeks and days without events have a row too. At most 400 rows.
#[utoipa::path(
    get,
    path = "/api/admin/tenants/{tenant_id}/kpi",
    params(KeyFiguresQuery),
    responses((
        status = 200,
        description = "The rows, in the order of time.",
        content((KpiReport = "application/json"), (String = "text/csv")),
    ))
)]
pub(super) async fn get_key_figures(
    app: App,
    access: TenantAccess<may::Administer, KeyFiguresQuery>,
    tenant: PathTenant,
) -> RouteResult {
    check_tenant(&access.caller, tenant)?;
    // The report reads all events of the time range, so the number of concurrent ones is limited.
    let _permit = app.work_permit(&access.caller, WorkSize::Small).await?;
    let query = KpiQuery {
        since: access.query.since,
        until: access.query.until,
        by: access.query.by,
    };
    let report = app.events.key_figures(&access.caller, query).await?;
    match access.query.format {
        Format::Json => json(&report),
        Format::Csv => {
            let media_type = "text/csv; charset=utf-8; header=present";
            let rows = HttpBody::from(report.csv());
            Ok(attachment(media_type, "kpi.csv", rows))
        }
    }
}

/// The path's tenant.
type PathTenant = Result<Path<String>, PathRejection>;

/// Checks that the path's tenant is the caller's; any other tenant looks absent.
///
/// # Errors
/// `tenant_not_found`; `invalid` for a path that cannot be read.
fn check_tenant(caller: &Caller, tenant: PathTenant) -> Result<(), Problem> {
    let Path(tenant) = tenant.map_err(|e| Problem::new(ErrorCode::Invalid, e.body_text()))?;
    if caller.tenant().as_str() == tenant {
        return Ok(());
    }
    let detail = format!("there is no tenant {tenant:?}");
    Err(Problem::new(ErrorCode::TenantNotFound, detail))
}

/// Reports the state of the tenant's live calls: key figures of the last seven days, and the latest events.
///
/// The figures are computed for each request, by the definitions of `getKeyFigures`.
#[utoipa::path(
    get,
    path = "/api/admin/tenants/{tenant_id}/technical-status",
    responses(StateResponse<TechnicalStatus>)
)]
pub(super) async fn get_technical_status(
    app: App,
    access: TenantAccess<may::Administer>,
    tenant: PathTenant,
) -> RouteResult {
    check_tenant(&access.caller, tenant)?;
    // The status reads all events of a week, so the number of concurrent requests is limited.
    let _permit = app.work_permit(&access.caller, WorkSize::Small).await?;
    let status = app.events.technical_status(&access.caller).await?;
    json(&status)
}
