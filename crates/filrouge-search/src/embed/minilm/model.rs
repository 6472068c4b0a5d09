//! Loads the model from its files, and runs it.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use rten::{Model, ModelOptions, NodeId, RunOptions, ThreadPool, ValueOrView, op_registry};
use rten_tensor::prelude::*;
use rten_tensor::{NdTensor, NdTensorView};

use super::files::{DIMENSIONS, MODEL, VOCABULARY, check_installed};
use super::wordpiece::WordPiece;
use crate::embed::{EmbedError, Embedder, to_unit_length};

/// The maximum number of pieces of a text, including the two end markers: the model was not trained for longer texts.
const MAX_PIECES: usize = 256;
/// The number of end markers.
const END_MARKERS: usize = 2;
/// The names of the model's inputs, which have one number per piece: the piece's number in the vocabulary; 1 if the
/// piece counts, 0 for padding; and the sentence to which the piece belongs, 0 or 1.
const INPUTS: [&str; 3] = ["input_ids", "attention_mask", "token_type_ids"];
/// The name of the model's output: one vector per piece.
const OUTPUT: &str = "last_hidden_state";

/// The model, loaded into some 100 MB of memory.
///
/// It embeds texts one after the other, on one core, and leaves the other cores to other work.
pub struct MiniLm {
    id: String,
    wordpiece: WordPiece,
    model: Model,
    inputs: [NodeId; 3],
    output: NodeId,
    pool: Arc<ThreadPool>,
}

impl MiniLm {
    /// Loads the files that [`super::Installation`] wrote into a folder; blocks for some 0.1 s.
    ///
    /// # Errors
    /// [`EmbedError::Malformed`], which names the file that is missing or invalid.
    pub fn open(folder: &Path) -> Result<Self, EmbedError> {
        check_installed(folder)?;
        let path = folder.join(VOCABULARY.name);
        let vocabulary = fs::read_to_string(&path).map_err(|e| invalid_file(&path, &e))?;
        let wordpiece = WordPiece::read(&vocabulary)?;
        let path = folder.join(MODEL.name);
        let bytes = fs::read(&path).map_err(|e| invalid_file(&path, &e))?;
        let model = model_options()
            .load(bytes)
            .map_err(|e| invalid_file(&path, &e))?;
        let node = |name: &str| model.node_id(name).map_err(|e| invalid_file(&path, &e));
        let [pieces, attention_mask, sentence] = INPUTS;
        Ok(Self {
            // The first digits of the file's hash identify the model.
            id: format!("{}@{:.12}/{MAX_PIECES}/v1", super::NAME, MODEL.sha256),
            wordpiece,
            inputs: [node(pieces)?, node(attention_mask)?, node(sentence)?],
            output: node(OUTPUT)?,
            model,
            pool: Arc::new(ThreadPool::with_num_threads(1)),
        })
    }

    /// Returns the numbers of a text's pieces in the vocabulary: at most 256, including the two end markers. They are
    /// the model's input.
    pub fn pieces(&self, text: &str) -> Vec<i32> {
        self.wordpiece.pieces(text, MAX_PIECES)
    }

    /// Embeds one text. A text without pieces gets a vector of zeros.
    fn embed_text(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        let pieces = self.pieces(text);
        let count = pieces.len();
        if count <= END_MARKERS {
            return Ok(vec![0.0; DIMENSIONS]);
        }
        let row = |numbers| ValueOrView::from(NdTensor::from_data([1, count], numbers));
        let input_rows = [pieces, vec![1; count], vec![0; count]].map(row);
        let options = RunOptions::default().with_thread_pool(Some(self.pool.clone()));
        let inputs = self.inputs.into_iter().zip(input_rows).collect();
        let run = self.model.run(inputs, &[self.output], Some(options));
        let mut output = run.map_err(|e| model_failure(&e))?;
        let last_hidden_state = output
            .pop()
            .ok_or_else(|| model_failure(&"it returned no output"))?;
        let last_hidden_state: NdTensor<f32, 3> = last_hidden_state
            .try_into()
            .map_err(|e| model_failure(&e))?;
        mean_vector(&last_hidden_state.view(), count)
    }
}

/// Registers only the operators of the model's graph, to keep the program small.
fn model_options() -> ModelOptions {
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

/// Returns the mean of the output vectors of all `count` pieces, scaled to unit length. No piece must be left out: each
/// text is run alone, so none is padded.
fn mean_vector(pieces: &NdTensorView<'_, f32, 3>, count: usize) -> Result<Vec<f32>, EmbedError> {
    if pieces.shape() != [1, count, DIMENSIONS] {
        return Err(model_failure(&format_args!(
            "its output has the shape {:?}",
            pieces.shape()
        )));
    }
    let mut sum = vec![0.0; DIMENSIONS];
    for piece in pieces.to_vec().chunks_exact(DIMENSIONS) {
        sum.iter_mut().zip(piece).for_each(|(sum, x)| *sum += x);
    }
    // The mean and the sum of the vectors have the same direction: scaled to unit length, they are equal.
    to_unit_length(&mut sum)?;
    Ok(sum)
}

fn invalid_file(path: &Path, problem: &dyn fmt::Display) -> EmbedError {
    EmbedError::Malformed(format!("{}: {problem}", path.display()))
}

fn model_failure(problem: &dyn fmt::Display) -> EmbedError {
    EmbedError::Malformed(format!("the model failed: {problem}"))
}

impl Embedder for MiniLm {
    fn id(&self) -> &str {
        &self.id
    }

    fn dimensions(&self) -> usize {
        DIMENSIONS
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        texts.iter().map(|text| self.embed_text(text)).collect()
    }
}
