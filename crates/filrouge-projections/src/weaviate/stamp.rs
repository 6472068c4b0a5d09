//! The stamp of a generation: an object of its collection, in a tenant of its own, which queries of other tenants do not
//! see.

use reqwest::Method;
use serde_json::json;

use super::Weaviate;
use super::requests::STAMP_TENANT;
use crate::http::Body;
use crate::target::{Stamp, TargetError};

/// The id of the object.
const ID: &str = "00000000-0000-4000-8000-000000000000";

impl Weaviate {
    pub(super) async fn read_stamp(&self, generation: u64) -> Result<Option<Stamp>, TargetError> {
        let name = self.name(generation);
        let found = self.query(&name, STAMP_TENANT, "offset: 0", 1, "stamp");
        let object = found.await?.into_iter().next().unwrap_or_default();
        let stamp = object["stamp"].as_str().map(serde_json::from_str);
        Ok(stamp.and_then(Result::ok))
    }

    /// Weaviate compares no versions, so the stamp is read first.
    pub(super) async fn write_stamp(
        &self,
        generation: u64,
        stamp: &Stamp,
    ) -> Result<(), TargetError> {
        let stored = self.read_stamp(generation).await?;
        if stored.is_some_and(|stored| stored.commits > stamp.commits) {
            return Ok(());
        }
        let text = serde_json::to_string(stamp);
        let text = text.map_err(|e| TargetError::Refused(e.to_string()))?;
        let object = json!({
            "class": self.name(generation),
            "tenant": STAMP_TENANT,
            "id": ID,
            "properties": { "stamp": text },
        });
        let body = Body::Json(json!({ "objects": [object] }));
        let written = self.request(Method::POST, "v1/batch/objects", body).await?;
        let is_failed = written[0]["result"]["status"] == "FAILED";
        if is_failed || !written[0].is_object() {
            let message = "the stamp was not written".to_owned();
            return Err(TargetError::Unavailable(message));
        }
        Ok(())
    }
}
