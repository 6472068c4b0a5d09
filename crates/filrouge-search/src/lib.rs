//! Find anything anyone said (DESIGN §10): one query language and one shape of results over the ledger and over foreign
//! histories, answered from derived indexes where there are some and by looking through everything else.

mod answer;
mod ask;
#[cfg(test)]
mod behaviour;
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
mod query;
mod question;
mod rank;
mod reading;
mod spoken;
mod term;
#[cfg(test)]
mod tests;
mod view;
mod weigh;

pub use answer::{Excerpt, Hit, Results};
pub use ask::{Ask, Mode, Order};
pub use dates::Zone;
pub use fields::Field;
#[cfg(test)]
pub(crate) use find::search;
pub use find::{LedgerSearch, Searcher, begun};
pub use jiff::tz::TimeZone;
pub use query::Wrong;
pub use spoken::{Malformed, Piece, Spoken, kind};
