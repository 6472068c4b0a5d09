//! Tests of the client of an embedding service: its requests, how it uses answers, and its errors.

use std::time::Duration;

use filrouge_search::embed::{EmbedError, Embedder, Http, HttpSettings, Key};
use filrouge_types::ErrorCode;
use tokio::runtime::Runtime;

use crate::embed::service::{Answer, Service};

const KEY: &str = "sk-a-secret-key";

fn settings(url: &str) -> HttpSettings {
    HttpSettings {
        url: url.to_owned(),
        model: "small".to_owned(),
        dimensions: 3,
        key: Some(Key::new(&format!("  {KEY}\n")).unwrap()),
        timeout: Duration::from_secs(20),
    }
}

/// The message of the error with which these settings are refused.
fn refusal(settings: HttpSettings) -> String {
    let runtime = Runtime::new().unwrap();
    let error = Http::new(settings, runtime.handle().clone()).unwrap_err();
    assert!(matches!(error, EmbedError::Malformed(_)), "{error:?}");
    error.to_string()
}

/// Embeds a text with a service that gives these answers. Returns the result and the number of requests that the
/// service received. Asserts that neither the result nor the client prints the key or the text.
fn embed_once(answers: &[Answer], timeout: Duration) -> (Result<Vec<Vec<f32>>, EmbedError>, usize) {
    let (service, runtime) = (Service::start(answers), Runtime::new().unwrap());
    let settings = HttpSettings {
        timeout,
        ..settings(&service.url())
    };
    let http = Http::new(settings, runtime.handle().clone()).unwrap();
    let result = http.embed(&["some words"]);
    let printed = format!("{result:?} {http:?}");
    assert!(
        !printed.contains(KEY) && !printed.contains("some words"),
        "{printed}"
    );
    (result, service.requests().len())
}

/// A timeout that no test reaches.
const LONG: Duration = Duration::from_secs(20);

