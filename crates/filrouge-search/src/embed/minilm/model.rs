//! Computing with the model.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use rten::{Model, ModelOptions, NodeId, RunOptions, ThreadPool, ValueOrView, op_registry};
use rten_tensor::prelude::*;
use rten_tensor::{NdTensor, NdTensorView};

use super::files::{DIMENSIONS, MODEL, VOCABULARY, must_hold};
use super::wordpiece::WordPiece;
use crate::embed::{EmbedError, Embedder, to_unit_length};

/// What a text is cut to, with the pieces that mark its ends: longer ones it was not made for.
const PIECES_MOST: usize = 256;
/// The pieces that mark the ends.
const ENDS: usize = 2;
/// What it is given, in this order: the pieces, which of them count, which of two sentences each is of.
const INPUTS: [&str; 3] = ["input_ids", "attention_mask", "token_type_ids"];
const OUTPUT: &str = "last_hidden_state";

/// The model, in memory: some 100 MB.
///
/// Texts are computed one after the other, on one core, so that whatever else the machine does goes on.
pub struct MiniLm {
    id: String,
    words: WordPiece,
    model: Model,
    inputs: [NodeId; 3],
    output: NodeId,
    pool: Arc<ThreadPool>,
}

impl fmt::Debug for MiniLm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MiniLm")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl MiniLm {
    /// Reads the files that [`super::Installing`] has put into a folder; blocks for some 0.1 s.
    ///
    /// # Errors
    /// [`EmbedError::Malformed`] naming the file that is missing or not what it must be.
    pub fn open(folder: &Path) -> Result<Self, EmbedError> {
        must_hold(folder)?;
        let path = folder.join(VOCABULARY.name);
        let vocabulary = fs::read_to_string(&path).map_err(|e| wrong(&path, &e))?;
        let words = WordPiece::read(&vocabulary)?;
        let path = folder.join(MODEL.name);
        let bytes = fs::read(&path).map_err(|e| wrong(&path, &e))?;
        let model = options().load(bytes).map_err(|e| wrong(&path, &e))?;
        let node = |name: &str| model.node_id(name).map_err(|e| wrong(&path, &e));
        let [pieces, counts, sentence] = INPUTS;
        Ok(Self {
            // The first digits of its file's sum say which it is.
            id: format!("{}@{:.12}/{PIECES_MOST}/v1", super::NAME, MODEL.sha256),
            words,
            inputs: [node(pieces)?, node(counts)?, node(sentence)?],
            output: node(OUTPUT)?,
            model,
            pool: Arc::new(ThreadPool::with_num_threads(1)),
        })
    }

    /// The numbers of a text's pieces, as the model is given them: at most 256, with the two that mark the ends.
    #[must_use]
    pub fn pieces(&self, text: &str) -> Vec<i32> {
        self.words.pieces(text, PIECES_MOST)
    }

    fn one(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        let pieces = self.pieces(text);
        let count = pieces.len();
        if count <= ENDS {
            return Ok(vec![0.0; DIMENSIONS]);
        }
        let row = |numbers| ValueOrView::from(NdTensor::from_data([1, count], numbers));
        let given = [pieces, vec![1; count], vec![0; count]].map(row);
        let options = RunOptions::default().with_thread_pool(Some(self.pool.clone()));
        let inputs = self.inputs.into_iter().zip(given).collect();
        let run = self.model.run(inputs, &[self.output], Some(options));
        let mut output = run.map_err(|e| computed(&e))?;
        let told = output.pop().ok_or_else(|| computed(&"nothing"))?;
        let told: NdTensor<f32, 3> = told.try_into().map_err(|e| computed(&e))?;
        mean(&told.view(), count)
    }
}

/// Only what the model's graph is made of: the program is smaller so.
fn options() -> ModelOptions {
    ModelOptions::with_ops(op_registry!(
        Add,
        And,
        Cast,
        Concat,
        Div,
        Erf,
        Expand,
        Gather,
        GatherND,
        GreaterOrEqual,
        IsNaN,
        LayerNormalization,
        MatMul,
        Max,
        Mul,
        Range,
        Reshape,
        Shape,
        Slice,
        Softmax,
        Squeeze,
        Transpose,
        Unsqueeze,
        Where
    ))
}

/// The mean of what the pieces have become, of length one. All of them count: no text is filled up to the length of
/// another.
fn mean(pieces: &NdTensorView<'_, f32, 3>, count: usize) -> Result<Vec<f32>, EmbedError> {
    if pieces.shape() != [1, count, DIMENSIONS] {
        return Err(computed(&format_args!("a shape of {:?}", pieces.shape())));
    }
    let mut sum = vec![0.0; DIMENSIONS];
    for piece in pieces.to_vec().chunks_exact(DIMENSIONS) {
        sum.iter_mut().zip(piece).for_each(|(sum, x)| *sum += x);
    }
    // A mean differs from a sum by its length, which becomes one anyway.
    to_unit_length(&mut sum)?;
    Ok(sum)
}

fn wrong(path: &Path, what: &dyn fmt::Display) -> EmbedError {
    EmbedError::Malformed(format!("{}: {what}", path.display()))
}

fn computed(what: &dyn fmt::Display) -> EmbedError {
    EmbedError::Malformed(format!("the model gives {what}"))
}

impl Embedder for MiniLm {
    fn id(&self) -> &str {
        &self.id
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        texts.iter().map(|text| self.one(text)).collect()
    }
}
