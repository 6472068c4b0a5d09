//! `filrouge verify --bundle FILE`: exit 0 intact, 1 broken, 2 undecided. Needs no store and no keyring.

use std::io::{self, Read, Write};
use std::path::Path;

use filrouge_engine::bundle::{BundleReport, SignedBy, verify};
use filrouge_store::verify::Verdict;
use serde_json::json;

use super::verify::verdict_code;
use crate::exit::{ExitCode, parse_option, report as report_error};
use crate::output::{print_stderr, show};

/// The maximum size of a bundle file in bytes, because a bundle is read into memory.
const BUNDLE_MAX: u64 = 4 << 30;

/// Reads a bundle file.
pub(super) fn read_bundle(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut file = std::fs::File::open(path)?.take(BUNDLE_MAX + 1);
    file.read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BUNDLE_MAX {
        let detail = format!("larger than {BUNDLE_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, detail));
    }
    Ok(bytes)
}

/// Warns that a signature alone does not prove who the signer is, unless the caller named the signer's key.
pub(super) fn warn_if_untrusted_signer(signed_by: &SignedBy) {
    if !signed_by.trusted {
        print_stderr(
            "nothing was changed since the holder of this key signed it; give --public-key to check who that is",
        );
    }
}

pub(super) async fn run(path: &Path, key: Option<&str>, json: bool) -> anyhow::Result<ExitCode> {
    let key = parse_option("--public-key", key)?;
    let bundle = match read_bundle(path) {
        Ok(bundle) => bundle,
        Err(e) => {
            let error = anyhow::anyhow!("{}: {e}", path.display());
            report_error(&error, json);
            return Ok(ExitCode::from(2));
        }
    };
    let report = verify(&bundle, key).await?;
    let output = json!({
        "status": report.verdict, "sessions": u64::from(report.session_id.is_some()),
        "session_id": report.session_id, "turns": report.turns, "items": report.items,
        "signed_by": report.signed_by, "findings": report.findings,
    });
    show(json, &output, |out| write(out, &report))?;
    Ok(verdict_code(report.verdict))
}

fn write(out: &mut impl Write, report: &BundleReport) -> io::Result<()> {
    let session = report.session_id.as_deref().unwrap_or("unknown");
    match report.verdict {
        Verdict::Intact => {
            let (turns, items) = (report.turns, report.items);
            writeln!(
                out,
                "intact: session {session}, {turns} turns, {items} items"
            )?;
        }
        Verdict::Broken => writeln!(out, "BROKEN: session {session}")?,
        Verdict::CannotTell => writeln!(out, "cannot tell")?,
    }
    for finding in &report.findings {
        let seq = finding
            .seq
            .map_or_else(String::new, |seq| format!("seq {seq}: "));
        writeln!(out, "  {seq}{}", finding.what)?;
    }
    if let Some(signed_by) = &report.signed_by {
        writeln!(out, "signed by {}", signed_by.public_key)?;
        warn_if_untrusted_signer(signed_by);
    }
    Ok(())
}