#[test]
fn texts_are_sent_in_batches_and_their_vectors_are_returned_in_order() {
    let (service, runtime) = (Service::start(&[]), Runtime::new().unwrap());
    let http = Http::new(settings(&(service.url() + "/")), runtime.handle().clone()).unwrap();
    let texts: Vec<String> = (0..150).map(|n| "x".repeat(n)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let vectors = http.embed(&texts).unwrap();
    let requests = service.requests();
    let sizes: Vec<_> = requests
        .iter()
        .map(|request| request.texts().len())
        .collect();
    // The first text is empty and is not sent.
    assert_eq!(sizes, [64, 64, 21]);
    assert_eq!(vectors[0], [0.0; 3]);
    for (length, vector) in vectors.iter().enumerate().skip(1) {
        let size: f32 = vector.iter().map(|x| x * x).sum();
        assert!((size - 1.0).abs() < 1e-5, "{vector:?}");
        #[allow(clippy::cast_precision_loss)]
        let ratio = length as f32;
        assert!(
            (vector[0] / vector[1] - ratio).abs() < 0.01,
            "{length}: {vector:?}"
        );
    }
    assert_eq!(requests[0].line, "POST /v1/embeddings HTTP/1.1");
    assert_eq!(requests[0].key.as_deref(), Some(&*format!("Bearer {KEY}")));
    assert_eq!(requests[0].body["model"], "small");
    assert_eq!(
        http.id(),
        format!("http:{}/embeddings#small/3/v1", service.url())
    );
}

#[test]
fn a_long_text_is_truncated_before_it_is_sent() {
    let (service, runtime) = (Service::start(&[]), Runtime::new().unwrap());
    let keyless = HttpSettings {
        key: None,
        ..settings(&service.url())
    };
    let http = Http::new(keyless, runtime.handle().clone()).unwrap();
    let long = "é".repeat(9_000);
    http.embed(&[&long, " \n"]).unwrap();
    let requests = service.requests();
    assert_eq!(requests[0].texts(), ["é".repeat(8_000)]);
    assert_eq!((requests.len(), requests[0].key.clone()), (1, None));
}

#[test]
fn requests_to_an_overloaded_service_are_retried() {
    let twice_overloaded = [Answer::RetryAfter(429, 0), Answer::Status(503)];
    let (vectors, attempts) = embed_once(&twice_overloaded, LONG);
    assert_eq!((vectors.unwrap().len(), attempts), (1, 3));
    let always_overloaded = vec![Answer::RetryAfter(500, 0); 9];
    let (error, attempts) = embed_once(&always_overloaded, LONG);
    let error = error.unwrap_err();
    assert_eq!(
        (error.code(), attempts),
        (ErrorCode::Overloaded, 4),
        "{error}"
    );
}

#[test]
fn requests_that_a_service_refuses_are_not_retried() {
    for (status, code) in [
        (401, ErrorCode::Internal),
        (404, ErrorCode::Internal),
        (302, ErrorCode::Internal),
        (413, ErrorCode::LimitExceeded),
    ] {
        let (error, attempts) = embed_once(&[Answer::Status(status)], LONG);
        let error = error.unwrap_err();
        assert!(error.to_string().contains(&status.to_string()), "{error}");
        assert_eq!((error.code(), attempts), (code, 1), "{error}");
    }
}

#[test]
fn invalid_vectors_are_reported() {
    let body = |text: &str| Answer::Body(text.to_owned());
    let with_vector = |vector: &str| {
        body(&format!(
            r#"{{"data":[{{"index":0,"embedding":{vector}}}]}}"#
        ))
    };
    for (answer, expected) in [
        (Answer::Vectors(4), "4 dimensions instead of 3"),
        (with_vector("[]"), "0 dimensions"),
        // Too large for a 32-bit float.
        (with_vector("[1e39,0,0]"), ""),
        (with_vector("[1e30,0,0]"), "no finite length"),
        (with_vector("[\"some words\"]"), "cannot be read"),
        (body("some words"), "cannot be read"),
        (body(r#"{"data":[]}"#), "0 vectors for 1 texts"),
        (
            body(r#"{"data":[{"index":7,"embedding":[1,0,0]}]}"#),
            "vector 7",
        ),
    ] {
        let (error, attempts) = embed_once(&[answer], LONG);
        let error = error.unwrap_err();
        assert!(matches!(error, EmbedError::Malformed(_)), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(attempts, 1);
    }
}

#[test]
fn a_service_that_sends_half_an_answer_or_none_or_cannot_be_reached_is_unavailable() {
    let short = Duration::from_millis(300);
    for (answer, timeout) in [(Answer::Truncated, LONG), (Answer::Silence, short)] {
        let (error, attempts) = embed_once(&[answer], timeout);
        let error = error.unwrap_err();
        assert!(matches!(error, EmbedError::Unavailable(_)), "{error:?}");
        assert_eq!(attempts, 1);
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let runtime = Runtime::new().unwrap();
    let http = Http::new(
        settings(&format!("http://{address}")),
        runtime.handle().clone(),
    );
    let error = http.unwrap().embed(&["words"]).unwrap_err();
    assert!(matches!(error, EmbedError::Unavailable(_)), "{error:?}");
    assert!(!error.to_string().contains("embeddings"), "{error}");
}

/// `embed` blocks. It may be called even on a thread of the runtime that sends the request.
#[test]
fn the_embedder_works_on_a_thread_of_its_runtime() {
    let (service, runtime) = (Service::start(&[]), Runtime::new().unwrap());
    let http = Http::new(settings(&service.url()), runtime.handle().clone()).unwrap();
    let spawned = async { tokio::spawn(async move { http.embed(&["words"]) }).await };
    assert_eq!(runtime.block_on(spawned).unwrap().unwrap().len(), 1);
}

#[test]
fn invalid_settings_are_refused() {
    for url in [
        "",
        "service",
        "ftp://service/v1",
        "http://user@service",
        "http://:secret@service",
        "http://service/v1?key=secret",
        "http://service/v1#secret",
    ] {
        let message = refusal(settings(url));
        assert!(!message.contains("secret"), "{message}");
    }
    refusal(HttpSettings {
        dimensions: 0,
        ..settings("http://service")
    });
    refusal(HttpSettings {
        model: String::new(),
        ..settings("http://service")
    });
    for key in ["", " \n", "one\ntwo"] {
        let error = Key::new(key).unwrap_err();
        assert!(matches!(error, EmbedError::Malformed(_)), "{error:?}");
    }
}
