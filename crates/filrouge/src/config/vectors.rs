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

#[cfg(test)]
mod tests {
    use super::*;

    struct Failing(EmbedError);

    impl Embedder for Failing {
        fn id(&self) -> &str {
            "failing"
        }

        fn dimensions(&self) -> usize {
            3
        }

        fn embed(&self, _: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
            Err(self.0.clone())
        }
    }

    /// Only while the embedder does not answer, the projection waits without an operator.
    #[test]
    fn an_embedder_that_does_not_answer_is_called_again() {
        let embed = |error| {
            let embedder: Arc<dyn Embedder> = Arc::new(Failing(error));
            let vectors = EmbedderVectors::shared(&embedder);
            assert_eq!(vectors.dimensions(), 3);
            vectors.embed(&["text"]).unwrap_err()
        };
        let away = embed(EmbedError::Unavailable("away".to_owned()));
        assert!(matches!(away, TargetError::Unavailable(_)), "{away}");
        let refused = embed(EmbedError::Refused("wrong key".to_owned()));
        assert!(matches!(refused, TargetError::Refused(_)), "{refused}");
    }
}
