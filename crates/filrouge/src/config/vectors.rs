//! The configured embedder in the form in which targets of projections use it.

use std::sync::Arc;

use filrouge_projections::{TargetError, Vectors};
use filrouge_search::embed::{EmbedError, Embedder};

/// The embedder whose vectors a projection stores.
pub(super) struct EmbedderVectors(Arc<dyn Embedder>);

impl EmbedderVectors {
    /// The embedder as the port that targets use.
    pub(super) fn shared(embedder: &Arc<dyn Embedder>) -> Arc<dyn Vectors> {
        Arc::new(Self(embedder.clone()))
    }
}

impl Vectors for EmbedderVectors {
    fn dimensions(&self) -> usize {
        self.0.dimensions()
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, TargetError> {
        self.0.embed(texts).map_err(|error| match error {
            EmbedError::Unavailable(_) => TargetError::Unavailable(error.to_string()),
            error => TargetError::Refused(error.to_string()),
        })
    }
}
