//! Bodies: what is given back of a document, packed.

use filrouge_store::text_index::DocumentNo;
use filrouge_types::{ErrorCode, Failure};
use rusqlite::Connection;

use crate::error::{failure, malformed};

/// Bodies are a fiftieth smaller than of level 1 and as fast to unpack.
const ZSTD_LEVEL: i32 = 3;
/// A document whose number is not further away is stepped to.
const NEAR: u64 = 8;
/// A body has at most so many bytes.
const BODY_BYTES_MAX: u64 = 1 << 30;

/// What packs bodies; made when the first one comes.
#[derive(Default)]
pub(super) struct Packer {
    zstd: Option<zstd::bulk::Compressor<'static>>,
    frame: Vec<u8>,
    packed: Vec<u8>,
}

impl Packer {
    /// A body as it is stored: 0 and the body, or 1 and a zstd frame of it where that is shorter.
    pub(super) fn pack(&mut self, body: &[u8]) -> Result<&[u8], Failure> {
        let zstd = match &mut self.zstd {
            Some(zstd) => zstd,
            none => none.insert(zstd::bulk::Compressor::new(ZSTD_LEVEL).map_err(packing)?),
        };
        self.frame.clear();
        self.frame
            .reserve(zstd::zstd_safe::compress_bound(body.len()));
        zstd.compress_to_buffer(body, &mut self.frame)
            .map_err(packing)?;
        let (how, bytes) = match self.frame.len() < body.len() {
            true => (1, self.frame.as_slice()),
            false => (0, body),
        };
        self.packed.clear();
        self.packed.push(how);
        self.packed.extend_from_slice(bytes);
        Ok(&self.packed)
    }
}

fn packing(error: std::io::Error) -> Failure {
    Failure::new(ErrorCode::Internal, format!("zstd: {error}"))
}

fn unpack<'a>(
    zstd: &mut zstd::bulk::Decompressor<'_>,
    packed: &'a [u8],
    room: &'a mut Vec<u8>,
) -> Result<&'a [u8], Failure> {
    let bad = || malformed("body");
    match packed.split_first() {
        Some((0, body)) => Ok(body),
        Some((1, frame)) => {
            let size = zstd::zstd_safe::get_frame_content_size(frame);
            let size = size.ok().flatten().filter(|size| *size <= BODY_BYTES_MAX);
            let size = size.and_then(|size| usize::try_from(size).ok());
            room.clear();
            room.reserve(size.ok_or_else(bad)?);
            zstd.decompress_to_buffer(frame, room).map_err(|_| bad())?;
            Ok(room)
        }
        _ => Err(bad()),
    }
}

/// Shows `each` the bodies of these documents until it says no.
///
/// They are mostly asked for from the newest on, and lie in that order: to step over a few costs less than to look one up.
pub(super) fn show(
    conn: &Connection,
    documents: &[DocumentNo],
    each: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
) -> Result<(), Failure> {
    let sql = "SELECT document, packed FROM body WHERE document <= ?1 ORDER BY document DESC";
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let zstd = zstd::bulk::Decompressor::new();
    let mut zstd = zstd.map_err(packing)?;
    let mut room = Vec::new();
    let mut wanted = documents.iter().copied().peekable();
    while let Some(first) = wanted.peek() {
        // What is wanted down from here and not met is gone.
        let mut from = Some(*first);
        let first = i64::try_from(*first).unwrap_or(i64::MAX);
        let mut rows = statement.query([first]).map_err(failure)?;
        while let Some(row) = rows.next().map_err(failure)? {
            let no = row.get::<_, i64>(0).map_err(failure)?.cast_unsigned();
            while wanted.next_if(|w| no < *w && Some(*w) <= from).is_some() {}
            if wanted.next_if_eq(&no).is_some() {
                let packed = row.get_ref(1).and_then(|v| Ok(v.as_blob()?));
                let body = unpack(&mut zstd, packed.map_err(failure)?, &mut room)?;
                if !each(no, body) {
                    return Ok(());
                }
            }
            let near = |next: &DocumentNo| *next < no && no - next <= NEAR;
            if !wanted.peek().is_some_and(near) {
                from = None;
                break;
            }
            from = no.checked_sub(1);
        }
        while wanted.next_if(|w| Some(*w) <= from).is_some() {}
    }
    Ok(())
}
