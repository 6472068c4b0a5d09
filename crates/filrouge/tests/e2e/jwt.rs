//! Tokens of an issuer: which are accepted, and which callers they identify (DESIGN §8).

use std::fs;

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::caller::{Caller, key, within_five_seconds};
use crate::issuer::{
    EC, ISSUER, Issuer, NEW, OLD, PSS, RSA, Signer, WEAK, claims, claims_with, key_set, now,
};
use crate::world::{Server, World, fixture};

/// Starts a server with the section `[jwt]`: the key set at `jwks`, and additional `settings`.
fn serve(world: &World, jwks: &str, settings: &str) -> Server {
    let text = format!(
        "[jwt]\njwks = {jwks:?}\nissuer = {ISSUER:?}\naudience = \"filrouge\"\n{settings}\n"
    );
    fs::write(world.path("jwt.toml"), text).unwrap();
    world.serve_with(&["--config", "jwt.toml"])
}

/// Starts a server with the key set in a file.
pub(crate) fn serve_file(world: &World, keys: &[Signer], settings: &str) -> Server {
    fs::write(world.path("jwks.json"), key_set(keys)).unwrap();
    serve(world, world.path("jwks.json").to_str().unwrap(), settings)
}

/// The status of a request with this token: 200, or a well-formed 401.
fn status(server: &Server, token: &str) -> u16 {
    let response = Caller::with_credentials(server, token).get("");
    if response.status != 200 {
        response.fails(401, "unauthenticated");
    }
    response.status
}

#[test]
fn a_valid_token_identifies_an_end_user_of_its_tenant() {
    let world = World::new();
    let server = serve_file(&world, &[OLD, RSA, EC], "");
    for signer in [OLD, RSA, PSS, EC] {
        assert_eq!(
            status(&server, &signer.sign(&claims())),
            200,
            "{:?}",
            signer.1
        );
    }
    let ada = Caller::with_credentials(&server, &OLD.sign(&claims()));
    let created = ada.post("", &json!({ "session_id": "s" })).wrote(201);
    assert_eq!(
        (&created["identity_id"], &created["tenant_id"]),
        (&json!("ada"), &json!("acme"))
    );
    ada.for_identity("bob").get("/s").fails(403, "forbidden");
    let bob = Caller::with_credentials(&server, &EC.sign(&claims_with(json!({ "sub": "bob" }))));
    bob.get("/s").fails(404, "session_not_found");
    let other_tenant = Caller::with_credentials(
        &server,
        &EC.sign(&claims_with(json!({ "tenant": "other" }))),
    );
    other_tenant.get("/s").fails(404, "session_not_found");
    let two_audiences = claims_with(json!({ "aud": ["x", "filrouge"] }));
    assert_eq!(status(&server, &RSA.sign(&two_audiences)), 200);
    Caller::anonymous(&server)
        .get("")
        .fails(401, "unauthenticated");
    Caller::anonymous(&server)
        .send("GET", "/healthz", None)
        .is(200);

    let text = key(&world, &["--role", "auditor", "--tenant", "acme"]);
    let auditor = Caller::with_credentials(&server, &text);
    within_five_seconds("an API key works as well as tokens", || {
        auditor.get("/s").status == 200
    });
    server.stop();
    world.verify();
}

#[test]
fn a_token_that_does_not_match_the_configuration_is_refused() {
    let world = World::new();
    let server = serve_file(&world, &[OLD, RSA], "");
    assert_eq!(status(&server, &OLD.sign(&claims())), 200);
    for changes in [
        json!({ "iss": "https://elsewhere.example.org/" }),
        json!({ "iss": [ISSUER] }),
        json!({ "iss": null }),
        json!({ "aud": "another" }),
        json!({ "aud": ["another", "filrouge2"] }),
        json!({ "aud": null }),
        json!({ "exp": now() - 60 }),
        json!({ "exp": null }),
        json!({ "exp": "never" }),
        json!({ "nbf": now() + 60 }),
        json!({ "nbf": "later" }),
        json!({ "tenant": null }),
        json!({ "tenant": "" }),
        json!({ "tenant": ["acme"] }),
        json!({ "sub": null }),
        json!({ "sub": "a\u{0}b" }),
        json!({ "sub": 7 }),
    ] {
        assert_eq!(
            status(&server, &OLD.sign(&claims_with(changes.clone()))),
            401,
            "{changes}"
        );
    }
    for changes in [
        json!({ "exp": now() - 10 }),
        json!({ "nbf": now() + 10 }),
        json!({ "nbf": now() - 10, "exp": 99_999_999_999_999_u64 }),
        // A role is ignored unless the issuer is configured to assign roles.
        json!({ "role": "admin" }),
    ] {
        assert_eq!(
            status(&server, &OLD.sign(&claims_with(changes.clone()))),
            200,
            "{changes}"
        );
    }
    let admin =
        Caller::with_credentials(&server, &OLD.sign(&claims_with(json!({ "role": "admin" }))));
    admin.for_identity("bob").get("").fails(403, "forbidden");
    server.stop();
}

