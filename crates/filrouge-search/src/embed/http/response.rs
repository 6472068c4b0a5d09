//! Parses the response of an embedding service.

use serde::Deserialize;

use crate::embed::{EmbedError, to_unit_length};

#[derive(Deserialize)]
struct EmbeddingResponse {
    data: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    index: usize,
    embedding: Vec<f32>,
}

/// Returns one vector of unit length per text, in the order of the texts. `bytes` is the response, which may list the
/// vectors in another order; `texts` is the number of texts that were sent.
pub(super) fn parse_vectors(
    bytes: &[u8],
    texts: usize,
    dimensions: usize,
) -> Result<Vec<Vec<f32>>, EmbedError> {
    let response: EmbeddingResponse = serde_json::from_slice(bytes).map_err(|e| {
        // The text of the error itself could quote the response.
        malformed(format!(
            "an answer that cannot be read, at line {} column {}",
            e.line(),
            e.column()
        ))
    })?;
    if response.data.len() != texts {
        return Err(malformed(format!(
            "{} vectors for {texts} texts",
            response.data.len()
        )));
    }
    let mut vectors = vec![Vec::new(); texts];
    for Embedding { index, embedding } in response.data {
        if embedding.len() != dimensions {
            let reported = embedding.len();
            return Err(malformed(format!(
                "a vector of {reported} dimensions instead of {dimensions}"
            )));
        }
        match vectors.get_mut(index) {
            Some(slot) if slot.is_empty() => *slot = embedding,
            _ => {
                return Err(malformed(format!(
                    "vector {index} is repeated or out of range: expected 0 to {}",
                    texts.saturating_sub(1)
                )));
            }
        }
    }
    vectors
        .iter_mut()
        .try_for_each(|vector| to_unit_length(vector))?;
    Ok(vectors)
}

fn malformed(message: String) -> EmbedError {
    EmbedError::Malformed(message)
}
