//! The stamp of a generation: a document of its index, which the alias for queries leaves out.

use reqwest::{Method, StatusCode};
use serde_json::json;

use super::mapping::STAMP;
use super::{OpenSearch, unexpected};
use crate::http::Body;
use crate::target::{Stamp, TargetError};

impl OpenSearch {
    pub(super) async fn read_stamp(&self, generation: u64) -> Result<Option<Stamp>, TargetError> {
        let path = format!("{}/_doc/{STAMP}?routing={STAMP}", self.index(generation));
        let mut answer = self.client.send(Method::GET, &path, Body::None).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        if !answer.status.is_success() {
            return Err(unexpected(&answer));
        }
        let stamp = answer.body["_source"][STAMP].take();
        Ok(serde_json::from_value(stamp).ok())
    }

    pub(super) async fn write_stamp(
        &self,
        generation: u64,
        stamp: &Stamp,
    ) -> Result<(), TargetError> {
        let path = format!(
            "{}/_doc/{STAMP}?routing={STAMP}&require_alias=true&version_type=external_gte&version={}",
            self.write_alias(generation),
            stamp.commits
        );
        let body = Body::Json(json!({ "doc_type": STAMP, STAMP: stamp }));
        let answer = self.client.send(Method::PUT, &path, body).await?;
        // A conflict: the index has a stamp with more commits.
        match answer.status.is_success() || answer.status == StatusCode::CONFLICT {
            true => Ok(()),
            false => Err(unexpected(&answer)),
        }
    }
}
