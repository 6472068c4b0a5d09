//! An issuer of tokens: its keys, its claims, and its key set at a URL.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use filrouge_types::{Clock, SystemClock};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::world::fixture;

pub(crate) const ISSUER: &str = "https://id.example.org/";

/// A key pair of the fixtures: the name of its file, and its algorithm.
#[derive(Clone, Copy)]
pub(crate) struct Signer(pub(crate) &'static str, pub(crate) Algorithm);

/// Two keys of one issuer, of which `NEW` replaces `OLD`.
pub(crate) const OLD: Signer = Signer("old", Algorithm::EdDSA);
pub(crate) const NEW: Signer = Signer("new", Algorithm::EdDSA);
pub(crate) const RSA: Signer = Signer("rsa", Algorithm::RS256);
pub(crate) const PSS: Signer = Signer("rsa", Algorithm::PS256);
pub(crate) const EC: Signer = Signer("ec", Algorithm::ES256);
/// A key of only 1024 bits.
pub(crate) const WEAK: Signer = Signer("weak", Algorithm::RS256);

impl Signer {
    pub(crate) fn private(self) -> EncodingKey {
        let pem = fs::read(fixture("jwt").join(format!("{}.pem", self.0))).unwrap();
        match self.1 {
            Algorithm::EdDSA => EncodingKey::from_ed_pem(&pem),
            Algorithm::ES256 => EncodingKey::from_ec_pem(&pem),
            _ => EncodingKey::from_rsa_pem(&pem),
        }
        .unwrap()
    }

    /// The public key as an issuer publishes it, without its algorithm.
    pub(crate) fn public(self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.private(), self.1).unwrap();
        jwk.common.key_algorithm = None;
        jwk.common.key_id = Some(self.0.to_owned());
        serde_json::to_value(jwk).unwrap()
    }

    pub(crate) fn sign(self, claims: &Value) -> String {
        let mut header = Header::new(self.1);
        header.kid = Some(self.0.to_owned());
        encode(&header, claims, &self.private()).unwrap()
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    SystemClock.now().as_micros() / 1_000_000
}

/// The claims of a valid token.
pub(crate) fn claims() -> Value {
    json!({ "iss": ISSUER, "aud": "filrouge", "sub": "ada", "tenant": "acme", "exp": now() + 600 })
}

/// Valid claims with changes; null removes a member.
pub(crate) fn claims_with(changes: Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, v| !v.is_null());
    claims
}

/// The key set of an issuer, served at a URL.
pub(crate) struct Issuer {
    pub(crate) url: String,
    set: Arc<Mutex<Option<String>>>,
    requests: Arc<AtomicU32>,
}

impl Issuer {
    pub(crate) fn start(keys: &[Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/jwks.json", listener.local_addr().unwrap());
        let set = Arc::new(Mutex::new(None));
        let requests = Arc::new(AtomicU32::new(0));
        let (served, counter) = (set.clone(), requests.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let _head: Vec<_> = lines
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty())
                    .collect();
                counter.fetch_add(1, Ordering::SeqCst);
                let set: Option<String> = served.lock().unwrap().clone();
                let (status, body) = set.map_or(("503 Down", String::new()), |s| ("200 OK", s));
                let length = body.len();
                write!(
                    stream,
                    "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                )
                .ok();
            }
        });
        let issuer = Self { url, set, requests };
        issuer.publish(keys);
        issuer
    }

    pub(crate) fn publish(&self, keys: &[Signer]) {
        *self.set.lock().unwrap() = Some(key_set(keys));
    }

    /// How often the key set was requested.
    pub(crate) fn requests(&self) -> u32 {
        self.requests.load(Ordering::SeqCst)
    }

    /// Answers all further requests with an error.
    pub(crate) fn stop_serving(&self) {
        *self.set.lock().unwrap() = None;
    }
}

/// The JSON Web Key Set of these keys.
pub(crate) fn key_set(keys: &[Signer]) -> String {
    let keys: Vec<_> = keys.iter().map(|k| k.public()).collect();
    json!({ "keys": keys }).to_string()
}
