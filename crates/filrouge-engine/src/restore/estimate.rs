//! Estimates the tokens of a context without a provider's tokenizer.

use super::media::is_text;
use super::plan::{
    Args, Block, Call, Content, Media, MediaSource, Pair, Reasoning, ResultContent, Say,
};

/// The estimate's name, which every report shows. The estimate is the number of UTF-8 bytes of texts, names, arguments
/// and results as recorded, divided by 4; plus 4 tokens for each piece; plus 1,500 tokens for each image or file,
/// except a text file in the ledger, which counts by its bytes like a text.
pub const ESTIMATE: &str = "bytes/4";

const PIECE: u64 = 4;
const MEDIA: u64 = 1500;

fn bytes(n: usize) -> u64 {
    (n as u64).div_ceil(4)
}

/// The tokens of a turn's blocks.
pub(super) fn blocks(blocks: &[Block]) -> u64 {
    let block = |block: &Block| match block {
        Block::Say(said) => say(said),
        Block::Calls(calls) => {
            thoughts(&calls.reasoning) + calls.calls.iter().map(call).sum::<u64>()
        }
    };
    blocks.iter().map(block).sum()
}

/// The tokens of a question and its answer.
pub(super) fn pair(pair: &Pair) -> u64 {
    2 * PIECE + bytes(pair.question.inner().len()) + bytes(pair.answer.inner().len())
}

/// The tokens of a message.
pub(super) fn say(say: &Say) -> u64 {
    PIECE + thoughts(&say.reasoning) + contents(&say.contents)
}

fn thoughts(thoughts: &[Reasoning]) -> u64 {
    let thought = |t: &Reasoning| PIECE + t.text.as_ref().map_or(0, |t| bytes(t.inner().len()));
    thoughts.iter().map(thought).sum()
}

fn contents(contents: &[Content]) -> u64 {
    let content = |content: &Content| match content {
        Content::Text(text) | Content::Refusal(text) | Content::Summary(text) => {
            bytes(text.inner().len())
        }
        Content::Image(_) => MEDIA,
        Content::File(file) => self::file(file),
        Content::Mark(mark) => bytes(mark.text().len()),
    };
    contents.iter().map(content).sum()
}

/// The tokens of a file. A text file counts by its text, because renderers insert the text where files are not
/// accepted.
fn file(file: &Media) -> u64 {
    let mime = file.mime.as_deref().unwrap_or_default();
    match &file.source {
        MediaSource::Base64(data) if is_text(mime.split(';').next().unwrap_or_default().trim()) => {
            bytes(data.len() / 4 * 3)
        }
        _ => MEDIA,
    }
}

fn call(call: &Call) -> u64 {
    let args = match &call.args {
        Args::Object(json) | Args::Value(json) => json.as_str().len(),
        Args::Text(text) => text.inner().len(),
    };
    let result = match &call.result.content {
        ResultContent::Contents(list) => contents(list),
        ResultContent::Value(json) => bytes(json.as_str().len()),
    };
    2 * PIECE + bytes(call.name.len()) + bytes(args) + result
}
