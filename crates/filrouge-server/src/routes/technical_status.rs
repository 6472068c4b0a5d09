//! `/api/admin/tenants/{tenant_id}/technical-status`: how live calls of a tenant do (DESIGN §12).

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use filrouge_engine::Caller;
use filrouge_engine::kpi::TechnicalStatus;
use filrouge_types::ErrorCode;

use crate::app::App;
use crate::openapi::{Called, Large, OfTenant, Problems, Shown, Stored, TenantPath};
use filrouge_http::access::may;
use filrouge_http::answer::{Answer, json};
use filrouge_http::extract::{InTenant, NoParameters, Query};
use filrouge_http::problem::Problem;

/// The tenant that a path names.
pub(super) type Named = Result<Path<String>, PathRejection>;

/// That the tenant of the path is the caller's; any other one looks absent.
///
/// # Errors
/// `tenant_not_found`; `invalid` for a path that cannot be read.
pub(super) fn own(caller: &Caller, named: Named) -> Result<(), Problem> {
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
    responses(Shown<TechnicalStatus>, Problems<(Called, Stored, OfTenant, Large)>)
)]
pub(super) async fn show(
    State(app): State<App>,
    at: InTenant<may::Administer>,
    tenant: Named,
    _: Query<NoParameters>,
) -> Answer {
    own(&at.caller, tenant)?;
    // It reads all events of a week: not too many of them at a time.
    let _leave = app.limits().large_answer().await?;
    let status = app.engine().events.technical_status(&at.caller).await?;
    json(&status)
}
