//! `/api/admin/tenants/{tenant_id}/kpi`: key figures, a row for each week or day (DESIGN §6).

use axum::body::Body as HttpBody;
use axum::extract::State;
use filrouge_engine::kpi::{Every, KpiQuery, KpiReport};
use filrouge_types::Timestamp;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::technical_status::{Named, own};
use crate::app::App;
use crate::openapi::{Called, Large, OfTenant, Problems, Stored, TenantPath};
use filrouge_http::access::may;
use filrouge_http::answer::{Answer, attachment, json};
use filrouge_http::extract::{InTenant, Query};

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
    ), Problems<(Called, Stored, OfTenant, Large)>)
)]
pub(super) async fn show(
    State(app): State<App>,
    at: InTenant<may::Administer>,
    tenant: Named,
    Query(query): Query<ShowQuery>,
) -> Answer {
    own(&at.caller, tenant)?;
    // It reads all events of a time: not too many of them at a time.
    let _leave = app.limits().large_answer().await?;
    let asked = KpiQuery {
        since: query.since,
        until: query.until,
        by: query.by,
    };
    let report = app.engine().events.key_figures(&at.caller, asked).await?;
    match query.format {
        Format::Json => json(&report),
        Format::Csv => {
            let media_type = "text/csv; charset=utf-8; header=present";
            attachment(media_type, "kpi.csv", HttpBody::from(report.csv()))
        }
    }
}
