//! SIGKILL while live calls wait in the spool, and while they are drained, over and over on one PostgreSQL; and a disk
//! without space for them. What was answered is in the journal once, in order.

mod call;
mod full;
mod kills;
