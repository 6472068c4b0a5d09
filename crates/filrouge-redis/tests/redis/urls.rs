//! URLs, passwords and TLS.

use filrouge_redis::{Options, RedisHot, redacted};
use filrouge_store::hot::HotStore;
use filrouge_testbed::Redis;
use filrouge_types::ErrorCode;

use crate::{assert_unavailable, get, hot, hot_with_long_timeout, put};

#[test]
fn an_invalid_url_is_refused_without_showing_its_password() {
    for url in [
        "",
        "localhost:6379",
        "http://localhost",
        "redis://",
        "redis://:secret@",
        "redis://localhost:0",
        "redis://localhost:secret",
        "redis://localhost:65536",
        "redis://localhost/secret",
        "redis://localhost/0?db=1",
        "redis://localhost/-1",
        "redis://localhost?secret",
        "redis://localhost?password=secret",
        "redis://localhost?db=1&db=1",
        "redis://localhost#secret",
        "redis://user:sec/ret@localhost",
        "redis://user:sec@ret@localhost",
        "redis://a:1,b:2",
        "redis://a:1,b:2/?cluster=secret",
        "redis://a:1,b:2/1?cluster=true",
        "redis://a?cacert=/secret",
        "rediss://a?cacert=/nowhere/secret.pem",
        "redis://%zz",
        "redis://[::1",
        "redis+unix://",
        "redis+unix:///",
        "redis+unix://host/path",
        "redis+unix:///path?cluster=true",
    ] {
        let failure = RedisHot::open(&Options::new(url))
            .map(|_| ())
            .expect_err(url);
        assert_eq!(failure.code, ErrorCode::Invalid, "{url}");
        assert!(failure.hint.is_some(), "{url}");
        assert!(!failure.to_string().contains("secret"), "{url}: {failure}");
        if !url.contains("cacert") {
            assert!(
                !redacted(url).contains("secret"),
                "{url}: {}",
                redacted(url)
            );
        }
    }
    for prefix in ["", "a{b", "a b", &"x".repeat(65)] {
        let options = Options {
            prefix: prefix.to_owned(),
            ..Options::new("redis://localhost")
        };
        assert!(RedisHot::open(&options).is_err(), "{prefix}");
    }
}

#[test]
fn urls_are_shown_without_their_password() {
    for (url, shown) in [
        ("redis://localhost", "redis://localhost"),
        ("redis://u:p%40ss@h:1/2", "redis://u:***@h:1/2"),
        ("rediss://:secret@h", "rediss://:***@h"),
        ("redis://u@h", "redis://u@h"),
        ("redis://[::1]:7", "redis://[::1]:7"),
        (
            "redis+unix://:x@/run/r.sock?db=3",
            "redis+unix://:***@/run/r.sock?db=3",
        ),
        ("redis://a:1,b/?cluster=true", "redis://a:1,b/?cluster=true"),
        ("redis://u:a@b@h", "redis://***"),
        ("nonsense:secret", "***"),
    ] {
        assert_eq!(redacted(url), shown);
    }
    let options = Options {
        password: Some("secret".to_owned()),
        ..Options::new("redis://u:other@h")
    };
    let shown = format!("{options:?}");
    assert!(
        !shown.contains("secret") && !shown.contains("other"),
        "{shown}"
    );
}

#[tokio::test]
async fn urls_with_users_and_passwords_connect() {
    let redis = Redis::with_settings(&[("user", "alice on >se%cret/@ ~* +@all")]);
    let tcp = redis.tcp();
    let encoded = hot_with_long_timeout(&format!("redis://alice:se%25cret%2F%40@{tcp}/2"));
    assert!(put(&encoded, "s", None, "v").await.unwrap().is_some());
    // The session is in the database that the URL names, not in database 0.
    assert_eq!(redis.cli(&["DBSIZE"]), "0");
    let overridden = Options {
        password: Some("se%cret/@".to_owned()),
        ..Options::new(format!("redis://alice:wrong@{tcp}/2"))
    };
    let overridden = RedisHot::open(&overridden).expect("options");
    assert!(get(&overridden, "s").await.unwrap().is_some());
    let socket = redis
        .socket_url()
        .replace("unix://", "unix://alice:se%25cret%2F%40@");
    let socket = hot_with_long_timeout(&format!("{socket}?db=2"));
    assert!(get(&socket, "s").await.unwrap().is_some());
    let wrong = hot(&format!("redis://alice:wrong@{tcp}"));
    let failure = assert_unavailable(get(&wrong, "s").await);
    assert!(!failure.to_string().contains("wrong"), "{failure}");
    assert_eq!(wrong.failure(), Some(failure.detail));
}

#[tokio::test]
async fn a_cluster_without_cluster_true_is_reported() {
    let redis = Redis::with_settings(&[("cluster-enabled", "yes")]);
    // Half of the slots, so that this server knows that it does not serve the others.
    let slots: Vec<String> = (0..16_384)
        .filter(|slot| slot % 2 == 0)
        .map(|slot| slot.to_string())
        .collect();
    let mut command = vec!["CLUSTER", "ADDSLOTS"];
    command.extend(slots.iter().map(String::as_str));
    redis.cli(&command);
    redis.cli(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    let failure = assert_unavailable(get(&hot(&redis.url()), "s").await);
    assert!(failure.detail.contains("CLUSTERDOWN"), "{failure}");
}

#[tokio::test]
async fn tls_accepts_the_configured_authority() {
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let trusted = authority.self_signed(&authority_key).unwrap();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let server_key = rcgen::KeyPair::generate().unwrap();
    let server = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = server.signed_by(&server_key, &issuer).unwrap();

    let redis = Redis::start();
    let ca = redis.put("ca.pem", &trusted.pem());
    let files = [
        ("tls-ca-cert-file", ca.clone()),
        ("tls-cert-file", redis.put("server.pem", &certificate.pem())),
        (
            "tls-key-file",
            redis.put("server.key", &server_key.serialize_pem()),
        ),
    ];
    redis.cli(&["CONFIG", "SET", "tls-auth-clients", "no"]);
    let mut command = vec!["CONFIG", "SET"];
    for (name, path) in &files {
        command.extend([*name, path.to_str().unwrap()]);
    }
    redis.cli(&command);
    // The plain port becomes the TLS port.
    let port = redis.tcp().port().to_string();
    redis.cli(&["CONFIG", "SET", "port", "0"]);
    redis.cli(&["CONFIG", "SET", "tls-port", &port]);

    let tls = hot_with_long_timeout(&format!("rediss://{}?cacert={}", redis.tcp(), ca.display()));
    assert!(put(&tls, "s", None, "v").await.unwrap().is_some());
    assert!(get(&tls, "s").await.unwrap().is_some());
    // No system authority has signed the certificate.
    assert_unavailable(
        get(
            &hot_with_long_timeout(&format!("rediss://{}", redis.tcp())),
            "s",
        )
        .await,
    );
}
