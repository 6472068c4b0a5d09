//! Gets vectors from an embedding service that the operator chooses. The request is `POST {url}/embeddings`, as in
//! OpenAI's API and many others.

mod response;

use std::thread;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url};
use serde::Serialize;
use tokio::runtime::Handle;

use super::{EmbedError, Embedder};

/// The maximum number of texts per request.
const BATCH_TEXTS: usize = 64;
/// The maximum number of characters per text; a longer text is truncated. Services accept about 8,000 tokens per text,
/// and a text usually has fewer tokens than characters.
const MAX_TEXT_CHARS: usize = 8_000;
/// The maximum number of bytes of a response: enough for 64 vectors of 8,192 numbers.
const MAX_RESPONSE_BYTES: usize = 16 * 1024 * 1024;
/// The maximum number of attempts per batch. A batch is sent again only when the service is overloaded (429) or fails
/// (5xx).
const MAX_ATTEMPTS: u32 = 4;
/// The first pause between two attempts. Each further pause is twice as long as the one before. If the service requests
/// a pause (`Retry-After`), its length is used instead.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause between two attempts, even if the service requests a longer one.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// The settings of an embedding service.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// The base URL, to which `/embeddings` is added, such as `https://api.openai.com/v1`.
    pub url: String,
    /// The model, as the service calls it.
    pub model: String,
    /// The number of elements of the model's vectors; vectors of another length are refused.
    pub dimensions: usize,
    /// The key that is sent as a bearer token; `None` sends no `Authorization` header.
    pub key: Option<Key>,
    /// The timeout of each attempt.
    pub timeout: Duration,
}

/// A key that is sent and never shown: the value is marked as sensitive, so that its `Debug` hides it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key(HeaderValue);

impl Key {
    /// Creates a key. White space around it, such as the newline at the end of a key file, is trimmed.
    ///
    /// # Errors
    /// [`EmbedError::Malformed`] when the key is empty or has characters that an HTTP header cannot contain.
    pub fn new(key: &str) -> Result<Self, EmbedError> {
        let key = key.trim();
        let value = HeaderValue::from_str(&format!("Bearer {key}")).ok();
        let Some(mut value) = value.filter(|_| !key.is_empty()) else {
            let message = "the key is empty, or not of one line of printable characters";
            return Err(EmbedError::Malformed(message.to_owned()));
        };
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

/// An embedder that calls a service over HTTP. Texts leave this machine: they are sent to the address in the settings.
#[derive(Debug)]
pub struct Http {
    id: String,
    url: Url,
    settings: HttpSettings,
    client: Client,
    runtime: Handle,
}

#[derive(Serialize)]
struct EmbeddingRequest<'a> {
    model: &'a str,
    input: &'a [&'a str],
}

impl Http {
    /// Creates the embedder; sends nothing yet. `runtime` must be multi-threaded, and must outlive the embedder, which
    /// runs its requests there.
    ///
    /// # Errors
    /// [`EmbedError::Malformed`] for invalid settings.
    pub fn new(settings: HttpSettings, runtime: Handle) -> Result<Self, EmbedError> {
        let url = endpoint(&settings.url)?;
        let (model, dimensions) = (&settings.model, settings.dimensions);
        if dimensions == 0 || model.is_empty() {
            let message = "a model and its number of dimensions are required";
            return Err(EmbedError::Malformed(message.to_owned()));
        }
        // Fails if the process already has a default TLS provider; that one is then used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(settings.timeout)
            .build()
            .map_err(|e| unavailable(&e.without_url()))?;
        let id = format!("http:{url}#{model}/{dimensions}/v1");
        Ok(Self {
            id,
            url,
            settings,
            client,
            runtime,
        })
    }

    /// Embeds one batch of at most [`BATCH_TEXTS`] nonblank texts, with retries; returns the vectors in the order of
    /// the texts.
    fn embed_batch(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let body = serde_json::to_vec(&EmbeddingRequest {
            model: &self.settings.model,
            input: texts,
        })
        .map_err(|e| EmbedError::Malformed(e.to_string()))?;
        let (mut tries, mut pause) = (1, FIRST_PAUSE);
        loop {
            match self.run(self.send(body.clone())) {
                Ok(bytes) => {
                    return response::parse_vectors(&bytes, texts.len(), self.settings.dimensions);
                }
                Err(HttpFailure {
                    error,
                    retry: Some(requested),
                }) if tries < MAX_ATTEMPTS => {
                    let wait = requested.unwrap_or(pause).min(MAX_PAUSE);
                    tracing::debug!(tries, ?wait, %error, "retrying the embedding service");
                    thread::sleep(wait);
                    (tries, pause) = (tries + 1, pause * 2);
                }
                Err(HttpFailure { error, .. }) => return Err(error),
            }
        }
    }

