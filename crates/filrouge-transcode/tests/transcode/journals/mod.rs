//! What tests of restored journals share.

pub(crate) mod case;
pub(crate) mod check;
pub(crate) mod items;
pub(crate) mod random;
pub(crate) mod told;
