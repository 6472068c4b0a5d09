//! The reasons for refusing a bundle.

use filrouge_store::verify::Finding;
use filrouge_types::{ErrorCode, Failure, Place};

/// The reason for refusing a bundle.
#[derive(Debug)]
pub(super) enum Refused {
    /// The bundle has this other format version.
    Version(String),
    /// The bundle differs from what was written.
    Broken(Box<Finding>),
    /// Verification itself failed.
    Failed(Failure),
}

/// Refuses a bundle that differs from what was written. `seq` is the differing item's, if it is an item; `what` says
/// what is wrong.
pub(super) fn broken(session: Option<&str>, seq: Option<u64>, what: impl Into<String>) -> Refused {
    Refused::Broken(Box::new(Finding {
        session_id: session.map(str::to_owned),
        seq,
        code: ErrorCode::IntegrityError.as_str(),
        what: what.into(),
    }))
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Failed(failure) => failure,
            Refused::Version(version) => Self::new(
                ErrorCode::Invalid,
                format!("the bundle has format {version}, this program reads format 1"),
            )
            .with_hint("use the version of filrouge that wrote it, or a newer one"),
            Refused::Broken(finding) => Self {
                place: finding.session_id.as_ref().map(|id| {
                    Box::new(Place {
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
