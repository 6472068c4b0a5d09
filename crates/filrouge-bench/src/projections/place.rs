//! The targets, each on a real server or in a file.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use filrouge_projections::tables::TablesSettings;
use filrouge_projections::{
    Counts, Kind, Projection, ProjectionName, Selection, TargetError, TargetSettings, Vectors,
};
use filrouge_search::embed::{Embedder, Hashing};
use filrouge_testbed::third_party::Unavailable;
use filrouge_testbed::{OpenSearch, Server, Weaviate};
use tempfile::TempDir;

use crate::Setup;
use crate::postgres::server;

/// The time limit of a call, as in the program by default.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Where a target is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PlaceKind {
    /// Tables in a SQLite file
    Sqlite,
    /// Tables in PostgreSQL
    Postgres,
    /// Documents in OpenSearch, without vectors
    Opensearch,
    /// Objects in Weaviate, with vectors of hashed words
    Weaviate,
}

impl PlaceKind {
    pub(super) const ALL: [Self; 4] = [
        Self::Sqlite,
        Self::Postgres,
        Self::Opensearch,
        Self::Weaviate,
    ];

    /// The kind of the target in the settings.
    const fn target_kind(self) -> &'static str {
        match self {
            Self::Sqlite | Self::Postgres => "tables",
            Self::Opensearch => "opensearch",
            Self::Weaviate => "weaviate",
        }
    }
}

impl fmt::Display for PlaceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "tables on SQLite",
            Self::Postgres => "tables on PostgreSQL",
            Self::Opensearch => "OpenSearch",
            Self::Weaviate => "Weaviate",
        })
    }
}

/// A place for targets. Each projection gets one of its own.
pub(super) struct Place {
    pub(super) kind: PlaceKind,
    /// The URL; for SQLite without the name of a file.
    url: String,
    secret: Option<String>,
    _server: Option<Server>,
    _dir: Option<TempDir>,
}

impl Place {
    /// Starts the server, or joins that of the tests. `servers` is the folder where OpenSearch and Weaviate are
    /// installed; installs a missing one. Blocks.
    pub(super) fn start(
        setup: &Setup,
        kind: PlaceKind,
        servers: &Path,
    ) -> Result<Result<Self, Unavailable>> {
        let (mut secret, mut started, mut folder) = (None, None, None);
        let url = match kind {
            PlaceKind::Sqlite => {
                let dir = folder.insert(setup.dir()?);
                format!("sqlite:{}/", dir.path().display())
            }
            PlaceKind::Postgres => {
                let server = started.insert(server::start(setup));
                server.url(&server.database())
            }
            PlaceKind::Opensearch => match OpenSearch::shared(servers) {
                Ok(server) => server.url(),
                Err(why) => return Ok(Err(why)),
            },
            PlaceKind::Weaviate => match Weaviate::shared(servers) {
                Ok(server) => {
                    secret = Some(server.key().to_owned());
                    server.url()
                }
                Err(why) => return Ok(Err(why)),
            },
        };
        Ok(Ok(Self {
            kind,
            url,
            secret,
            _server: started,
            _dir: folder,
        }))
    }

    /// A new projection into an empty target.
    pub(super) fn projection(&self) -> Result<Arc<Projection>> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // A server of the tests may have those of another process.
        let prefix = format!("bench_{}_{number}", std::process::id());
        let kind = Kind::named(self.kind.target_kind()).context("an unknown kind")?;
        let vectors: Option<Arc<dyn Vectors>> = match self.kind {
            PlaceKind::Weaviate => Some(Arc::new(HashedWords)),
            _ => None,
        };
        let url = match self.kind {
            PlaceKind::Sqlite => format!("{}{prefix}.db", self.url),
            _ => self.url.clone(),
        };
        let name: ProjectionName = prefix.parse()?;
        let target = (kind.open)(&TargetSettings {
            url,
            user: None,
            secret: self.secret.clone(),
            prefix,
            timeout: TIMEOUT,
            vectors,
            tables: TablesSettings::default(),
        });
        Ok(Arc::new(Projection {
            name,
            target: target.map_err(anyhow::Error::msg)?,
            structure: kind.structure(),
            history: None,
            selection: Selection::default(),
            timeout: TIMEOUT,
            clean_timeout: TIMEOUT,
            counts: Counts::default(),
        }))
    }
}

/// The embedder of the benchmark, as targets use it.
struct HashedWords;

impl Vectors for HashedWords {
    fn dimensions(&self) -> usize {
        Hashing.dimensions()
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, TargetError> {
        let vectors = Hashing.embed(texts);
        vectors.map_err(|error| TargetError::Refused(error.to_string()))
    }
}
