//! An index in memory, which looks through everything: what others are compared with.