/// A token with any header, claims and signature.
fn forged(header: &Value, claims: &Value, signature: &str) -> String {
    let part = |value: &Value| encode_part(value.to_string().as_bytes());
    format!("{}.{}.{signature}", part(header), part(claims))
}

/// Encodes bytes in URL-safe base64 without padding.
fn encode_part(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, n| {
            bits << 8 | u32::from(*chunk.get(n).unwrap_or(&0))
        });
        for n in 0..=chunk.len() {
            let sextet = (bits >> (18 - 6 * n)) & 63;
            text.push(char::from(ALPHABET[sextet as usize]));
        }
    }
    text
}

#[test]
fn tokens_that_confuse_algorithm_and_key_are_refused() {
    let world = World::new();
    let server = serve_file(
        &world,
        &[OLD, RSA, WEAK],
        "algorithms = [\"EdDSA\", \"RS256\"]",
    );
    assert_eq!(status(&server, &RSA.sign(&claims())), 200);
    assert_eq!(
        status(&server, &PSS.sign(&claims())),
        401,
        "an algorithm that is not configured"
    );
    assert_eq!(
        status(&server, &WEAK.sign(&claims())),
        401,
        "a key of 1024 bits"
    );
    assert_eq!(status(&server, &NEW.sign(&claims())), 401, "an unknown key");

    // A public key used as a shared secret, in each form in which a server may store it.
    let pem = fs::read(fixture("jwt").join("rsa.pem")).unwrap();
    let public = OLD.public();
    let secrets = [
        public["x"].as_str().unwrap().as_bytes().to_vec(),
        RSA.public()["n"].as_str().unwrap().as_bytes().to_vec(),
        public.to_string().into_bytes(),
        pem,
        Vec::new(),
    ];
    for secret in secrets {
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            for kid in ["old", "rsa"] {
                let mut header = Header::new(algorithm);
                header.kid = Some(kid.to_owned());
                let key = EncodingKey::from_secret(&secret);
                let token = encode(&header, &claims(), &key).unwrap();
                assert_eq!(status(&server, &token), 401, "{algorithm:?}");
            }
        }
    }

    let good = OLD.sign(&claims());
    let signature = good.rsplit('.').next().unwrap();
    for header in [
        json!({ "alg": "none" }),
        json!({ "alg": "None", "kid": "old" }),
        json!({ "alg": "", "kid": "old" }),
        json!({ "kid": "old" }),
        json!({ "alg": "RS256", "kid": "old" }),
        json!({ "alg": "EdDSA", "kid": "rsa" }),
        json!({ "alg": "EdDSA", "kid": ["old"] }),
        json!({ "alg": "EdDSA", "kid": "old", "jwk": NEW.public() }),
    ] {
        for signature in ["", signature] {
            assert_eq!(
                status(&server, &forged(&header, &claims(), signature)),
                401,
                "{header}"
            );
        }
    }
    for header in [
        json!({ "alg": "EdDSA", "kid": "old", "crit": ["exp"] }),
        json!({ "alg": "EdDSA", "kid": "old", "zip": "DEF" }),
    ] {
        let signed: Header = serde_json::from_value(header.clone()).unwrap();
        let token = encode(&signed, &claims(), &OLD.private()).unwrap();
        assert_eq!(status(&server, &token), 401, "{header}");
    }
    // The claims of another user with the signature of valid claims.
    let head = good.split('.').next().unwrap();
    let claims = encode_part(claims_with(json!({ "sub": "bob" })).to_string().as_bytes());
    assert_eq!(
        status(&server, &format!("{head}.{claims}.{signature}")),
        401
    );
    for broken in [
        "a.b",
        "..",
        ".",
        "a.b.c",
        "a.b.c.d",
        &good[..good.len() - 2],
        &format!("{good}.x"),
    ] {
        assert_eq!(status(&server, broken), 401, "{broken}");
    }
    server.stop();
}

