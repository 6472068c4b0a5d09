//! `/api/admin/tenants/{tenant_id}/technical-status`: how live calls of a tenant do (DESIGN §12).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body as HttpBody;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{Response, StatusCode};
use filrouge_engine::Caller;
use filrouge_engine::Engine;
use filrouge_engine::kpi::TechnicalStatus;
use filrouge_types::{ErrorCode, Failure, TenantId};
use tokio::time::Instant;

use crate::access::may;
use crate::answer::json;
use crate::extract::{InTenant, NoParameters, Query};
use crate::openapi::{Called, Large, OfTenant, Problems, Shown, Stored, TenantPath};
use crate::problem::Problem;
use crate::serve::App;

/// What is found out quicker than this is found out for every request.
const QUICK: Duration = Duration::from_millis(50);
/// What takes longer is kept for so many times as long,
const KEPT_TIMES: u32 = 20;
/// and for so long at most.
const KEPT_MAX: Duration = Duration::from_secs(10);
/// Tenants of which an answer is kept.
const TENANTS: usize = 256;

/// One tenant's answer, and until when it is given again.
type Kept = Arc<tokio::sync::Mutex<Option<(Instant, Arc<TechnicalStatus>)>>>;

/// The answers that were given lately: however often it is asked, a tenant's events are read by one request at a time, and
/// for a twentieth of the time at most once that takes long.
#[derive(Default)]
pub(crate) struct Lately(Mutex<HashMap<TenantId, Kept>>);

impl Lately {
    fn of(&self, tenant: &TenantId) -> Kept {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= TENANTS && !all.contains_key(tenant) {
            all.clear();
        }
        all.entry(tenant.clone()).or_default().clone()
    }

    async fn status(
        &self,
        engine: &Engine,
        caller: &Caller,
    ) -> Result<Arc<TechnicalStatus>, Failure> {
        let kept = self.of(caller.tenant());
        let mut kept = kept.lock().await;
        if let Some((until, status)) = kept.as_ref()
            && Instant::now() < *until
        {
            return Ok(status.clone());
        }
        let begun = Instant::now();
        let status = Arc::new(engine.events.technical_status(caller).await?);
        let took = begun.elapsed();
        *kept = (took > QUICK).then(|| {
            let until = Instant::now() + (took * KEPT_TIMES).min(KEPT_MAX);
            (until, status.clone())
        });
        Ok(status)
    }
}

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
///
/// An answer that took long to make is given again for some seconds: `as_of` tells when it was so.
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
) -> Result<Response<HttpBody>, Problem> {
    own(&at.caller, tenant)?;
    let status = app.statuses().status(app.engine(), &at.caller).await?;
    json(StatusCode::OK, &*status)
}