    /// Runs a future on the runtime, and blocks until it has finished. The caller may be on one of the runtime's own
    /// threads.
    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        tokio::task::block_in_place(|| self.runtime.block_on(future))
    }

    async fn send(&self, body: Vec<u8>) -> Result<Vec<u8>, HttpFailure> {
        let mut request = self.client.post(self.url.clone()).body(body);
        request = request.header(CONTENT_TYPE, "application/json");
        if let Some(Key(key)) = &self.settings.key {
            request = request.header(AUTHORIZATION, key.clone());
        }
        let response = request.send().await.map_err(send_failure)?;
        match response.status() {
            StatusCode::OK => read_body(response).await,
            status => Err(http_failure(status, &response)),
        }
    }
}

/// A failed request. `retry` is `None` if a retry is pointless; otherwise it contains the pause that the service
/// requests, if it requests one.
struct HttpFailure {
    error: EmbedError,
    retry: Option<Option<Duration>>,
}

impl From<EmbedError> for HttpFailure {
    fn from(error: EmbedError) -> Self {
        Self { error, retry: None }
    }
}

/// Returns the failure for any status except 200. Its message never quotes the response's body, because services repeat
/// keys and texts in it.
fn http_failure(status: StatusCode, response: &Response) -> HttpFailure {
    let message = format!("status {}", status.as_u16());
    if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
        let after = response.headers().get(RETRY_AFTER);
        let seconds = after.and_then(|after| after.to_str().ok()?.trim().parse().ok());
        return HttpFailure {
            error: EmbedError::Unavailable(message),
            retry: Some(seconds.map(Duration::from_secs)),
        };
    }
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => EmbedError::TooLarge(message),
        StatusCode::REQUEST_TIMEOUT => EmbedError::Unavailable(message),
        _ => EmbedError::Refused(message),
    }
    .into()
}

fn send_failure(error: reqwest::Error) -> HttpFailure {
    unavailable(&error.without_url()).into()
}

/// Returns the error for a request without a complete response; its message includes the causes of `error`. The caller
/// must have removed the address from `error`, because an address may contain a key.
fn unavailable(error: &reqwest::Error) -> EmbedError {
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        message = format!("{message}: {error}");
        cause = error.source();
    }
    EmbedError::Unavailable(message)
}

async fn read_body(mut response: Response) -> Result<Vec<u8>, HttpFailure> {
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(send_failure)? {
        if bytes.len() + piece.len() > MAX_RESPONSE_BYTES {
            let message = format!("an answer of more than {MAX_RESPONSE_BYTES} bytes");
            return Err(EmbedError::TooLarge(message).into());
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// Returns the address to which requests are sent. The address is part of the embedder's id, which is displayed; an
/// address that may contain a secret is therefore refused.
fn endpoint(url: &str) -> Result<Url, EmbedError> {
    let invalid = |message: &str| Err(EmbedError::Malformed(format!("the address {message}")));
    let Ok(mut url) = Url::parse(url.trim_end_matches('/')) else {
        return invalid("is no URL");
    };
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return invalid("begins with neither http:// nor https://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return invalid(
            "has a name or a password in it: a key goes into a file or the environment",
        );
    }
    if url.query().is_some() || url.fragment().is_some() {
        return invalid("has a query or a fragment after its path");
    }
    let path = format!("{}/embeddings", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(url)
}

/// Returns the first [`MAX_TEXT_CHARS`] characters of a text.
fn beginning(text: &str) -> &str {
    let end = text.char_indices().nth(MAX_TEXT_CHARS);
    end.and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

impl Embedder for Http {
    fn id(&self) -> &str {
        &self.id
    }

    fn dimensions(&self) -> usize {
        self.settings.dimensions
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut vectors = vec![vec![0.0; self.settings.dimensions]; texts.len()];
        // Blank texts are not sent, and their vectors are zeros: services refuse an entire request when one of its
        // texts is blank.
        let slots = vectors.iter_mut().zip(texts);
        let (mut slots, sent): (Vec<_>, Vec<_>) = slots
            .map(|(slot, text)| (slot, beginning(text)))
            .filter(|(_, text)| !text.trim().is_empty())
            .unzip();
        for (slots, batch) in slots.chunks_mut(BATCH_TEXTS).zip(sent.chunks(BATCH_TEXTS)) {
            let batch_vectors = self.embed_batch(batch)?;
            slots
                .iter_mut()
                .zip(batch_vectors)
                .for_each(|(slot, vector)| **slot = vector);
        }
        Ok(vectors)
    }
}
