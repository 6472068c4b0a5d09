//! The OpenAPI document, generated from the annotated handlers: router and document cannot diverge.
//!
//! [`finish`] adds what all operations share (authentication, request ids, examples, links), so that an annotation
//! states only the specifics of its operation.

mod answers;
mod finish;
mod links;
mod parameters;
mod problems;
mod schemas;

pub(crate) use answers::{
    Copied, Created, Listed, Made, OrNothing, Shown, Tabled, Tagged, TaggedWrite, Tailed, Written,
};
pub(crate) use finish::finish;
pub(crate) use parameters::{IfMatch, LastEventId, SessionPath, TenantPath, TurnPath};
pub(crate) use schemas::{Bundle, Context, Document, ReplaceTurn, words};

#[cfg(test)]
mod tests;
