//! Reads documents by their numbers: where they belong, and their bodies, the compressed content that the feeder gave.

use std::cell::Cell;

use filrouge_store::text_index::{
    BODY_MAC_BYTES, DocumentNo, IndexKey, IndexedDocument, Member, Shard,
};
use filrouge_types::{ErrorCode, Failure, Result};
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::error::{failure, malformed};

/// The level of compression. Bodies are 2% smaller than with level 3, and decompress as fast; higher levels save less
/// than another 1%.
const ZSTD_LEVEL: i32 = 5;
/// The query whose rows [`authentic`] decodes: a document's body, and what its MAC covers.
const SEALED_BODY: &str =
    "SELECT b.packed, h.realm, h.owner, s.key, d.session, d.key, d.unit, d.kind, d.created, d.digest
    FROM document d LEFT JOIN body b ON b.document = d.id LEFT JOIN session s ON s.id = d.session
    LEFT JOIN shard h ON h.id = s.shard WHERE d.id = ?1";
/// The maximum size of a decompressed body, in bytes; a larger one counts as damaged.
const BODY_BYTES_MAX: u64 = 1 << 30;

thread_local! {
    /// This thread's decompressor: creating one takes as long as decompressing a small body.
    static DECOMPRESSOR: Cell<Option<zstd::bulk::Decompressor<'static>>> = const { Cell::new(None) };
}

/// Compresses bodies. The compressor is created when the first body is compressed.
#[derive(Default)]
pub(super) struct BodyCompressor {
    zstd: Option<zstd::bulk::Compressor<'static>>,
    frame: Vec<u8>,
    compressed: Vec<u8>,
}

impl BodyCompressor {
    /// Returns a body in its stored form: the byte 1 and the zstd frame of the body, or the byte 0 and the body itself
    /// if the frame is not shorter.
    pub(super) fn compress(&mut self, body: &[u8]) -> Result<&[u8]> {
        let zstd = match &mut self.zstd {
            Some(zstd) => zstd,
            none => none.insert(zstd::bulk::Compressor::new(ZSTD_LEVEL).map_err(zstd_failure)?),
        };
        self.frame.clear();
        self.frame
            .reserve(zstd::zstd_safe::compress_bound(body.len()));
        zstd.compress_to_buffer(body, &mut self.frame)
            .map_err(zstd_failure)?;
        let (format, bytes) = match self.frame.len() < body.len() {
            true => (1, self.frame.as_slice()),
            false => (0, body),
        };
        self.compressed.clear();
        self.compressed.push(format);
        self.compressed.extend_from_slice(bytes);
        Ok(&self.compressed)
    }
}

fn zstd_failure(error: std::io::Error) -> Failure {
    Failure::new(ErrorCode::Internal, format!("zstd: {error}"))
}

/// Returns the body of a stored form; `buffer` receives a decompressed one.
fn decompress<'a>(
    zstd: &mut zstd::bulk::Decompressor<'_>,
    compressed: &'a [u8],
    buffer: &'a mut Vec<u8>,
) -> Result<&'a [u8]> {
    let malformed_body = || malformed("body");
    match compressed.split_first() {
        Some((0, body)) => Ok(body),
        Some((1, frame)) => {
            let size = zstd::zstd_safe::get_frame_content_size(frame);
            let size = size.ok().flatten().filter(|size| *size <= BODY_BYTES_MAX);
            let size = size.and_then(|size| usize::try_from(size).ok());
            buffer.clear();
            buffer.reserve(size.ok_or_else(malformed_body)?);
            zstd.decompress_to_buffer(frame, buffer)
                .map_err(|_| malformed_body())?;
            Ok(buffer)
        }
        _ => Err(malformed_body()),
    }
}

