//! Helpers shared by tests of restored sessions.

pub(crate) mod case;
pub(crate) mod check;
pub(crate) mod items;
pub(crate) mod plan_lines;
pub(crate) mod random;
