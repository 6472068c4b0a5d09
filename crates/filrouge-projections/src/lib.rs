//! Projections: copies of the ledger in other stores, in forms that other programs can query (ADR 0042). A projection
//! is fed from the ledger, can be rebuilt at any time, and is never authoritative.

pub mod parquet;
pub mod tables;

mod content;
mod http;
mod opensearch;
mod target;
mod vectors;
mod weaviate;

pub use http::{Credentials, Endpoint};
pub use opensearch::{OpenSearch, OpenSearchSettings};
pub use target::{Cleaned, Refused, Row, SessionKey, SessionUpdate, Target, TargetError, Update};
pub use vectors::Vectors;
pub use weaviate::{Weaviate, WeaviateSettings};
