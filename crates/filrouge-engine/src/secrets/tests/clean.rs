//! Texts without credentials: nothing in them is masked.

use std::fs;
use std::path::{Path, PathBuf};

use super::{body, masked, masked_json, streamed};

const TEXTS: &[&str] = &[
    // Placeholders.
    "set OPENAI_API_KEY=sk-... and go on",
    "OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "sk-test-your-key-goes-right-here, sk-live-streaming-of-answers-by-words",
    "sk-your-key-here, sk-ant-your-api-key-goes-right-here, sk-proj-xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx or ghp_<your token> or ghp_…",
    "AKIAXXXXXXXXXXXXXXXX, AKIA…, an id begins with AKIA",
    "Authorization: Bearer <token>",
    "Authorization: Bearer ${TOKEN}",
    "Authorization: Bearer $TOKEN",
    "Authorization: Bearer YOUR_ACCESS_TOKEN",
    "Authorization: Bearer {{ token }}",
    "-H \"Authorization: Bearer $(gcloud auth print-access-token)\"",
    "Authorization: Basic <credentials>, Authorization: Basic $BASIC",
    "aws_secret_access_key = <secret>, AWS_SECRET_ACCESS_KEY=${AWS_SECRET}",
    "AWS_SECRET_ACCESS_KEY_ID and aws_secret_access_key: see the vault",
    "AccountKey=<key>;AccountKey=${KEY}",
    "postgres://${USER}:${PASSWORD}@db/prod, postgres://user:<password>@db, mysql://u:$PW@h, ftp://u:****@h",
    "redis://user:{password}@host, amqp://user:%s@host, http://%(user)s:%(pw)s@host, https://u:xxxx@h",
    "hooks.slack.com/services/T00000000/B00000000/XXXXXXXX, https://hooks.slack.com/services/...",
    "xoxb-your-token, xoxb-..., xoxp-<token>",
    "-----BEGIN RSA PRIVATE KEY-----\n...\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\\n<your key>\\n-----END PRIVATE KEY-----",
    "it begins with -----BEGIN PRIVATE KEY----- and then comes the key",
    "npm_config_registry=x, npm_lifecycle_event, hf_hub_download(repo), frk_…, glpat-<token>",
    "whsec_..., sk_live_..., rk_live_<key>, pk_live_abcdefghijklmnopqrstuvwx",
    "[masked:github_token] [masked:url_password] https://u:[masked:url_password]@h",
    // Addresses.
    "http://localhost:8080/@user, https://example.com:443/a:b@c, https://medium.com/@user:x/a",
    "git@github.com:owner/repo.git ssh://git@host:22/x https://user@host:8080/x?a=b:c@d",
    "https://cdn.example/npm/vue@3.4.0, https://x/?next=https://y:z/@, mailto:a:b@c.example",
    "a://b http://[::1]:8080/@x file:///etc/x:y@z \"http://\"+host+\":\"+port+\"@\"",
    "jeanne.darc@example.org, <a@b.example>, npm:@scope/pkg@1.2.3",
    // Words that look like the start of a credential.
    "task-1234567890abcdef1234567890 risk-management-abcdefghijklmnop1 disk-9f86d081884c7d659a2feaa0",
    "desk-key-9f86d081884c7d659a2feaa0c55ad015 and primary-key-9f86d081884c7d659a2feaa0c55ad015",
    "ASKIA ASIAN MARKETS, AKIAH, BASIC INSTINCT, the bearer of bad news, basic understanding of things",
    "a basic configuration, Basic authentication, basic YWJj, Bearer authentication is described in RFC 6750",
    "SKILLS SK123 SK-2024, SG.1 SG.MSG.TEXT, eyJ0 eyJ.eyJ, chmod ya29.x",
    "1234567890:AAPL 12:AA:34:56:78:9a, ratio 123456789:1",
    "for x in y: AAAA; foo.bar.baz_qux.MNOPQRSTUVWXYZ",
    "class Sk-loading-indicator-for-the-dashboard, .sk-chase-dot:nth-child(1), sk-SK, sk-circle-fade-dot-12",
    "C:\\new\\frk_test\\npm_cache\\rk_live_x",
    // Digests and ids.
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "commit da39a3ee5e6b4b0d3255bfef95601890afd80709 (HEAD -> main)",
    "550e8400-e29b-41d4-a716-446655440000 01ARZ3NDEKTSV4RRFFQ69G5FAV ses_6a1b2c3d4e5fFGHIJKLMNOPQRS",
    "sha512-z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg==",
    "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGZvbw jeanne@host",
    "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQmFzZTY0IHRleHQgd2l0aG91dCBzZWNyZXRz\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEabcdefabcdefabcdefabcdef\n-----END PUBLIC KEY-----",
    "req_011CSHoEeqs5C35K2UUqR7Fy msg_01XFDUDYJgAACzvnptvVoYEL toolu_01A09q90qw90lq917835lq9 call_abcDEF0123456789abcdef",
    "chatcmpl-9f86d081884c7d659a2feaa0 resp_67ccd2bed1ec8190b14f964abc0542670bb6a6b452d3795b",
    // Code.
    "fn main() { let sk_live = config.get(\"SK_LIVE\"); format!(\"{}://{}:{}@{}\", s, u, p, h); }",
    "const re=/ghp_[A-Za-z0-9]{36}|AKIA[0-9A-Z]{16}|xox[baprs]-[0-9a-zA-Z-]{10,48}|sk-[a-zA-Z0-9]{48}/g;",
    "!function(e,t){\"object\"==typeof exports?t(exports):e.sk=t(e.key-1)}(this,(function(e){var n=\"://\",r=e.K.x}));",
    "if (authorization.startsWith(\"Bearer \")) { token = authorization.slice(7) }",
    "def bearer(token: str) -> dict: return {\"Authorization\": f\"Bearer {token}\"}",
    "SELECT basic_auth, bearer FROM keys WHERE id = 'key-1' AND url LIKE 'https://%:%@%'",
    "package main\nimport \"fmt\"\nfunc main() { fmt.Printf(\"https://%s:%s@%s\", u, p, h) }",
    "Le jeton d'accès doit être placé dans l'en-tête « Authorization: Bearer … » ; le mot de passe reste secret.",
];

