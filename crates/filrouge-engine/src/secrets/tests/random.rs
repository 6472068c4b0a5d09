//! Random texts, and random sequences of pieces of credentials.

use proptest::prelude::*;

use super::{SAMPLES, body, masked, masked_json, streamed};

#[test]
fn megabytes_of_random_text_contain_no_credential() {
    for (alphabet, size) in [
        ("base64", 4),
        ("url", 4),
        ("hex", 4),
        ("alnum", 4),
        ("upper", 2),
    ] {
        let text = body(alphabet, size << 20, 42);
        assert_eq!(masked(&text).1, 0, "{alphabet}");
        let lines: Vec<&str> = (0..text.len() / 76)
            .map(|n| &text[n * 76..n * 76 + 76])
            .collect();
        assert_eq!(masked(&lines.join("\n")).1, 0, "{alphabet} in lines");
        let words: Vec<&str> = (0..text.len() / 40)
            .map(|n| &text[n * 40..n * 40 + 40])
            .collect();
        assert_eq!(masked(&words.join("\", \"")).1, 0, "{alphabet} in words");
    }
}

fn fragment() -> impl Strategy<Value = String> {
    let sample = (0..SAMPLES.len()).prop_map(|n| SAMPLES[n].build());
    prop_oneof![
        4 => sample.clone().prop_map(|s| s.text),
        3 => sample.clone().prop_map(|s| s.secret),
        // The sample is truncated, as if a text ended in the middle of it.
        3 => (sample, 0.0..1.0_f64).prop_map(|(s, part)| {
            let at = (s.secret.len() as f64 * part) as usize;
            let at = (0..=at).rev().find(|at| s.secret.is_char_boundary(*at)).unwrap();
            s.secret[..at].to_owned()
        }),
        3 => "[a-zA-Z0-9 _.:/@+=-]{0,12}",
        2 => prop::sample::select(vec!["\\n", "\\\"", "\\u0041", "\\u00e9", "\\/", "\\\\", "\n", "\"", " ", "é", "-",
            "://", "Bearer ", "authorization: ", "-----BEGIN ", "PRIVATE KEY-----", "-----END ", "sk-", ":AA", "eyJ", "%3D",
            "[masked:jwt]", "basic ", "\\u002b", "\\", "@", ":", "."]).prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000,
        rng_seed: proptest::test_runner::RngSeed::Fixed(5), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn masking_is_idempotent_and_a_stream_equals_the_complete_text(
        fragments in prop::collection::vec(fragment(), 1..10),
        sizes in prop::collection::vec(1..90_usize, 1..8),
    ) {
        let text = fragments.concat();
        let (masked_text, _) = masked(&text);
        let (masked_again, further_count) = masked(&masked_text);
        prop_assert_eq!((&masked_again, further_count), (&masked_text, 0), "{}", text);
        prop_assert_eq!(streamed(&text, &sizes), masked_text, "{}", text);
    }

    #[test]
    fn masked_json_is_json_and_is_not_masked_again(fragments in prop::collection::vec(fragment(), 1..8)) {
        let text = fragments.concat();
        let raw = serde_json::to_string(&[&text, "b"]).unwrap();
        let (output, _) = masked_json(&raw);
        let nested = serde_json::to_string(&serde_json::json!({ "args": raw })).unwrap();
        let (masked_nested, _) = masked_json(&nested);
        let args: serde_json::Value = serde_json::from_str(&masked_nested).unwrap();
        let args = args["args"].as_str().unwrap();
        prop_assert!(serde_json::from_str::<serde_json::Value>(args).is_ok(), "{}", args);
        prop_assert_eq!(masked_json(&output).1, 0, "{}", output);
    }
}
