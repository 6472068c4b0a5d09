//! Tokens: rotation of their issuer's keys, and their expiry, with a clock that the test advances.

use std::path::Path;

use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::json;

use super::*;

/// The time of verification, in seconds since 1970.
const NOW: i64 = 1_000_000_000;

/// The Ed25519 key pair of a seed.
fn signer(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
}

/// A valid token of a subject, signed by the key pair of a seed.
fn token(seed: u8, subject: &str) -> String {
    let head = json!({ "typ": "JWT", "alg": "EdDSA", "kid": seed.to_string() });
    let claims =
        json!({ "iss": "i", "aud": "a", "sub": subject, "tenant": "t", "exp": NOW + 100_000 });
    encode(&head, &claims, seed)
}

fn encode(head: &Value, claims: &Value, seed: u8) -> String {
    let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encoded(head), encoded(claims));
    let signature = signer(seed).sign(signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

/// Writes the issuer's file of public keys.
fn write_keys(path: &Path, seeds: &[u8]) {
    let keys = seeds.iter().map(|seed| {
        let x = URL_SAFE_NO_PAD.encode(signer(*seed).public_key());
        json!({ "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "x": x, "kid": seed.to_string() })
    });
    let keys: Vec<_> = keys.collect();
    std::fs::write(path, json!({ "keys": keys }).to_string()).unwrap();
}

fn settings(path: &Path) -> JwtSettings {
    JwtSettings {
        jwks: JwksSource::File(path.to_owned()),
        issuer: "i".to_owned(),
        audience: "a".to_owned(),
        tenant: None,
        tenant_claim: "tenant".to_owned(),
        identity_claim: "sub".to_owned(),
        role_claim: None,
        leeway: Duration::from_secs(30),
        algorithms: JwtAlgorithm::all(),
    }
}

async fn accepts(verifier: &Verifier, token: &str) -> bool {
    let now = Timestamp::from_micros(NOW * 1_000_000);
    verifier.verify(token, now).await.is_some()
}

#[tokio::test(start_paused = true)]
async fn keys_are_fetched_again_when_the_issuer_rotates_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks.json");
    write_keys(&path, &[1]);
    let verifier = Verifier::start(settings(&path)).await.unwrap();
    assert!(accepts(&verifier, &token(1, "ada")).await);

    write_keys(&path, &[1, 2]);
    assert!(
        !accepts(&verifier, &token(2, "ada")).await,
        "keys are not fetched again before the gap has passed"
    );
    tokio::time::advance(FETCH_GAP).await;
    assert!(accepts(&verifier, &token(2, "ada")).await);
    assert!(accepts(&verifier, &token(1, "bob")).await);

    std::fs::remove_file(&path).unwrap();
    tokio::time::advance(FETCH_EVERY).await;
    verifier.refresh_if_old().await;
    assert!(verifier.last_failure().is_some());
    assert!(
        accepts(&verifier, &token(1, "eve")).await,
        "the keys last read stay valid"
    );

    write_keys(&path, &[2]);
    verifier.refresh_if_old().await;
    assert!(
        verifier.last_failure().is_some(),
        "no retry before the gap has passed"
    );
    tokio::time::advance(FETCH_GAP).await;
    verifier.refresh_if_old().await;
    assert_eq!(verifier.last_failure(), None);
    assert!(
        !accepts(&verifier, &token(1, "ada")).await,
        "cached tokens are dropped too"
    );
    assert!(accepts(&verifier, &token(2, "ada")).await);
}

#[tokio::test(start_paused = true)]
async fn a_header_with_extensions_or_compression_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks.json");
    write_keys(&path, &[1]);
    let verifier = Verifier::start(settings(&path)).await.unwrap();
    let claims = json!({ "iss": "i", "aud": "a", "sub": "ada", "tenant": "t", "exp": NOW + 100 });
    let mut head = json!({ "alg": "EdDSA", "kid": "1" });
    assert!(accepts(&verifier, &encode(&head, &claims, 1)).await);
    for (name, value) in [
        ("crit", json!(null)),
        ("crit", json!(["exp"])),
        ("zip", json!(null)),
        ("zip", json!("DEF")),
    ] {
        head[name] = value;
        assert!(
            !accepts(&verifier, &encode(&head, &claims, 1)).await,
            "{head}"
        );
        head.as_object_mut().unwrap().remove(name);
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_of_unknown_keys_cost_one_fetch_even_if_it_fails() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks.json");
    write_keys(&path, &[1]);
    let verifier = Verifier::start(settings(&path)).await.unwrap();
    tokio::time::advance(FETCH_GAP).await;
    std::fs::remove_file(&path).unwrap();
    assert!(!accepts(&verifier, &token(2, "ada")).await);
    assert!(verifier.last_failure().is_some());

    write_keys(&path, &[1, 2]);
    assert!(
        !accepts(&verifier, &token(2, "ada")).await,
        "the keys are not fetched again before the gap has passed"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cached_token_expires_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks.json");
    write_keys(&path, &[1]);
    let verifier = Verifier::start(settings(&path)).await.unwrap();
    let token = token(1, "ada");
    for (seconds, accepted) in [(0, true), (100_029, true), (100_030, false), (0, true)] {
        let now = Timestamp::from_micros((NOW + seconds) * 1_000_000);
        let verified = verifier.verify(&token, now).await;
        assert_eq!(verified.is_some(), accepted, "{seconds}");
    }
    let now = Timestamp::from_micros((NOW + 100_030) * 1_000_000);
    let fresh = Verifier::start(settings(&path)).await.unwrap();
    assert!(fresh.verify(&token, now).await.is_none());
    // A token that names no key is verified by the only key for its algorithm.
    let claims = json!({ "iss": "i", "aud": "a", "sub": "s", "tenant": "t", "exp": NOW + 1 });
    let without_key_id = encode(&json!({ "alg": "EdDSA" }), &claims, 1);
    assert!(accepts(&fresh, &without_key_id).await);
    write_keys(&path, &[1, 2]);
    let two_keys = Verifier::start(settings(&path)).await.unwrap();
    assert!(!accepts(&two_keys, &without_key_id).await);
}
