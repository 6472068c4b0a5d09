//! Lists the sessions of a collection.

use filrouge_types::{SessionId, TenantId};
use reqwest::Method;

use super::Weaviate;
use super::requests::HASHED;
use crate::http::Body;
use crate::{SessionKey, TargetError};

/// The number of objects that a page reads.
const PAGE: usize = 1_000;

impl Weaviate {
    /// The sessions of which a collection has objects, in the order of their keys.
    pub(super) async fn list_sessions(
        &self,
        collection: &str,
        after: Option<&SessionKey>,
        limit: usize,
    ) -> Result<Vec<SessionKey>, TargetError> {
        self.collection(collection).await?;
        let mut keys = Vec::new();
        for (tenant, name) in self.tenants(collection).await? {
            if after.is_some_and(|after| tenant < after.tenant) {
                continue;
            }
            let begin = after.filter(|after| after.tenant == tenant);
            let mut last = begin.map(|after| hex::encode(after.session.as_str()));
            loop {
                if keys.len() >= limit {
                    keys.truncate(limit);
                    return Ok(keys);
                }
                let page = self.sessions_page(collection, &name, last.as_deref());
                let page = page.await?;
                let Some(newest) = page.last() else {
                    break;
                };
                last = Some(newest.clone());
                keys.extend(page.iter().filter_map(|order| {
                    let bytes = hex::decode(order).ok()?;
                    let session = SessionId::new(String::from_utf8(bytes).ok()?).ok()?;
                    let tenant = tenant.clone();
                    Some(SessionKey { tenant, session })
                }));
            }
        }
        Ok(keys)
    }

    /// The tenants that a collection has, in the order of their ids, each with its name in Weaviate.
    async fn tenants(&self, collection: &str) -> Result<Vec<(TenantId, String)>, TargetError> {
        let path = format!("v1/schema/{collection}/tenants");
        let found = self.request(Method::GET, &path, Body::None).await?;
        let names = found.as_array().into_iter().flatten();
        let mut tenants = Vec::new();
        for name in names.filter_map(|tenant| tenant["name"].as_str()) {
            let id = if name.starts_with(HASHED) {
                let page = self
                    .query(collection, name, "offset: 0", 1, "tenant_id")
                    .await?;
                let object = page.into_iter().next().unwrap_or_default();
                object["tenant_id"].as_str().map(str::to_owned)
            } else {
                Some(name.to_owned())
            };
            if let Some(id) = id.and_then(|id| TenantId::new(id).ok()) {
                tenants.push((id, name.to_owned()));
            }
        }
        tenants.sort();
        Ok(tenants)
    }

    /// The sessions of a tenant after the session with the hexadecimal id `after`, from one page of objects; empty at
    /// the end.
    async fn sessions_page(
        &self,
        collection: &str,
        tenant: &str,
        after: Option<&str>,
    ) -> Result<Vec<String>, TargetError> {
        // Texts are sorted without regard to case, and hexadecimal digits have none.
        let sort = "sort: [{path: [\"session_order\"], order: asc}]";
        let filter = after.map_or_else(String::new, |after| {
            format!(
                ", where: {{path: [\"session_order\"], operator: GreaterThan, valueText: \"{after}\"}}"
            )
        });
        let arguments = format!("{sort}{filter}");
        let selection = "session_order";
        let page = self
            .query(collection, tenant, &arguments, PAGE, selection)
            .await?;
        let orders = page
            .iter()
            .filter_map(|object| object["session_order"].as_str());
        let mut orders: Vec<String> = orders.map(str::to_owned).collect();
        orders.dedup();
        Ok(orders)
    }
}
