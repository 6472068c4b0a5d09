//! The OpenAPI document, made from the annotated handlers: router and document cannot drift apart.
//!
//! What every operation has in common (who asks, request ids, examples, links) is put in by [`finish`], so that an
//! annotation tells only what is special.

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
