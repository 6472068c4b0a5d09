//! An embedder without a model, for tests and benchmarks.

use super::{EmbedError, Embedder, to_unit_length};

const DIMENSIONS: usize = 256;
/// The number of characters in a piece of a word.
const PIECE_CHARS: usize = 3;
/// The weight of an entire word. Each piece of a word has the weight 1.
const WORD_WEIGHT: f32 = 2.0;

/// An embedder that hashes words and pieces of words into 256 dimensions.
///
/// Texts are near each other if they share words or pieces of words (`retry` and `retries`); their meanings do not
/// count. The vectors are the same on every machine, as tests and benchmarks need.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hashing;

impl Embedder for Hashing {
    fn id(&self) -> &str {
        "hashing-256-v1"
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        texts.iter().map(|text| embed_text(text)).collect()
    }
}

/// Returns the vector of one text.
fn embed_text(text: &str) -> Result<Vec<f32>, EmbedError> {
    let mut vector = vec![0.0; DIMENSIONS];
    let lower = text.to_lowercase();
    for word in lower.split(|c: char| !c.is_alphanumeric()) {
        if word.is_empty() {
            continue;
        }
        add_piece(&mut vector, word, WORD_WEIGHT);
        let delimited = format!("<{word}>");
        let starts: Vec<usize> = delimited.char_indices().map(|(at, _)| at).collect();
        for (number, start) in starts.iter().enumerate() {
            let end = match starts.get(number + PIECE_CHARS) {
                Some(end) => *end,
                None if number + PIECE_CHARS == starts.len() => delimited.len(),
                None => break,
            };
            add_piece(
                &mut vector,
                delimited.get(*start..end).unwrap_or_default(),
                1.0,
            );
        }
    }
    to_unit_length(&mut vector)?;
    Ok(vector)
}

/// Adds a word or a piece of one to the vector. The lowest bits of its hash select the dimension, and the highest bit
/// selects the sign. Thus collisions cancel out on average.
fn add_piece(vector: &mut [f32], piece: &str, weight: f32) {
    let hash = stable_hash(piece);
    let sign = if hash >> 63 == 0 { weight } else { -weight };
    let at = usize::try_from(hash % DIMENSIONS as u64).unwrap_or(0);
    if let Some(dimension) = vector.get_mut(at) {
        *dimension += sign;
    }
}

/// A hash that is the same on every platform and in every build: FNV-1a, with its bits mixed as at the end of
/// MurmurHash3.
fn stable_hash(piece: &str) -> u64 {
    let hash = piece.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_words_and_pieces_are_found_and_meaning_is_not() {
        let texts = [
            "Who retries the failed upload?",
            "the upload has failed, retry",
            "send that file once more",
            "数据库迁移",
            "数据库的迁移",
        ];
        let vectors = Hashing.embed(&texts).unwrap();
        let cosine = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        let nearest = |query: usize| {
            let rows = vectors.iter().map(|row| cosine(&vectors[query], row));
            let others = rows.enumerate().filter(|(n, _)| *n != query);
            others.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap()
        };
        assert_eq!((nearest(0).0, nearest(1).0), (1, 0));
        assert_eq!((nearest(3).0, nearest(4).0), (4, 3));
        assert!(nearest(2).1 < nearest(0).1);
    }

    #[test]
    fn vectors_are_of_unit_length_and_stable() {
        let vectors = Hashing.embed(&["a snake_case word", "…", ""]).unwrap();
        let length: f32 = vectors[0].iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < 1e-5);
        assert_eq!(vectors[0].len(), Hashing.dimensions());
        // These texts have no words to embed.
        assert!(vectors[1..].iter().flatten().all(|x| *x == 0.0));
        // New vectors are compared with stored ones, so another hash function would need another id of the embedder.
        assert_eq!(
            (stable_hash(""), stable_hash("word")),
            (HASH_OF_EMPTY, HASH_OF_WORD)
        );
    }

    const HASH_OF_EMPTY: u64 = 0xecba_3df2_c338_3c52;
    const HASH_OF_WORD: u64 = 0x6f98_b9b8_0d54_d1d2;
}
