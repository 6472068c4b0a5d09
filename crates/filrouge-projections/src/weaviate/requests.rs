//! The requests about the objects of a collection.

use filrouge_types::TenantId;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Weaviate, unexpected};
use crate::TargetError;
use crate::http::{Body, ClientError, MAX_RESPONSE_BYTES};

/// The maximum number of objects of a response.
const PAGE: usize = 100;
/// The number of objects that a response about several sessions has.
const PAGE_OF_SESSIONS: usize = 1_000;
/// The maximum number of bytes of a response with several objects. One object may have more.
const PAGE_BYTES: usize = 16 << 20;

/// The objects of a session in a collection.
pub(super) struct Place<'a> {
    pub(super) collection: &'a str,
    /// The name of the tenant in Weaviate.
    pub(super) tenant: &'a str,
    pub(super) digest: &'a str,
}

/// The name of a tenant in Weaviate, which has at most 64 letters, digits, `-` and `_`. Another tenant gets a name from
/// the hash of its id.
pub(super) fn tenant_name(tenant: &TenantId) -> String {
    let text = tenant.as_str();
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if text.len() <= 64 && text.bytes().all(is_allowed) && !text.starts_with(HASHED) {
        return text.to_owned();
    }
    format!("{HASHED}{}", hex::encode(&Sha256::digest(text)[..16]))
}

/// The beginning of a name that comes from a hash.
pub(super) const HASHED: &str = "x-";
/// The tenant with a generation's stamp. Names that come from a hash are longer.
pub(super) const STAMP_TENANT: &str = "x-stamp";

impl Weaviate {
    /// The selected properties of a session's objects, in the order of their places.
    pub(super) async fn objects(
        &self,
        place: &Place<'_>,
        selection: &str,
    ) -> Result<Vec<Value>, TargetError> {
        let selection = format!("place {selection} _additional {{id}}");
        let (collection, tenant) = (place.collection, place.tenant);
        let (mut objects, mut size) = (Vec::new(), PAGE);
        let mut last_place = -1;
        loop {
            let arguments = format!(
                "where: {{operator: And, operands: [\
                 {{path: [\"session_digest\"], operator: Equal, valueText: \"{}\"}}, \
                 {{path: [\"place\"], operator: GreaterThan, valueNumber: {last_place}}}]}}, \
                 sort: [{{path: [\"place\"], order: asc}}]",
                place.digest
            );
            let max_bytes = match size {
                1 => MAX_RESPONSE_BYTES,
                _ => PAGE_BYTES,
            };
            let page =
                self.query_within(collection, tenant, &arguments, size, &selection, max_bytes);
            let page = match page.await? {
                None if size > 1 => {
                    size /= 2;
                    continue;
                }
                page => page.ok_or(ClientError::TooLarge(max_bytes))?,
            };
            let is_last = page.len() < size;
            last_place = page
                .last()
                .and_then(|object| object["place"].as_i64())
                .unwrap_or(i64::MAX);
            objects.extend(page);
            if is_last {
                return Ok(objects);
            }
        }
    }

    /// The selected properties of the objects of some sessions, and their ids, in any order. One query reads all of
    /// them if they fit into its response.
    pub(super) async fn objects_of_sessions(
        &self,
        (collection, tenant): (&str, &str),
        digests: &[String],
        selection: &str,
    ) -> Result<Vec<Value>, TargetError> {
        if digests.len() > 1 {
            let condition = |digest: &String| {
                format!("{{path: [\"session_digest\"], operator: Equal, valueText: \"{digest}\"}}")
            };
            let conditions: Vec<String> = digests.iter().map(condition).collect();
            let conditions = conditions.join(", ");
            let arguments = format!("where: {{operator: Or, operands: [{conditions}]}}");
            let selection = format!("{selection} _additional {{id}}");
            let found = self
                .query(collection, tenant, &arguments, PAGE_OF_SESSIONS, &selection)
                .await?;
            if found.len() < PAGE_OF_SESSIONS {
                return Ok(found);
            }
        }
        let mut objects = Vec::new();
        for digest in digests {
            let place = Place {
                collection,
                tenant,
                digest,
            };
            objects.extend(self.objects(&place, selection).await?);
        }
        Ok(objects)
    }

