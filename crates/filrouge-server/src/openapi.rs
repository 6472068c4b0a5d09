//! The OpenAPI document, generated from the annotated handlers: router and document cannot diverge.
//!
//! [`complete_document`] adds what all operations share (tags, parameters of paths, authentication, request ids,
//! examples, links), so that an
//! annotation states only the specifics of its operation.

mod finish;
mod links;
mod page;
mod parameters;
mod problems;
mod responses;
mod schemas;

pub(crate) use finish::complete_document;
pub(crate) use page::{STYLE, page};
pub(crate) use parameters::{IfMatch, LastEventId};
pub(crate) use responses::{
    CopyPageResponse, CreatedOrTaggedResponse, CreatedResponse, OrNoContent, PageOrStreamResponse,
    PageOrTableResponse, PageResponse, StateResponse, TaggedResponse, TaggedWriteResponse,
    WriteResponse,
};
pub(crate) use schemas::{Bundle, Context, Document, ReplaceTurn, enum_schema};

#[cfg(test)]
mod tests;
