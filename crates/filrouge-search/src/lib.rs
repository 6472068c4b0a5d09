//! Find anything anyone said (DESIGN §10): one query language and one shape of results over the ledger and over foreign
//! histories, answered from derived indexes where there are some and by looking through everything else.

mod answer;
mod ask;
#[cfg(test)]
mod behaviour;
mod collect;
mod cutting;
mod excerpt;
mod fields;
mod filter;
mod literals;
mod matcher;
mod needle;
mod page;
mod query;
mod search;
mod sieve;
mod spoken;
#[cfg(test)]
mod tests;
mod view;

pub use answer::{Excerpt, Hit, Results};
pub use ask::Ask;
pub use fields::Field;
pub use search::{search, search_until};
pub use spoken::{Malformed, Piece, Spoken, kind};
