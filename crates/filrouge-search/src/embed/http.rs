//! An embedding service of the operator's choice: `POST {url}/embeddings`, as OpenAI's API and many others have it.

mod answer;

use std::fmt;
use std::thread;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url};
use serde::Serialize;
use tokio::runtime::Handle;

use super::{EmbedError, Embedder};

/// Texts of one request.
const BATCH: usize = 64;
/// Characters of a text; of a longer one the beginning is sent. Services take some 8,000 pieces of words.
const TEXT_MOST: usize = 8_000;
/// Bytes of an answer, with room for 64 vectors of 8,192 numbers.
const ANSWER_MOST: usize = 16 * 1024 * 1024;
/// How often a batch is sent at most, when the service has too much to do or fails.
const TRIES: u32 = 4;
/// The first pause between two tries; each further one is twice as long, or what the service asks for.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MOST: Duration = Duration::from_secs(10);

/// Which service, which model.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// What `/embeddings` is behind, such as `https://api.openai.com/v1`.
    pub url: String,
    /// The model, as the service calls it.
    pub model: String,
    /// How long its vectors are; others are refused.
    pub dimensions: usize,
    /// Sent as a bearer token.
    pub key: Option<Key>,
    /// How long each request may take.
    pub timeout: Duration,
}

/// A key that is sent and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(HeaderValue);

impl Key {
    /// Takes a key; white space around it, as at the end of a file, is none of it.
    ///
    /// # Errors
    /// [`EmbedError::Malformed`] when it is empty or has what no header can have.
    pub fn new(key: &str) -> Result<Self, EmbedError> {
        let key = key.trim();
        let value = HeaderValue::from_str(&format!("Bearer {key}")).ok();
        let Some(mut value) = value.filter(|_| !key.is_empty()) else {
            let what = "the key is empty, or not of one line of printable characters";
            return Err(EmbedError::Malformed(what.to_owned()));
        };
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// A service that is asked over HTTP. Texts leave this machine for wherever the settings say.
#[derive(Debug)]
pub struct Http {
    id: String,
    url: Url,
    model: String,
    dimensions: usize,
    key: Option<Key>,
    client: Client,
    runtime: Handle,
}

#[derive(Serialize)]
struct Asked<'a> {
    model: &'a str,
    input: &'a [&'a str],
}

impl Http {
    /// Asks nothing yet. `runtime` is one of several threads, and outlives it.
    ///
    /// # Errors
    /// [`EmbedError::Malformed`] for settings that cannot be.
    pub fn new(settings: HttpSettings, runtime: Handle) -> Result<Self, EmbedError> {
        let HttpSettings {
            url,
            model,
            dimensions,
            key,
            timeout,
        } = settings;
        let url = endpoint(&url)?;
        if dimensions == 0 || model.is_empty() {
            let what = "it needs a model, and how many dimensions this has";
            return Err(EmbedError::Malformed(what.to_owned()));
        }
        // One that is installed already serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(timeout)
            .build()
            .map_err(|e| unavailable(&e.without_url()))?;
        let id = format!("http:{url}#{model}/{dimensions}/v1");
        Ok(Self {
            id,
            url,
            model,
            dimensions,
            key,
            client,
            runtime,
        })
    }

    /// The vectors of texts that are not blank, in their order.
    fn batch(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let body = serde_json::to_vec(&Asked {
            model: &self.model,
            input: texts,
        })
        .map_err(|e| EmbedError::Malformed(e.to_string()))?;
        let (mut tries, mut pause) = (1, PAUSE);
        loop {
            match self.run(self.ask(body.clone())) {
                Ok(bytes) => return answer::vectors(&bytes, texts.len(), self.dimensions),
                Err(Told {
                    error,
                    again: Some(wanted),
                }) if tries < TRIES => {
                    let wait = wanted.unwrap_or(pause).min(PAUSE_MOST);
                    tracing::debug!(tries, ?wait, %error, "the embedding service is asked again");
                    thread::sleep(wait);
                    (tries, pause) = (tries + 1, pause * 2);
                }
                Err(Told { error, .. }) => return Err(error),
            }
        }
    }