/// The documents with these numbers, in this order; those that do not exist are omitted.
pub(super) fn named(conn: &Connection, numbers: &[DocumentNo]) -> Result<Vec<IndexedDocument>> {
    let sql = "SELECT d.id, s.realm, s.key, d.key, d.unit, d.digest
        FROM document d JOIN session s ON s.id = d.session WHERE d.id = ?1";
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let mut documents = Vec::with_capacity(numbers.len());
    // No document has a number that exceeds the file's integers.
    for no in numbers.iter().filter_map(|no| i64::try_from(*no).ok()) {
        let document = statement.query_row([no], read_document).optional();
        documents.extend(document.map_err(failure)?);
    }
    Ok(documents)
}

fn read_document(row: &Row<'_>) -> rusqlite::Result<IndexedDocument> {
    let number = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
    Ok(IndexedDocument {
        no: number(0)?,
        session: (
            row.get_ref(1)?.as_blob()?.into(),
            row.get_ref(2)?.as_str()?.into(),
        ),
        key: row.get_ref(3)?.as_str()?.into(),
        unit: number(4)?,
        digest: number(5)?,
    })
}

/// Calls `each` with the bodies of these documents, in their order, until it returns false. Skips documents that do not
/// exist.
///
/// Each body is selected separately: a scan of a range of numbers would also read bodies of other owners.
pub(super) fn each_body(
    (conn, key): (&Connection, Option<&IndexKey>),
    documents: &[DocumentNo],
    each: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
) -> Result<()> {
    // The decompressor is moved out of the cell, so that `each` may itself read bodies.
    let mut zstd = match DECOMPRESSOR.take() {
        Some(zstd) => zstd,
        None => zstd::bulk::Decompressor::new().map_err(zstd_failure)?,
    };
    let result = each_body_with((conn, key), documents, &mut zstd, each);
    DECOMPRESSOR.set(Some(zstd));
    result
}

fn each_body_with(
    (conn, key): (&Connection, Option<&IndexKey>),
    documents: &[DocumentNo],
    zstd: &mut zstd::bulk::Decompressor<'_>,
    each: &mut dyn FnMut(DocumentNo, &[u8]) -> bool,
) -> Result<()> {
    let sql = match key {
        Some(_) => SEALED_BODY,
        None => "SELECT packed FROM body WHERE document = ?1",
    };
    let mut statement = conn.prepare_cached(sql).map_err(failure)?;
    let mut buffer = Vec::new();
    for document in documents {
        // No document has a number that exceeds the file's integers.
        let Ok(no) = i64::try_from(*document) else {
            continue;
        };
        let mut rows = statement.query([no]).map_err(failure)?;
        let Some(row) = rows.next().map_err(failure)? else {
            continue;
        };
        let stored = match key {
            Some(key) => authentic(key, *document, row),
            None => row.get_ref(0).and_then(|v| Ok(Some(v.as_blob()?))),
        };
        let stored = stored.map_err(failure)?;
        let stored = stored.ok_or_else(|| malformed("body"))?;
        let body = decompress(zstd, stored, &mut buffer)?;
        if !each(*document, body) {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the stored form of a document's body, without the MAC that precedes it; `None` for a wrong MAC.
fn authentic<'r>(
    key: &IndexKey,
    document: DocumentNo,
    row: &'r Row<'_>,
) -> rusqlite::Result<Option<&'r [u8]>> {
    let blob = |at| row.get::<_, Vec<u8>>(at).map(Vec::into_boxed_slice);
    let number = |at| row.get::<_, i64>(at).map(i64::cast_unsigned);
    let sealed = row.get_ref(0)?.as_blob()?;
    let shard = Shard {
        realm: blob(1)?,
        owner: blob(2)?,
    };
    let session = row.get_ref(3)?.as_str()?;
    let member = Member::Document {
        session: number(4)?,
        no: document,
        key: row.get_ref(5)?.as_str()?,
        fields: [number(6)?, number(7)?, number(8)?, number(9)?],
        content: b"",
    };
    let parts = sealed.split_at_checked(BODY_MAC_BYTES);
    let valid =
        parts.filter(|(mac, stored)| *mac == key.body_mac((&shard, session), &member, stored));
    Ok(valid.map(|(_, stored)| stored))
}
