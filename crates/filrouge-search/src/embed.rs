//! What a text means, as a vector (DESIGN §10): the port [`Embedder`], its implementations, and their vectors as an
//! index keeps them.
//!
//! Vectors are compared only with vectors of the same [`Embedder::id`].

mod fill;
#[cfg(any(test, feature = "hashing"))]
mod hashing;
mod http;
pub mod minilm;

use filrouge_types::{ErrorCode, Failure};

pub use fill::fill;
pub(crate) use fill::without_credentials;
#[cfg(any(test, feature = "hashing"))]
pub use hashing::Hashing;
pub use http::{Http, HttpSettings, Key};
#[cfg(feature = "minilm")]
pub use minilm::MiniLm;

/// Texts become vectors that are near each other where the texts mean the like.
///
/// Calls block, for as long as a model computes or a service answers.
pub trait Embedder: Send + Sync {
    /// Names whatever the vectors depend on: model, its file, how texts are cut. Changes whenever vectors would.
    fn id(&self) -> &str;

    /// How long each vector is.
    fn dimensions(&self) -> usize;

    /// One vector for each text, in the order of the texts: of length one, or of zeroes where a text has nothing to go
    /// by. Of a text that is longer than the model takes, the beginning counts.
    ///
    /// # Errors
    /// [`EmbedError`]; then there is no vector of any of them.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;
}

/// Why there are no vectors. Nothing of the texts nor of a key is in any of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// It does not answer now: no connection, no answer in time, too many requests, a failure of its own.
    #[error("the embedder does not answer: {0}")]
    Unavailable(String),
    /// It answers that it will not: a wrong key, model or address.
    #[error("the embedder refuses: {0}")]
    Refused(String),
    /// What it gives, or the files it is made of, are not what they must be.
    #[error("the embedder's data is not as it must be: {0}")]
    Malformed(String),
    /// A text, or an answer, is larger than is taken.
    #[error("too large for the embedder: {0}")]
    TooLarge(String),
}

impl EmbedError {
    /// What a caller is told (DESIGN §12).
    #[must_use]
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

/// A vector of unit length with eight bits for each element, as an index keeps it. Products of two of one length are
/// compared as they are: elements are measured by what they are on the average, not by the largest of each vector.
#[must_use]
pub fn quantized(exact: &[f32]) -> Vec<i8> {
    #[allow(clippy::cast_precision_loss, reason = "no vector is that long")]
    let scale = (exact.len() as f32).sqrt() * 20.0;
    // `as` keeps within the bounds, and makes what is no number 0.
    #[allow(clippy::cast_possible_truncation, reason = "meant")]
    let element = |x: &f32| (x * scale).round().clamp(-127.0, 127.0) as i8;
    exact.iter().map(element).collect()
}

/// Makes a vector's length one. One of zeroes stays as it is.
///
/// # Errors
/// [`EmbedError::Malformed`] when a number in it is none, or they are too large to have a length.
fn to_unit_length(vector: &mut [f32]) -> Result<(), EmbedError> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if !length.is_finite() {
        return Err(EmbedError::Malformed("a vector has no length".to_owned()));
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
    fn lengths_become_one() {
        let mut vector = [3.0, 0.0, -4.0];
        to_unit_length(&mut vector).unwrap();
        assert_eq!(vector, [0.6, 0.0, -0.8]);
        let mut nothing = [0.0; 3];
        to_unit_length(&mut nothing).unwrap();
        assert_eq!(nothing, [0.0; 3]);
        for wrong in [f32::NAN, f32::INFINITY, f32::MAX] {
            let told = to_unit_length(&mut [wrong, 1.0]).map_err(|e| e.code());
            assert_eq!(told, Err(ErrorCode::Internal), "{wrong}");
        }
    }

    #[test]
    fn a_caller_may_come_again_where_that_helps() {
        let why = || "why".to_owned();
        for (error, again) in [
            (EmbedError::Unavailable(why()), true),
            (EmbedError::Refused(why()), false),
            (EmbedError::Malformed(why()), false),
            (EmbedError::TooLarge(why()), false),
        ] {
            assert_eq!(error.code().retry(), again, "{error}");
            let failure = Failure::from(error.clone());
            assert_eq!(
                (failure.code, failure.detail),
                (error.code(), error.to_string())
            );
        }
    }
}
