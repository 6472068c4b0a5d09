//! The port of what computes vectors of texts. The program connects it with its embedder.

use std::fmt;
use std::sync::Arc;

use crate::TargetError;

/// Computes vectors of texts.
pub trait Vectors: Send + Sync {
    /// The number of elements of a vector. Changing it needs a rebuild.
    fn dimensions(&self) -> usize;

    /// The vectors of texts, in their order. Blocks, so it is called outside the threads of asynchronous tasks.
    ///
    /// # Errors
    /// [`TargetError::Unavailable`] if a later call can succeed.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, TargetError>;
}

impl fmt::Debug for dyn Vectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vectors of {} numbers", self.dimensions())
    }
}

/// The vectors of texts; `None` for a blank text, or one whose vector is zero: search engines refuse such a vector
/// where they compare angles.
pub(crate) async fn embed(
    vectors: &Arc<dyn Vectors>,
    texts: Vec<String>,
) -> Result<Vec<Option<Vec<f32>>>, TargetError> {
    let vectors = Arc::clone(vectors);
    let embedded = tokio::task::spawn_blocking(move || embed_useful(&*vectors, &texts));
    let failed = |e: tokio::task::JoinError| TargetError::Unavailable(format!("vectors: {e}"));
    embedded.await.map_err(failed)?
}

fn embed_useful(
    vectors: &dyn Vectors,
    texts: &[String],
) -> Result<Vec<Option<Vec<f32>>>, TargetError> {
    let sent = texts.iter().map(String::as_str);
    let sent: Vec<&str> = sent.filter(|text| !text.trim().is_empty()).collect();
    let embedded = if sent.is_empty() {
        Vec::new()
    } else {
        vectors.embed(&sent)?
    };
    if embedded.len() != sent.len() {
        let message = "vectors: another number of vectors than of texts";
        return Err(TargetError::Unavailable(message.to_owned()));
    }
    let dimensions = vectors.dimensions();
    if embedded.iter().any(|vector| vector.len() != dimensions) {
        let message = format!("a vector does not have {dimensions} numbers, as the settings say");
        return Err(TargetError::Refused(message));
    }
    let is_zero = |vector: &Vec<f32>| vector.iter().all(|number| *number == 0.0);
    let mut embedded = embedded.into_iter();
    let vector_of = |text: &String| {
        let vector = (!text.trim().is_empty()).then(|| embedded.next()).flatten();
        vector.filter(|vector| !is_zero(vector))
    };
    Ok(texts.iter().map(vector_of).collect())
}
