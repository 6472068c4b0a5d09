//! Credentials are masked, and all other text stays unchanged.

mod clean;
mod members;
mod random;
mod samples;
mod turn;

use super::*;
use samples::{SAMPLES, Sample, body};

/// The text with its credentials masked, and the number of credentials.
fn masked(text: &str) -> (String, u64) {
    let mut counts = Masked::default();
    let output = mask_text(text, &mut counts).unwrap_or_else(|| text.to_owned());
    (output, counts.count)
}

fn masked_json(raw: &str) -> (String, u64) {
    let mut counts = Masked::default();
    let output = mask_json(raw, &mut counts).unwrap_or_else(|| raw.to_owned());
    serde_json::from_str::<serde_json::Value>(&output).unwrap_or_else(|e| panic!("{e}: {output}"));
    (output, counts.count)
}

fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// JSON with the escapes that PHP and .NET write.
fn escaped(text: &str) -> String {
    json(text).replace('/', "\\/").replace('+', "\\u002B")
}

/// The result of a [`MaskStream`] that receives the text in pieces of these sizes.
fn streamed(text: &str, sizes: &[usize]) -> String {
    let (mut stream, mut output, mut at, mut sizes) = (
        MaskStream::default(),
        String::new(),
        0,
        sizes.iter().cycle(),
    );
    while at < text.len() {
        let mut end = (at + sizes.next().unwrap()).min(text.len());
        while !text.is_char_boundary(end) {
            end += 1;
        }
        output.push_str(&stream.push(&text[at..end]));
        assert!(
            stream.held_back() <= 4096,
            "{} held back",
            stream.held_back()
        );
        at = end;
    }
    output + &stream.finish()
}

#[test]
fn every_sample_is_masked_in_every_context() {
    assert!(SAMPLES.len() >= 60, "{}", SAMPLES.len());
    for sample in SAMPLES {
        let Sample { secret, text } = sample.build();
        let mask = format!("[masked:{}]", sample.name);
        let expected = text.replace(&secret, &mask);
        let count = expected.matches(mask.as_str()).count() as u64;
        assert_eq!(masked(&text), (expected.clone(), count), "{}", sample.name);
        assert_eq!(masked(&expected), (expected.clone(), 0), "{}", sample.name);
        for (raw, depth) in [
            (json(&text), 1),
            (escaped(&text), 1),
            (json(&json(&text)), 2),
            (json(&escaped(&text)), 2),
        ] {
            let (output, counts) = masked_json(&raw);
            assert_eq!(counts, count, "{}: {raw}\n{output}", sample.name);
            let mut parsed = output.clone();
            for _ in 0..depth {
                parsed = serde_json::from_str(&parsed).unwrap();
            }
            assert_eq!(parsed, expected, "{}", sample.name);
            assert_eq!(masked_json(&output), (output.clone(), 0));
        }
        assert_eq!(
            masked_json(&json(&text)).0,
            json(&expected),
            "all other text stays unchanged"
        );
    }
}

#[test]
fn every_shape_has_a_sample() {
    let named: std::collections::BTreeSet<&str> = SAMPLES.iter().map(|s| s.name).collect();
    let shapes = shape::Shape::ALL.iter().map(|s| s.as_str());
    let without_form = ["runtime_context", "secret_member"];
    let expected = shapes.filter(|name| !without_form.contains(name));
    let expected = expected.collect();
    assert_eq!(named, expected);
}

#[test]
fn no_anchor_is_a_prefix_of_another() {
    for (n, (anchor, _)) in anchors::ANCHORS.iter().enumerate() {
        assert!(anchor.len() >= 3 && anchor.is_ascii());
        for (other, _) in &anchors::ANCHORS[n + 1..] {
            assert!(!anchor.starts_with(other) && !other.starts_with(anchor));
        }
    }
    let token = format!("ghp_{}", body("alnum", 36, 1));
    assert_eq!(masked(&token).1, 1, "the anchors are searched for");
}

#[test]
fn escapes_are_boundaries_and_are_kept() {
    let token = format!("npm_{}", body("alnum", 36, 3));
    for (raw, count) in [
        (format!(r#""a\n{token}\u0041""#), 1),
        (format!(r#""a\"{token}\"""#), 1),
        (format!(r#""a\u00e9{token}\\""#), 1),
        (format!(r#""a\\n{token}\\n""#), 1),
        (format!(r#""a%3D{token}%20""#), 1),
        // The first letter of the token belongs to an escape, or the token is part of a longer word.
        (format!(r#""a\{token}""#), 0),
        (format!(r#""a\\{token}""#), 0),
        (format!(r#""a{token}""#), 0),
        (format!(r#""{token}\n""#), 1),
        (
            format!(r#"{{"{token}":["{token}",1,{{"a":"{token}"}}]}}"#),
            3,
        ),
        (format!(r#""\u006epm_{}""#, &token[4..]), 1),
        (format!(r#""\\u006epm\\u005f{}""#, &token[4..]), 1),
        (
            format!(r#""{}\u00{:02x}""#, &token[..39], token.as_bytes()[39]),
            1,
        ),
    ] {
        let (output, counts) = masked_json(&raw);
        assert_eq!(counts, count, "{raw} → {output}");
        assert!(
            count == 0 || !output.contains(&token[8..]),
            "{raw} → {output}"
        );
    }
}

#[test]
fn a_stream_returns_the_same_result_as_the_complete_text() {
    for sample in SAMPLES {
        let text = format!("{} — {} é", sample.build().text, sample.build().text);
        for sizes in [&[1][..], &[3], &[7, 1, 20], &[64], &[1000]] {
            assert_eq!(
                streamed(&text, sizes),
                masked(&text).0,
                "{} {sizes:?}",
                sample.name
            );
        }
    }
}

#[test]
fn a_stream_returns_ordinary_words_at_once() {
    let mut stream = MaskStream::default();
    assert_eq!(stream.push("Bonjour, je "), "Bonjour, je ");
    assert_eq!(stream.push("suis là"), "suis là");
    assert_eq!(stream.push(" sk"), " ");
    assert_eq!(stream.push("i fast"), "ski ");
    assert_eq!(stream.finish(), "fast");
}

#[test]
fn a_credential_longer_than_the_held_back_text_is_masked_completely() {
    let lines: Vec<String> = (0..3000).map(|n| body("base64", 64, n)).collect();
    let dashes = "-".repeat(5);
    let key = format!(
        "{dashes}BEGIN RSA PRIVATE KEY{dashes}\n{}\n",
        lines.join("\n")
    );
    let end = format!("abc=\n{dashes}END RSA PRIVATE KEY{dashes}\nafter");
    let jwt = format!("{}.{}.x-y and", body("jwt", 0, 1), body("url", 50_000, 5));
    let bearer = format!("authorization: Bearer {}. End", body("url", 20_000, 7));
    for (text, masked_text) in [
        (format!("a {key}{end}"), "a [masked:private_key]\nafter"),
        (
            format!("a {key}please help"),
            "a [masked:private_key]\nplease help",
        ),
        (jwt, "[masked:jwt] and"),
        (bearer, "authorization: Bearer [masked:bearer_token]. End"),
        (" ".repeat(100_000) + "x", ""),
    ] {
        let (expected, _) = masked(&text);
        assert!(
            masked_text.is_empty() || expected == masked_text,
            "{}",
            &expected[..200.min(expected.len())]
        );
        for sizes in [&[1][..], &[100, 5000], &[1 << 20]] {
            assert_eq!(streamed(&text, sizes), expected);
        }
    }
}
