//! Projections: copies of the ledger in other stores, in forms that other programs can query (ADR 0042). A projection
//! is fed from the ledger, can be rebuilt at any time, and is never authoritative. It can also copy the history of
//! another program ([`ForeignHistory`]).
//!
//! A [`Projector`] feeds one [`Projection`]. Of several processes, one writes to a target at a time. The
//! [`ProjectionCleaner`] cleans the targets after a redaction or an erasure.

mod calls;
mod cleaner;
mod content;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
mod feed;
mod history;
mod http;
mod kinds;
mod opensearch;
pub mod parquet;
mod personal;
mod position;
mod projection;
mod projector;
mod reading;
mod selection;
mod sessions;
mod state;
mod status;
pub mod tables;
mod target;
mod vectors;
mod verify;
mod weaviate;

#[cfg(test)]
mod tests;

pub use cleaner::ProjectionCleaner;
pub use history::ForeignHistory;
pub use http::{Credentials, Endpoint};
pub use kinds::{KINDS, Kind, TargetSettings};
pub use opensearch::{OpenSearch, OpenSearchSettings};
pub use projection::{CountValues, Counts, Projection, ProjectionName, ProjectionNameError};
pub use projector::Projector;
pub use selection::{Field, Selection};
pub use sessions::CurrentSessions;
pub use state::DeadLetter;
pub use status::{ProjectionStatus, begin_rebuild, projection_status, retry_dead_letters};
pub use target::{
    Cleaned, Refused, Row, SessionKey, SessionUpdate, SimilarQuery, SimilarTurn, Stamp, Target,
    TargetError, Update,
};
pub use vectors::Vectors;
pub use verify::{Difference, DifferenceKind, Verified, VerifyError, verify};
pub use weaviate::{Weaviate, WeaviateSettings};
