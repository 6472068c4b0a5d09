//! Looking through all part files of a file storage.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;

use super::generation::Record;
use super::neutral_message::role;
use super::tree::Layout;
use crate::files::Folder;
use crate::{Role, Scan};

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
    let open = |below: &Path| layout.files().folder(below).ok().flatten();
    let (folder, id) = (&session.folder, &session.id);
    let Some(messages) = open(&layout.message_dir(folder, id)) else {
        return;
    };
    let parts = open(&layout.part_root(folder, id));
    for message in messages.ids(&mut Vec::new()) {
        if (scan.stopped)() || !(scan.wanted)(id) {
            return;
        }
        let read = messages.read(&message, &mut buffers.message).is_ok();
        let own = std::str::from_utf8(&buffers.message).ok().filter(|_| read);
        let role = OnceCell::new();
        let give = |part: Option<&str>, text: &str| {
            let role = match scan.roles {
                true => *role.get_or_init(|| role_of(own?)),
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
        let has_error = |text: &&str| memchr::memmem::find(text.as_bytes(), b"\"error\"").is_some();
        if let Some(own) = own
            .filter(has_error)
            .filter(|o| (scan.may_hold)(o.as_bytes()))
        {
            give(None, own);
        }
        if let Some(Ok(Some(dir))) = parts.as_ref().map(|parts| parts.below(&message)) {
            of_parts(&dir, scan, &mut buffers.part, &give);
        }
    }
}

/// Gives what a message's folder of parts may hold.
fn of_parts(dir: &Folder, scan: &Scan<'_>, bytes: &mut Vec<u8>, give: &dyn Fn(Option<&str>, &str)) {
    for part in dir.ids(&mut Vec::new()) {
        if dir.read(&part, bytes).is_err() || !(scan.may_hold)(bytes) {
            continue;
        }
        if let Ok(text) = std::str::from_utf8(bytes) {
            give(Some(&part), text);
        }
    }
}

#[derive(Deserialize)]
struct Speaker<'a> {
    #[serde(borrow)]
    role: Cow<'a, str>,
}

fn role_of(text: &str) -> Option<Role> {
    let speaker: Speaker<'_> = serde_json::from_str(text).ok()?;
    role(&speaker.role)
}