    /// Runs a query; without the tenant in the collection, nothing is found.
    pub(super) async fn query(
        &self,
        collection: &str,
        tenant: &str,
        arguments: &str,
        limit: usize,
        selection: &str,
    ) -> Result<Vec<Value>, TargetError> {
        let max_bytes = MAX_RESPONSE_BYTES;
        let found = self.query_within(collection, tenant, arguments, limit, selection, max_bytes);
        Ok(found.await?.ok_or(ClientError::TooLarge(max_bytes))?)
    }

    /// As [`Self::query`]; `None` if the response has more than `max_bytes`.
    async fn query_within(
        &self,
        collection: &str,
        tenant: &str,
        arguments: &str,
        limit: usize,
        selection: &str,
        max_bytes: usize,
    ) -> Result<Option<Vec<Value>>, TargetError> {
        let query = format!(
            "{{Get {{{collection}(tenant: \"{tenant}\", limit: {limit}, {arguments}) {{{selection}}}}}}}"
        );
        let body = Body::Json(json!({ "query": query }));
        let (path, client) = ("v1/graphql", &self.client);
        let answer = client.send_within(Method::POST, path, body, max_bytes);
        let mut answer = match answer.await {
            Err(ClientError::TooLarge(_)) => return Ok(None),
            answer => answer?,
        };
        let has_errors = answer.body["errors"]
            .as_array()
            .is_some_and(|e| !e.is_empty());
        if answer.status.is_success() && !has_errors {
            return match answer.body["data"]["Get"][collection].take() {
                Value::Array(objects) => Ok(Some(objects)),
                _ => Ok(Some(Vec::new())),
            };
        }
        // The errors of queries have no codes.
        self.collection(collection).await?;
        let path = format!("v1/schema/{collection}/tenants/{tenant}");
        let tenant = self.client.send(Method::GET, &path, Body::None).await?;
        if tenant.status.as_u16() == 404 {
            return Ok(Some(Vec::new()));
        }
        let message = "a query failed, although its collection and its tenant exist";
        Err(TargetError::Unavailable(message.to_owned()))
    }

    /// The definition of a collection.
    ///
    /// # Errors
    /// [`TargetError::Altered`] if it does not exist.
    pub(super) async fn collection(&self, name: &str) -> Result<Value, TargetError> {
        let path = format!("v1/schema/{name}");
        let answer = self.client.send(Method::GET, &path, Body::None).await?;
        if answer.status.is_success() {
            return Ok(answer.body);
        }
        Err(unexpected(&answer))
    }

    /// Deletes the objects of a session with versions up to `up_to`.
    pub(super) async fn delete(&self, place: &Place<'_>, up_to: u64) -> Result<(), TargetError> {
        let path = format!("v1/batch/objects?tenant={}", place.tenant);
        loop {
            let body = json!({
                "match": {
                    "class": place.collection,
                    "where": {
                        "operator": "And",
                        "operands": [
                            {
                                "path": ["session_digest"],
                                "operator": "Equal",
                                "valueText": place.digest,
                            },
                            {
                                "path": ["version"],
                                "operator": "LessThanEqual",
                                "valueNumber": up_to,
                            },
                        ],
                    },
                },
                "output": "minimal",
            });
            let body = Body::Json(body);
            let answer = self.client.send(Method::DELETE, &path, body).await?;
            if !answer.status.is_success() {
                return Err(unexpected(&answer));
            }
            let results = &answer.body["results"];
            if results["failed"].as_u64().unwrap_or_default() > 0 {
                let message = "some objects were not deleted".to_owned();
                return Err(TargetError::Unavailable(message));
            }
            // One request deletes a limited number of objects.
            if results["successful"].as_u64().unwrap_or_default() == 0 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_have_different_names() {
        let name = |tenant: &str| tenant_name(&tenant.parse().unwrap());
        assert_eq!(name("acme_1-a"), "acme_1-a");
        assert_eq!(name(&"a".repeat(64)), "a".repeat(64));
        let hashed = ["a b", "é", "x-1", &"a".repeat(65), "a/b"].map(name);
        for (at, name) in hashed.iter().enumerate() {
            assert!(name.starts_with(HASHED) && name.len() <= 64, "{name}");
            assert!(!hashed[..at].contains(name), "{name}");
        }
    }
}
