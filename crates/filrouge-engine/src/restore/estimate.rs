//! Estimates the tokens of a context without a provider's tokenizer.

use super::media::is_text;
use super::plan::{
    Args, Block, Call, Content, Media, MediaSource, Message, Pair, Reasoning, ResultContent,
};

/// The estimate's name, which every report shows. The estimate is the number of UTF-8 bytes of texts, names, arguments
/// and results as recorded, divided by 4; plus 4 tokens for each piece; plus 1,500 tokens for each image or file,
/// except a text file in the ledger, whose bytes count like those of a text.
pub const ESTIMATE: &str = "bytes/4";

const TOKENS_PER_PIECE: u64 = 4;
/// For an image or a file whose bytes do not count as text.
const TOKENS_PER_MEDIA: u64 = 1500;

fn tokens_of_bytes(count: usize) -> u64 {
    (count as u64).div_ceil(4)
}

/// The tokens of a turn's blocks.
pub(super) fn blocks(blocks: &[Block]) -> u64 {
    let block = |block: &Block| match block {
        Block::Message(said) => message(said),
        Block::Calls(calls) => {
            reasoning(&calls.reasoning) + calls.calls.iter().map(call).sum::<u64>()
        }
    };
    blocks.iter().map(block).sum()
}

/// The tokens of a question and its answer.
pub(super) fn pair(pair: &Pair) -> u64 {
    2 * TOKENS_PER_PIECE
        + tokens_of_bytes(pair.question.inner().len())
        + tokens_of_bytes(pair.answer.inner().len())
}

/// The tokens of a message.
pub(super) fn message(message: &Message) -> u64 {
    TOKENS_PER_PIECE + reasoning(&message.reasoning) + contents(&message.contents)
}

fn reasoning(reasoning: &[Reasoning]) -> u64 {
    let tokens_of = |t: &Reasoning| {
        TOKENS_PER_PIECE
            + t.text
                .as_ref()
                .map_or(0, |t| tokens_of_bytes(t.inner().len()))
    };
    reasoning.iter().map(tokens_of).sum()
}

fn contents(contents: &[Content]) -> u64 {
    let content = |content: &Content| match content {
        Content::Text(text) | Content::Refusal(text) | Content::Summary(text) => {
            tokens_of_bytes(text.inner().len())
        }
        Content::Image(_) => TOKENS_PER_MEDIA,
        Content::File(file) => self::file(file),
        Content::Mark(mark) => tokens_of_bytes(mark.text().len()),
    };
    contents.iter().map(content).sum()
}

/// The tokens of a file. A text file counts by its text, because renderers insert the text where files are not
/// accepted.
fn file(file: &Media) -> u64 {
    let mime = file.mime.as_deref().unwrap_or_default();
    match &file.source {
        MediaSource::Base64(data) if is_text(mime.split(';').next().unwrap_or_default().trim()) => {
            // Base64 encodes three bytes as four characters.
            tokens_of_bytes(data.len() / 4 * 3)
        }
        _ => TOKENS_PER_MEDIA,
    }
}

fn call(call: &Call) -> u64 {
    let args = match &call.args {
        Args::Object(json) | Args::Value(json) => json.as_str().len(),
        Args::Text(text) => text.inner().len(),
    };
    let result = match &call.result.content {
        ResultContent::Contents(list) => contents(list),
        ResultContent::Value(json) => tokens_of_bytes(json.as_str().len()),
    };
    2 * TOKENS_PER_PIECE + tokens_of_bytes(call.name.len()) + tokens_of_bytes(args) + result
}
