//! The value that represents an index, its settings, and what it remembers.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use filrouge_types::{ErrorCode, Failure};
use reqwest::Method;
use tokio::runtime::Handle;

use super::meta::Place;
use crate::client::{Body, Client, ClientError, Endpoint};

/// The time between a deletion and its merge, and the minimum time between two merges: a merge rewrites large files.
const MERGE_PAUSE: Duration = Duration::from_secs(600);

/// The settings of an index.
#[derive(Debug, Clone)]
pub struct IndexSettings {
    /// The server: OpenSearch 2.7 or later.
    pub endpoint: Endpoint,
    /// Certificates of authorities in PEM form, besides those that the system trusts.
    pub authorities: Option<Vec<u8>>,
    /// The beginning of the names of indices: 1 to 100 lower-case letters, digits, `-` and `_`, beginning with a letter.
    /// Each store needs its own.
    pub prefix: String,
}

/// The search index of a ledger in OpenSearch; several servers may have it open at once.
///
/// Its methods block, so they must not be called on a worker thread of an async runtime.
pub struct OpenSearchIndex {
    pub(super) client: Client,
    pub(super) handle: Handle,
    pub(super) prefix: String,
    pub(super) request_timeout: Duration,
    /// The name of this value in the lock.
    pub(super) holder: String,
    /// Lets one change of this value run at a time. So a lock with its name was left by a change that failed.
    pub(super) changing: Mutex<()>,
    /// Whether the indices were found in this version's format.
    pub(super) is_ready: AtomicBool,
    /// The state with a lock of another process as it was read last, and when it was first read.
    pub(super) other_lock: Mutex<Option<(Place, Instant)>>,
    pub(super) merges: Mutex<Merges>,
}

/// The merges that one process starts.
#[derive(Debug)]
pub(super) struct Merges {
    pub(super) pause: Duration,
    /// When the state was read last.
    pub(super) looked: Option<Instant>,
    /// The number of removals with which deleted rows were seen first, and when.
    pub(super) seen: Option<(u64, Instant)>,
    /// Whether a merge was started and readers may still have the old files open.
    pub(super) must_refresh: bool,
}

impl Default for Merges {
    fn default() -> Self {
        Self {
            pause: MERGE_PAUSE,
            looked: None,
            seen: None,
            must_refresh: false,
        }
    }
}

impl OpenSearchIndex {
    /// Creates the index's client, whose requests run on the async runtime of `handle`. Sends nothing yet: the first
    /// call creates missing indices, and empties those in another format.
    ///
    /// # Errors
    /// `invalid` for a prefix, an address or certificates that cannot be used.
    pub fn new(settings: &IndexSettings, handle: Handle) -> Result<Self, Failure> {
        let invalid = |detail: String| Failure::new(ErrorCode::Invalid, detail);
        if !is_prefix(&settings.prefix) {
            let detail =
                "a prefix has 1 to 100 characters of a-z, 0-9, - and _, and begins with a letter";
            return Err(invalid(detail.to_owned()));
        }
        let client = Client::with_authorities(&settings.endpoint, settings.authorities.as_deref());
        Ok(Self {
            client: client.map_err(|error: ClientError| invalid(error.to_string()))?,
            handle,
            prefix: settings.prefix.clone(),
            request_timeout: settings.endpoint.timeout,
            holder: uuid::Uuid::now_v7().to_string(),
            changing: Mutex::default(),
            is_ready: AtomicBool::default(),
            other_lock: Mutex::default(),
            merges: Mutex::default(),
        })
    }

    /// Asks whether OpenSearch answers, and accepts the credentials. Changes nothing.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub fn contact(&self) -> Result<(), Failure> {
        self.request(Method::GET, "", Body::None).map(drop)
    }

    /// Sets the time between a deletion and the merge that leaves it out; the default is ten minutes. OpenSearch keeps
    /// deleted rows for half a minute.
    #[must_use]
    pub fn with_merge_pause(self, pause: Duration) -> Self {
        filrouge_types::lock(&self.merges).pause = pause;
        self
    }
}

/// Whether a text can begin the names of indices.
#[must_use]
pub fn is_prefix(text: &str) -> bool {
    let is_valid = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    let bytes = text.as_bytes();
    let begins_with_letter = bytes.first().is_some_and(u8::is_ascii_lowercase);
    begins_with_letter && bytes.len() <= 100 && bytes.iter().all(is_valid)
}
