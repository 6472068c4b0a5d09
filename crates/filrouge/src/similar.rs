//! Projections as what names similar turns to searches.

use std::sync::Arc;

use filrouge_projections::{Projection, SimilarQuery};
use filrouge_search::embed::Embedder;
use filrouge_search::{NamedTurn, SimilarQuestion, SimilarTurns};
use filrouge_types::{ErrorCode, Failure, Result};
use tokio::runtime::Handle;

use crate::config::Config;
use crate::projections::{enabled, open};

/// Projections, of which the first that has the turns of a caller names them.
struct ProjectedTurns {
    projections: Vec<Arc<Projection>>,
    runtime: Handle,
}

impl SimilarTurns for ProjectedTurns {
    fn similar(&self, question: &SimilarQuestion<'_>) -> Result<Option<Vec<NamedTurn>>> {
        let query = SimilarQuery {
            tenant: question.tenant.clone(),
            owner: question.owner.cloned(),
            text: question.text.to_owned(),
            vector: question.vector.to_vec(),
            limit: question.limit,
        };
        for projection in &self.projections {
            let found = self.runtime.block_on(projection.similar(&query));
            let found = found.map_err(|error| {
                let detail = format!("projection {}: {error}", projection.name);
                Failure::new(ErrorCode::Overloaded, detail)
            })?;
            if let Some(turns) = found {
                let turns = turns.into_iter().map(|turn| NamedTurn {
                    session: turn.session,
                    ordinal: turn.ordinal,
                    score: turn.score,
                });
                return Ok(Some(turns.collect()));
            }
        }
        Ok(None)
    }
}

/// What names similar turns to searches; `None` without projections. Must be called within the Tokio runtime.
pub(crate) fn of_projections(projections: &[Arc<Projection>]) -> Option<Arc<dyn SimilarTurns>> {
    if projections.is_empty() {
        return None;
    }
    Some(Arc::new(ProjectedTurns {
        projections: projections.to_vec(),
        runtime: Handle::current(),
    }))
}

/// As [`of_projections`], with the enabled projections of the settings. Those with wrong settings are left out with a
/// warning, because a search does not need them. `embedder` is the configured one.
pub(crate) fn configured(
    config: &Config,
    embedder: Option<&Arc<dyn Embedder>>,
) -> Option<Arc<dyn SimilarTurns>> {
    let opened = enabled(config).filter_map(|projection| match open(projection, embedder) {
        Ok(opened) => Some(Arc::new(opened)),
        Err(error) => {
            tracing::warn!("{error}; searches do not use it");
            None
        }
    });
    of_projections(&opened.collect::<Vec<_>>())
}