fn assert_unchanged(text: &str, name: &str) {
    let (output, count) = masked(text);
    assert!(count == 0, "{name}: {}", difference(text, &output));
}

/// The text around its first difference from `output`.
fn difference(text: &str, output: &str) -> String {
    let at = text
        .bytes()
        .zip(output.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    let from = (0..=at.saturating_sub(60))
        .rev()
        .find(|n| text.is_char_boundary(*n));
    text[from.unwrap_or(0)..].chars().take(200).collect()
}

#[test]
fn text_without_credentials_is_unchanged() {
    for text in TEXTS {
        assert_unchanged(text, "text");
        assert_eq!(
            masked_json(&serde_json::to_string(text).unwrap()).1,
            0,
            "{text}"
        );
        assert_eq!(streamed(text, &[1]), *text);
    }
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_files(&path, files);
        } else {
            files.push(path);
        }
    }
}

#[test]
fn real_histories_and_sources_are_unchanged() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = vec![
        root.join("Cargo.lock"),
        root.join("docs/openapi.json"),
        root.join("docs/verify_bundle.py"),
        root.join("docs/format.md"),
    ];
    collect_files(&root.join("tests/fixtures/opencode-json"), &mut paths);
    collect_files(
        &root.join("tests/fixtures/opencode-json-legacy"),
        &mut paths,
    );
    collect_files(&root.join("crates/filrouge-engine/src/restore"), &mut paths);
    collect_files(&root.join("crates/filrouge-engine/src/bundle"), &mut paths);
    // A history contains the example key of AWS's documentation, which has the form of a key, so it is masked. So is
    // the token next to it.
    let example = ["AKIA", "IOSFODNN7EXAMPLE"].concat();
    let token = ["sk-test-", "0000000000000000000000000000", "EXAMPLE"].concat();
    let (mut bytes, mut examples) = (0, 0);
    for path in &paths {
        let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        examples += text.matches(&example).count();
        examples += text.matches(&token).count();
        let text = text
            .replace(&example, "an example")
            .replace(&token, "a token");
        assert_unchanged(&text, &path.display().to_string());
        bytes += text.len();
    }
    assert!((2..20).contains(&examples));
    assert!(
        paths.len() > 100 && bytes > 600_000,
        "{} files, {bytes} bytes",
        paths.len()
    );
}

#[test]
fn images_in_base64_are_unchanged() {
    for seed in 0..40 {
        let data = format!("data:image/png;base64,{}==", body("base64", 60_000, seed));
        assert_unchanged(&data, "image");
        assert_unchanged(&format!(r#"{{"url":"{data}"}}"#), "image in JSON");
    }
}
