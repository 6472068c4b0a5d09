//! OpenCode's history, in all its storages together (DESIGN §10).
//!
//! `history.rs` is the source; `storage.rs` is the interface of a storage: `layout.rs` and `tree*.rs` read the file
//! storages, `database.rs` and the files it names the databases. `neutral*.rs` converts texts to the neutral form;
//! `written.rs` keeps additional data for an import.

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
mod tree_listing;
mod tree_messages;
mod written;

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

/// Its data folder, preceded by the database that `OPENCODE_DB` names (an absolute path, or one relative to that folder),
/// unless a scan of the folder finds that database.
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
        let usual = path.file_name().map(storages::is_usual_database);
        usual.is_some_and(|usual| !usual || path.parent() != Some(&*folder))
    });
    other.into_iter().chain([folder]).collect()
}
