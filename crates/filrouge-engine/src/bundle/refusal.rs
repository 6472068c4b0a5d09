//! The reasons for refusing a bundle.

use filrouge_store::verify::Finding;
use filrouge_types::{DataLocation, ErrorCode, Failure};

use super::MARK;

/// The reason for refusing a bundle.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The file does not begin like a bundle.
    NotABundle,
    /// The bundle has this other format version.
    OtherVersion(String),
    /// The bundle's content differs from the written content.
    Broken(Box<Finding>),
    /// Verification could not be performed.
    VerificationFailed(Failure),
}

/// Refuses a bundle that differs from what was written. `seq` is the seq of the differing item, if it is an item;
/// `detail` describes the difference.
pub(super) fn broken(
    session: Option<&str>,
    seq: Option<u64>,
    detail: impl Into<String>,
) -> Refusal {
    Refusal::Broken(Box::new(Finding {
        session_id: session.map(str::to_owned),
        seq,
        code: ErrorCode::IntegrityError.as_str(),
        what: detail.into(),
    }))
}

impl From<Refusal> for Failure {
    fn from(refused: Refusal) -> Self {
        match refused {
            Refusal::VerificationFailed(failure) => failure,
            Refusal::NotABundle => Self::new(
                ErrorCode::Invalid,
                format!("not a bundle: it does not begin with {MARK}"),
            )
            .with_hint("`filrouge export SESSION` writes bundles"),
            Refusal::OtherVersion(version) => Self::new(
                ErrorCode::Invalid,
                format!("the bundle has format {version}, this program reads format 1"),
            )
            .with_hint("use the version of filrouge that wrote it, or a newer one"),
            Refusal::Broken(finding) => Self {
                location: finding.session_id.as_ref().map(|id| {
                    Box::new(DataLocation {
                        session_id: id.clone(),
                        seq: finding.seq,
                    })
                }),
                ..Self::new(
                    ErrorCode::IntegrityError,
                    format!("the bundle is not what was written: {}", finding.what),
                )
                .with_hint("get the bundle again from where it was exported")
            },
        }
    }
}
