//! Writes many objects with few requests.

use std::collections::BTreeMap;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::{Weaviate, unexpected};
use crate::http::Body;
use crate::{SessionKey, TargetError};

/// The maximum number of objects of a request.
const MAX_OBJECTS: usize = 100;
/// The maximum number of characters of a request's texts, unless one object has more.
const MAX_BYTES: usize = 5 << 20;

/// An object to write.
pub(super) struct Object<'a> {
    pub(super) key: &'a SessionKey,
    pub(super) json: Value,
    /// About its size.
    pub(super) bytes: usize,
}

/// The sessions of which objects were refused, and the first reason for each.
pub(super) type RefusedSessions = BTreeMap<SessionKey, String>;

impl Weaviate {
    /// Writes objects; those that exist are replaced.
    pub(super) async fn write_objects(
        &self,
        objects: &[Object<'_>],
    ) -> Result<RefusedSessions, TargetError> {
        let (mut refused, mut remaining) = (RefusedSessions::new(), vec![objects]);
        while let Some(objects) = remaining.pop() {
            let (batch, others) = objects.split_at(batch_len(objects));
            if !others.is_empty() {
                remaining.push(others);
            }
            if batch.is_empty() || self.write_batch(batch, &mut refused).await? {
                continue;
            }
            // One of the objects is not acceptable: without it, the others are.
            if let [object] = batch {
                let reason = self.reason(object).await?;
                refused.entry(object.key.clone()).or_insert(reason);
            } else {
                let (first, second) = batch.split_at(batch.len() / 2);
                remaining.extend([second, first]);
            }
        }
        Ok(refused)
    }

    /// Writes objects with one request. Returns false if Weaviate refuses the entire request.
    async fn write_batch(
        &self,
        batch: &[Object<'_>],
        refused: &mut RefusedSessions,
    ) -> Result<bool, TargetError> {
        let objects: Vec<&Value> = batch.iter().map(|object| &object.json).collect();
        let body = Body::Json(json!({ "objects": objects }));
        let path = "v1/batch/objects";
        let answer = self.client.send(Method::POST, path, body).await?;
        let is_refused = [
            StatusCode::BAD_REQUEST,
            StatusCode::PAYLOAD_TOO_LARGE,
            StatusCode::UNPROCESSABLE_ENTITY,
        ];
        if is_refused.contains(&answer.status) {
            return Ok(false);
        }
        let results = answer.body.as_array();
        let results = results.filter(|results| results.len() == batch.len());
        let Some(results) = results.filter(|_| answer.status.is_success()) else {
            return Err(unexpected(&answer));
        };
        for (object, result) in batch.iter().zip(results) {
            if result["result"]["status"] == "FAILED" && !refused.contains_key(object.key) {
                let reason = self.reason(object).await?;
                refused.insert(object.key.clone(), reason);
            }
        }
        Ok(true)
    }

    /// Why an object was not written. A failure in a batch has no code of its own, so the object is validated alone. The
    /// text of the error is not used, because it may quote content.
    ///
    /// # Errors
    /// [`TargetError::Unavailable`] if the object is valid: then Weaviate could not write it now.
    async fn reason(&self, object: &Object<'_>) -> Result<String, TargetError> {
        let body = Body::Json(object.json.clone());
        let path = "v1/objects/validate";
        let answer = self.client.send(Method::POST, path, body).await?;
        match answer.status {
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY => {
                Ok("the object is not valid, or too large".to_owned())
            }
            status if status.is_success() => {
                let message = "a valid object was not written".to_owned();
                Err(TargetError::Unavailable(message))
            }
            _ => Err(unexpected(&answer)),
        }
    }
}

/// The number of objects in the next request.
fn batch_len(objects: &[Object<'_>]) -> usize {
    let mut bytes = 0;
    let fits = |object: &&Object<'_>| {
        bytes += object.bytes;
        bytes <= MAX_BYTES
    };
    let count = objects.iter().take(MAX_OBJECTS).take_while(fits).count();
    count.max(1).min(objects.len())
}
