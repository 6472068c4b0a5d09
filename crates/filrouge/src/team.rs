//! Teams at a terminal (DESIGN §11): `filrouge team deploy`.

mod age;
mod choose;
mod desk;
mod editor;
mod files;
mod find;
mod keys;
mod lines;
mod look;
mod once;
mod orders;
mod passphrase;
mod repl;
mod screen;
mod signals;
mod words;

pub(crate) use desk::{Desk, Start, exit_code, read_team, snapshots, snapshots_in};
pub(crate) use files::{but_files, forget, rewrite, teams};
pub(crate) use lines::told;
pub(crate) use once::{Once, once};
pub(crate) use repl::repl;
