//! A tiered ledger over the in-memory ledger and the in-memory hot store, each of which can be made to fail.

mod copies;
mod faults;
mod hang_up;
mod history;
mod kills;
mod late;
mod login;
mod operator;
mod outage;
mod race;
mod redaction;
mod routing;
mod stores;
mod world;
