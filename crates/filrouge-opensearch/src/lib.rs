//! The search index of the ledger in OpenSearch (docs/adr/0043-search-over-opensearch.md), and a client of search
//! engines, which projections use, too.

pub mod client;
pub mod text_index;
