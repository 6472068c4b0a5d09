//! `filrouge models check`

use std::io::Write;
use std::time::Instant;

use filrouge_search::embed::EmbedError;
use filrouge_types::Failure;
use serde_json::json;

use crate::config::Config;
use crate::exit::Usage;
use crate::output::{first_line, show};

/// The texts that are used when the command gives none.
const DEFAULT_TEXTS: [&str; 3] = [
    "How do I undo the last commit?",
    "revert my most recent change in git",
    "the weather in Lisbon tomorrow",
];

pub(super) fn run(config: &Config, texts: &[String]) -> anyhow::Result<()> {
    let started = Instant::now();
    let Some(embedder) = config.search.embedder()? else {
        return Err(
            Usage::new("search.embedder.kind is none: there is nothing to check")
                .with_hint("kind = \"minilm\" or \"http\" in [search.embedder]")
                .into(),
        );
    };
    let opened = started.elapsed();
    let given_texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let texts: &[&str] = if given_texts.is_empty() {
        &DEFAULT_TEXTS
    } else {
        &given_texts
    };
    let started = Instant::now();
    let vectors = embedder.embed(texts).map_err(Failure::from)?;
    let elapsed = started.elapsed();
    let first = vectors.first().map_or(&[][..], Vec::as_slice);
    if vectors.iter().any(|vector| vector.len() != first.len()) {
        return Err(EmbedError::Malformed("vectors of several lengths".to_owned()).into());
    }
    // The vectors have unit length, so their dot product is the cosine.
    let cosine = |vector: &Vec<f32>| first.iter().zip(vector).map(|(a, b)| a * b).sum::<f32>();
    let similarities: Vec<f32> = vectors.iter().map(cosine).collect();
    let (id, dimensions) = (embedder.id(), embedder.dimensions());
    let (opened, elapsed) = (opened.as_millis(), elapsed.as_millis());
    let output = json!({
        "id": id, "dimensions": dimensions, "similarities": similarities, "open_ms": opened, "embed_ms": elapsed,
    });
    show(config.json, &output, |out| {
        writeln!(out, "{id}  {dimensions} dimensions")?;
        let count = texts.len();
        writeln!(out, "opened in {opened} ms, {count} texts in {elapsed} ms")?;
        (texts.iter().zip(&similarities)).try_for_each(|(text, similarity)| {
            writeln!(out, "{similarity:6.3}  {}", first_line(text, 80))
        })
    })
}
