//! Embeddings (DESIGN §10): the port [`Embedder`], its implementations, and the form in which an index stores vectors.
//!
//! Two vectors are compared only if embedders with the same [`Embedder::id`] computed them.

mod fill;
#[cfg(any(test, feature = "hashing"))]
mod hashing;
mod http;
pub mod minilm;

use filrouge_types::{ErrorCode, Failure};

pub use fill::embed_documents;
pub(crate) use fill::{embed_texts, without_credentials};
#[cfg(any(test, feature = "hashing"))]
pub use hashing::Hashing;
pub use http::{Http, HttpSettings, Key};
#[cfg(feature = "minilm")]
pub use minilm::MiniLm;

/// Turns texts into vectors, such that texts with similar meanings have vectors that are near each other.
///
/// Calls block while a model computes or a service answers.
pub trait Embedder: Send + Sync {
    /// Identifies everything on which the vectors depend: the model, its file, and how texts are cut. The id must
    /// change whenever the vectors would change.
    fn id(&self) -> &str;

    /// The number of elements of each vector.
    fn dimensions(&self) -> usize;

    /// Returns one vector for each text, in the order of the texts. A vector has unit length, or is all zeroes if its
    /// text has no content to embed. A text that is longer than the model accepts is truncated.
    ///
    /// # Errors
    /// [`EmbedError`]: then no vectors are returned, even if only one text failed.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;
}

/// The reason why embedding failed. No error contains any part of a text or a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The embedder does not answer at the moment: there is no connection, no answer in time, too many requests, or an
    /// internal failure.
    #[error("the embedder does not answer: {0}")]
    Unavailable(String),
    /// The embedder rejects the request: a wrong key, model or address.
    #[error("the embedder refuses: {0}")]
    Refused(String),
    /// The embedder's output, settings or model files are invalid.
    #[error("the embedder's data is invalid: {0}")]
    Malformed(String),
    /// A text or an answer exceeds a limit.
    #[error("too large for the embedder: {0}")]
    TooLarge(String),
}

impl EmbedError {
    /// The error code that a caller of filrouge gets (DESIGN §12).
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Unavailable(_) => ErrorCode::Overloaded,
            Self::Refused(_) | Self::Malformed(_) => ErrorCode::Internal,
            Self::TooLarge(_) => ErrorCode::LimitExceeded,
        }
    }
}

impl From<EmbedError> for Failure {
    fn from(error: EmbedError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

/// The scale of [`quantize`], for a vector with one element.
const SCALE: f32 = 20.0;

/// The product of two equal vectors of unit length with `dimensions` elements, after [`quantize`].
#[allow(clippy::cast_precision_loss, reason = "no vector is that long")]
pub(crate) fn greatest_product(dimensions: usize) -> f64 {
    f64::from(SCALE * SCALE) * dimensions as f64
}

/// Quantizes a vector of unit length to eight bits per element, the form in which an index stores it. The scale depends
/// only on the number of elements, not on the largest element of the vector. So the products of quantized vectors with
/// the same number of elements can be compared directly.
pub fn quantize(exact: &[f32]) -> Vec<i8> {
    #[allow(clippy::cast_precision_loss, reason = "no vector is that long")]
    let scale = (exact.len() as f32).sqrt() * SCALE;
    // The conversion `as` saturates, and turns NaN into 0.
    #[allow(clippy::cast_possible_truncation, reason = "saturation is intended")]
    let element = |x: &f32| (x * scale).round().clamp(-127.0, 127.0) as i8;
    exact.iter().map(element).collect()
}

/// Scales a vector to unit length. A zero vector stays unchanged.
///
/// # Errors
/// [`EmbedError::Malformed`] when an element is not a number, or the length is not finite.
fn to_unit_length(vector: &mut [f32]) -> Result<(), EmbedError> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if !length.is_finite() {
        return Err(EmbedError::Malformed(
            "a vector has no finite length".to_owned(),
        ));
    }
    if length > 0.0 {
        vector.iter_mut().for_each(|x| *x /= length);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_scaled_to_unit_length() {
        let mut vector = [3.0, 0.0, -4.0];
        to_unit_length(&mut vector).unwrap();
        assert_eq!(vector, [0.6, 0.0, -0.8]);
        let mut nothing = [0.0; 3];
        to_unit_length(&mut nothing).unwrap();
        assert_eq!(nothing, [0.0; 3]);
        for wrong in [f32::NAN, f32::INFINITY, f32::MAX] {
            let result = to_unit_length(&mut [wrong, 1.0]).map_err(|e| e.code());
            assert_eq!(result, Err(ErrorCode::Internal), "{wrong}");
        }
    }

    #[test]
    fn only_an_unavailable_embedder_is_retryable() {
        let why = || "why".to_owned();
        for (error, retryable) in [
            (EmbedError::Unavailable(why()), true),
            (EmbedError::Refused(why()), false),
            (EmbedError::Malformed(why()), false),
            (EmbedError::TooLarge(why()), false),
        ] {
            assert_eq!(error.code().retry(), retryable, "{error}");
            let failure = Failure::from(error.clone());
            assert_eq!(
                (failure.code, failure.detail),
                (error.code(), error.to_string())
            );
        }
    }
}
