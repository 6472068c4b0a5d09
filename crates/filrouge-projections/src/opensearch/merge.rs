//! Merges that remove the bytes of deleted documents.

use std::time::{Duration, Instant};

use reqwest::Method;

use super::{OpenSearch, unexpected};
use crate::TargetError;
use crate::http::{Body, Client};

/// The time after which a merge removes a deleted document. Until then, OpenSearch keeps it for copies of the shard: it
/// decides every 30 s what it keeps.
const DELAY: Duration = Duration::from_secs(75);
/// The minimum time between two merges: a merge rewrites large files.
const PAUSE: Duration = Duration::from_secs(600);

impl OpenSearch {
    /// Plans a merge of indices in which documents were deleted, unless a planned one comes late enough. It does not
    /// happen if this process ends before.
    pub(super) fn merge_later(&self, indices: Vec<String>) {
        let Some(at) = self.plan_merge(Instant::now()) else {
            return;
        };
        let client = self.client.clone();
        tokio::spawn(async move {
            tokio::time::sleep_until(at.into()).await;
            for index in &indices {
                match merge(&client, index).await {
                    // A rebuild has deleted it.
                    Ok(()) | Err(TargetError::Altered(_)) => {}
                    Err(error) => tracing::warn!(%index, %error, "deleted documents stay in files"),
                }
            }
        });
    }

    /// The time of a merge that removes what is deleted at `now`; `None` if a planned one does.
    fn plan_merge(&self, now: Instant) -> Option<Instant> {
        let mut newest = filrouge_types::lock(&self.merge_at);
        let earliest = now + DELAY;
        let at = match *newest {
            Some(planned) if planned >= earliest => return None,
            Some(planned) => earliest.max(planned + PAUSE),
            None => earliest,
        };
        *newest = Some(at);
        Some(at)
    }
}

async fn merge(client: &Client, index: &str) -> Result<(), TargetError> {
    // A merge keeps deleted documents that are not in a commit yet.
    for request in [
        "_flush",
        "_forcemerge?only_expunge_deletes=true&wait_for_completion=false",
    ] {
        let path = format!("{index}/{request}");
        let answer = client.send(Method::POST, &path, Body::None).await?;
        if !answer.status.is_success() {
            return Err(unexpected(&answer));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opensearch::OpenSearchSettings;
    use crate::{Credentials, Endpoint};

    #[test]
    fn merges_come_after_deletions_and_seldom() {
        let target = OpenSearch::new(OpenSearchSettings {
            endpoint: Endpoint {
                url: "http://localhost:9200".to_owned(),
                credentials: Credentials::Anonymous,
                timeout: PAUSE,
            },
            prefix: "filrouge".to_owned(),
            vectors: None,
        })
        .unwrap();
        let begin = Instant::now();
        let first = begin + DELAY;
        assert_eq!(target.plan_merge(begin), Some(first));
        assert_eq!(target.plan_merge(begin), None);
        // Too late for the first merge.
        let late = begin + Duration::from_secs(1);
        assert_eq!(target.plan_merge(late), Some(first + PAUSE));
        assert_eq!(target.plan_merge(late), None);
        let much_later = begin + 10 * PAUSE;
        assert_eq!(target.plan_merge(much_later), Some(much_later + DELAY));
    }
}
