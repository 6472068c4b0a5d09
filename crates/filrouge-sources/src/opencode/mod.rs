//! Reads OpenCode's history: the sessions of all its storages together (DESIGN §10).
//!
//! `history.rs` is the source. `storage.rs` is the interface of a storage: `layout.rs` and `tree*.rs` implement it for
//! files, `database.rs` and the modules that it names for databases. All storages return records in the JSON of
//! OpenCode 1.x; `neutral*.rs` converts it to the neutral form, and `originals.rs` adds the data that only an import
//! keeps.

pub(crate) mod changed_files;
mod database;
mod gathered;
mod history;
mod layout;
mod neutral;
mod neutral_message;
mod neutral_part;
mod newer_form;
mod newer_piece;
mod newer_tool;
mod order;
mod originals;
mod row_place;
mod row_sums;
mod session;
mod session_message;
mod session_rows;
mod sqlite;
mod storage;
mod storages;
mod tree;
mod tree_first;
mod tree_messages;

use std::path::{Path, PathBuf};

pub use history::{open, watch};

use crate::{Program, Surroundings};

/// OpenCode.
pub static PROGRAM: Program = Program {
    name: storage::NAME,
    help: "OpenCode's histories of all versions: storage/, project/ and opencode*.db",
    hint: "give OpenCode's data folder (by default ~/.local/share/opencode), \
           its storage or project folder, or an opencode*.db file",
    places,
    open,
    watch,
};

/// The places of OpenCode's history: the database that `OPENCODE_DB` names (an absolute path, or one relative to the
/// data folder), and then the data folder. A database that a scan of the data folder finds anyway is not listed
/// separately.
fn places(around: &dyn Surroundings) -> Vec<PathBuf> {
    let data = around
        .path_in("XDG_DATA_HOME")
        .filter(|path| path.is_absolute());
    let data = data.or_else(|| Some(around.home()?.join(".local/share")));
    let Some(folder) = data.map(|data| data.join("opencode")) else {
        return Vec::new();
    };
    let named = around
        .path_in("OPENCODE_DB")
        .filter(|name| name != Path::new(":memory:"));
    let other = named.map(|name| folder.join(name)).filter(|path| {
        let has_usual_name = path.file_name().map(storages::is_usual_database);
        has_usual_name.is_some_and(|usual| !usual || path.parent() != Some(&*folder))
    });
    other.into_iter().chain([folder]).collect()
}