#[test]
fn roles_and_a_fixed_tenant_must_be_configured() {
    let world = World::new();
    let settings = "role_claim = \"filrouge_role\"\ntenant = \"acme\"\nidentity_claim = \"email\"";
    let server = serve_file(&world, &[OLD], settings);
    let sign = |changes: Value| OLD.sign(&claims_with(changes));
    let ada = sign(json!({ "tenant": null, "email": "ada@example.org" }));
    let ada = Caller::with_credentials(&server, &ada);
    let created = ada.post("", &json!({ "session_id": "s" })).wrote(201);
    assert_eq!(
        (&created["identity_id"], &created["tenant_id"]),
        (&json!("ada@example.org"), &json!("acme"))
    );
    let auditor = sign(json!({ "filrouge_role": "auditor" }));
    let auditor = Caller::with_credentials(&server, &auditor);
    auditor.get("/s").is(200);
    auditor.post("", &json!({})).fails(403, "forbidden");
    for refused in [
        json!({ "email": null }),
        json!({ "tenant": "other", "email": "ada@example.org" }),
        json!({ "filrouge_role": "king" }),
        json!({ "filrouge_role": ["admin"] }),
    ] {
        assert_eq!(status(&server, &sign(refused.clone())), 401, "{refused}");
    }
    server.stop();
}

#[test]
fn the_issuers_keys_are_cached_and_work_while_it_is_down() {
    let world = World::new();
    let issuer = Issuer::start(&[OLD]);
    let server = serve(&world, &issuer.url, "");
    assert_eq!(status(&server, &OLD.sign(&claims())), 200);
    assert_eq!(issuer.requests(), 1);
    issuer.publish(&[OLD, NEW]);
    // The key set was fetched a moment ago, so tokens of unknown keys do not make the server fetch it again.
    for _ in 0..20 {
        assert_eq!(status(&server, &NEW.sign(&claims())), 401);
    }
    assert_eq!(issuer.requests(), 1);
    issuer.stop_serving();
    assert_eq!(
        status(&server, &OLD.sign(&claims_with(json!({ "sub": "bob" })))),
        200
    );
    server.stop();
}

#[test]
fn a_server_starts_without_its_issuer_and_refuses_all_tokens() {
    let world = World::new();
    let issuer = Issuer::start(&[OLD]);
    issuer.stop_serving();
    let server = serve(&world, &issuer.url, "");
    assert_eq!(status(&server, &OLD.sign(&claims())), 401);
    Caller::anonymous(&server)
        .get("")
        .fails(401, "unauthenticated");
    let ready = Caller::anonymous(&server)
        .send("GET", "/readyz", None)
        .is(200);
    assert_eq!(
        (&ready["status"], &ready["issuer"]),
        (&json!("degraded"), &Value::Null)
    );
    assert!(server.log().contains("the issuer's keys cannot be fetched"));
    server.stop();
}

#[test]
fn an_invalid_issuer_configuration_is_refused() {
    let world = World::new();
    fs::write(world.path("jwks.json"), key_set(&[OLD])).unwrap();
    fs::write(world.path("weak.json"), key_set(&[WEAK])).unwrap();
    fs::write(world.path("none.json"), "{}").unwrap();
    let complete = format!("jwks = \"jwks.json\"\nissuer = {ISSUER:?}\naudience = \"filrouge\"\n");
    for (text, word) in [
        (String::new(), "needs jwks"),
        ("jwks = \"jwks.json\"\n".to_owned(), "needs jwks"),
        ("tenant = \"acme\"\n".to_owned(), "needs jwks"),
        (complete.replace("jwks.json", "absent.json"), "absent.json"),
        (complete.replace("jwks.json", "weak.json"), "no public key"),
        (
            complete.replace("jwks.json", "none.json"),
            "no JSON Web Key Set",
        ),
        (
            complete.replace("jwks.json", "https://user:pass@example.org/"),
            "user name",
        ),
        (format!("{complete}algorithms = [\"HS256\"]\n"), "HS256"),
        (format!("{complete}algorithms = [\"none\"]\n"), "none"),
        (format!("{complete}leeway_s = 301\n"), "to 300"),
        (format!("{complete}secret = \"x\"\n"), "secret"),
    ] {
        fs::write(world.path("bad.toml"), format!("[jwt]\n{text}")).unwrap();
        let output = world.run(&["--config", "bad.toml", "serve", "--listen", "127.0.0.1:0"]);
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (Some(2), ""),
            "{text}: {output:?}"
        );
        assert!(output.stderr.contains(word), "{text}: {output:?}");
        let shown = world.run(&["--config", "bad.toml", "config", "show"]);
        assert!(!format!("{shown:?}").contains("user:pass"), "{shown:?}");
    }
}
