//! Search over the ledger and the histories of other programs (DESIGN §10), with one query language and one form of
//! results. A search uses indexes for the sessions whose current state is indexed, and scans the other sessions.

mod answer;
#[cfg(test)]
mod behavior;
mod condition;
mod cutting;
mod dates;
pub mod embed;
mod excerpt;
mod expression;
pub mod feed;
mod fields;
mod filter;
#[cfg(test)]
mod filtered;
mod find;
mod index_terms;
pub mod ledger;
mod matcher;
mod outline;
mod parsed_search;
mod query;
mod rank;
mod reading;
mod request;
mod search_document;
mod settings;
mod similar_turns;
mod term;
#[cfg(test)]
mod tests;
mod texts;
mod unescaped_json;
mod weigh;

pub use answer::{Excerpt, Hit, Results};
pub use dates::Zone;
pub use fields::Field;
#[cfg(test)]
pub(crate) use find::search;
pub use find::{LedgerSearch, Searcher, started_at};
pub use jiff::tz::TimeZone;
pub use outline::{ExtraValue, ListFilters, Outline, outline};
pub use parsed_search::check;
pub use query::{InvalidQuery, QueryFault};
pub use reading::ExtraFilter;
pub use request::{Mode, Order, SearchRequest};
pub use search_document::{Malformed, Piece, SearchDocument, kind};
pub use settings::SearchSettings;
pub use similar_turns::{NamedTurn, SimilarQuestion, SimilarTurns};