    /// Waits for what the runtime does, also where a thread of the runtime itself asks.
    fn run<T>(&self, what: impl Future<Output = T>) -> T {
        tokio::task::block_in_place(|| self.runtime.block_on(what))
    }

    async fn ask(&self, body: Vec<u8>) -> Result<Vec<u8>, Told> {
        let mut request = self.client.post(self.url.clone()).body(body);
        request = request.header(CONTENT_TYPE, "application/json");
        if let Some(Key(key)) = &self.key {
            request = request.header(AUTHORIZATION, key.clone());
        }
        let response = request.send().await.map_err(failed)?;
        match response.status() {
            StatusCode::OK => whole(response).await,
            status => Err(told(status, &response)),
        }
    }
}

/// Why a request has no answer, and whether it is worth another one, after how long.
struct Told {
    error: EmbedError,
    again: Option<Option<Duration>>,
}

impl From<EmbedError> for Told {
    fn from(error: EmbedError) -> Self {
        Self { error, again: None }
    }
}

/// Nothing of an answer's text is told: services repeat keys and texts in it.
fn told(status: StatusCode, response: &Response) -> Told {
    let what = format!("status {}", status.as_u16());
    if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
        let after = response.headers().get(RETRY_AFTER);
        let seconds = after.and_then(|after| after.to_str().ok()?.trim().parse().ok());
        return Told {
            error: EmbedError::Unavailable(what),
            again: Some(seconds.map(Duration::from_secs)),
        };
    }
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => EmbedError::TooLarge(what),
        StatusCode::REQUEST_TIMEOUT => EmbedError::Unavailable(what),
        _ => EmbedError::Refused(what),
    }
    .into()
}

fn failed(error: reqwest::Error) -> Told {
    unavailable(&error.without_url()).into()
}

/// Without the address: a key may be in it.
fn unavailable(error: &reqwest::Error) -> EmbedError {
    let mut what = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        what = format!("{what}: {error}");
        cause = error.source();
    }
    EmbedError::Unavailable(what)
}

async fn whole(mut response: Response) -> Result<Vec<u8>, Told> {
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(failed)? {
        if bytes.len() + piece.len() > ANSWER_MOST {
            let what = format!("an answer of more than {ANSWER_MOST} bytes");
            return Err(EmbedError::TooLarge(what).into());
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// Where embeddings are asked for. The address is part of the embedder's id, which is shown: nothing secret may be in it.
fn endpoint(url: &str) -> Result<Url, EmbedError> {
    let wrong = |what: &str| Err(EmbedError::Malformed(format!("the address {what}")));
    let Ok(mut url) = Url::parse(url.trim_end_matches('/')) else {
        return wrong("is no URL");
    };
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return wrong("begins with neither http:// nor https://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return wrong("has a name or a password in it: a key goes into a file or the environment");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return wrong("has something behind its path");
    }
    let path = format!("{}/embeddings", url.path().trim_end_matches('/'));
    url.set_path(&path);
    Ok(url)
}

/// The beginning of a text.
fn beginning(text: &str) -> &str {
    let end = text.char_indices().nth(TEXT_MOST);
    end.and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

impl Embedder for Http {
    fn id(&self) -> &str {
        &self.id
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut vectors = vec![vec![0.0; self.dimensions]; texts.len()];
        // Services refuse a blank text, and every other one with it.
        let places = vectors.iter_mut().zip(texts);
        let (mut places, sent): (Vec<_>, Vec<_>) = places
            .map(|(place, text)| (place, beginning(text)))
            .filter(|(_, text)| !text.trim().is_empty())
            .unzip();
        for (places, batch) in places.chunks_mut(BATCH).zip(sent.chunks(BATCH)) {
            let told = self.batch(batch)?;
            places
                .iter_mut()
                .zip(told)
                .for_each(|(place, told)| **place = told);
        }
        Ok(vectors)
    }
}
