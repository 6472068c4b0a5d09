//! Looking through all part files of a file storage.

use std::cell::OnceCell;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::database_scan::{has_error, role_of};
use super::generation::Record;
use super::tree::Layout;
use crate::Scan;
use crate::files::Folder;

/// A session to be looked through.
struct Session {
    folder: String,
    id: String,
}

/// [`super::generation::Generation::scan`]. Two threads take sessions one after the other.
pub(super) fn scan<L: Layout>(layout: &L, scan: &Scan<'_>, each: &(dyn Fn(&Record<'_>) + Sync)) {
    let mut sessions = Vec::new();
    for folder in layout.folders(&mut Vec::new()) {
        for id in layout
            .files()
            .ids(&layout.session_dir(&folder), &mut Vec::new())
        {
            if (scan.wanted)(&id) {
                let folder = folder.clone();
                sessions.push(Session { folder, id });
            }
        }
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut buffers = Buffers::default();
        while let Some(session) = sessions.get(next.fetch_add(1, Ordering::Relaxed)) {
            if (scan.stopped)() {
                return;
            }
            one_session(layout, session, scan, &mut buffers, each);
        }
    };
    std::thread::scope(|scope| {
        if sessions.len() > 1 {
            scope.spawn(work);
        }
        work();
    });
}

/// What one thread reads into.
#[derive(Default)]
struct Buffers {
    message: Vec<u8>,
    part: Vec<u8>,
}

fn one_session<L: Layout>(
    layout: &L,
    session: &Session,
    scan: &Scan<'_>,
    buffers: &mut Buffers,
    each: &(dyn Fn(&Record<'_>) + Sync),
) {
    let (folder, id) = (&session.folder, &session.id);
    let unread = || (scan.unread)(id);
    let open = |below: &Path| {
        let opened = layout.files().folder(below);
        opened.inspect_err(|_| unread()).ok().flatten()
    };
    let Some(messages) = open(&layout.message_dir(folder, id)) else {
        return;
    };
    let parts = open(&layout.part_root(folder, id));
    for message in ids(&messages, &unread) {
        if (scan.stopped)() || !(scan.wanted)(id) {
            return;
        }
        let own = text(&messages, &message, &mut buffers.message, &unread);
        let own = own.and_then(|bytes| std::str::from_utf8(bytes).ok());
        let role = OnceCell::new();
        let give = |part: Option<&str>, text: &str| {
            let role = match scan.roles {
                true => *role.get_or_init(|| role_of(own?.as_bytes())),
                false => None,
            };
            each(&Record {
                session: id,
                message: &message,
                role,
                part,
                text,
            });
        };
        if let Some(own) = own
            .filter(|own| has_error(own.as_bytes()))
            .filter(|o| (scan.may_hold)(o.as_bytes()))
        {
            give(None, own);
        }
        match parts.as_ref().map(|parts| parts.below(&message)) {
            Some(Ok(Some(dir))) => of_parts(&dir, scan, (&mut buffers.part, &unread), &give),
            Some(Err(_)) => unread(),
            _ => {}
        }
    }
}

/// Gives what a message's folder of parts may hold.
fn of_parts(
    dir: &Folder,
    scan: &Scan<'_>,
    (bytes, unread): (&mut Vec<u8>, &dyn Fn()),
    give: &dyn Fn(Option<&str>, &str),
) {
    for part in ids(dir, unread) {
        let bytes = text(dir, &part, bytes, unread);
        let Some(bytes) = bytes.filter(|bytes| (scan.may_hold)(bytes)) else {
            continue;
        };
        match std::str::from_utf8(bytes) {
            Ok(text) => give(Some(&part), text),
            Err(_) => unread(),
        }
    }
}

fn ids(dir: &Folder, unread: &dyn Fn()) -> Vec<String> {
    let mut skipped = Vec::new();
    let ids = dir.ids(&mut skipped);
    if !skipped.is_empty() {
        unread();
    }
    ids
}

fn text<'b>(dir: &Folder, id: &str, bytes: &'b mut Vec<u8>, unread: &dyn Fn()) -> Option<&'b [u8]> {
    match dir.read(id, bytes) {
        Ok(_) => Some(bytes),
        Err(_) => {
            unread();
            None
        }
    }
}
