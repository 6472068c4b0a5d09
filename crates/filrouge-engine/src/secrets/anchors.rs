//! The anchors of credentials: the words at which a scan stops, and how the text at each one is judged.

use super::read::Text;
use super::verdict::Verdict;
use super::{compound, header, jwt, pem};

/// Judges the text around an anchor, which begins and ends at these positions.
type Judge = fn(Text<'_>, usize, usize) -> Verdict;

/// The rule by which the text at an anchor is judged.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// A simple shape; the number is its row in [`super::shape::SIMPLE_RULES`].
    Simple(usize),
    /// A shape that begins with the anchor, where a word begins.
    From(Judge),
    /// Any other shape; the function checks what precedes the anchor.
    Around(Judge),
}

/// The anchors, and how the text at each one is judged. No anchor is a prefix of another.
pub(super) const ANCHORS: &[(&str, Rule)] = &[
    ("ghp_", Rule::Simple(0)),
    ("gho_", Rule::Simple(0)),
    ("ghu_", Rule::Simple(0)),
    ("ghs_", Rule::Simple(0)),
    ("ghr_", Rule::Simple(0)),
    ("github_pat_", Rule::Simple(1)),
    ("glpat-", Rule::Simple(2)),
    ("gldt-", Rule::Simple(2)),
    ("glrt-", Rule::Simple(2)),
    ("glptt-", Rule::Simple(2)),
    ("AKIA", Rule::Simple(3)),
    ("ASIA", Rule::Simple(3)),
    ("AIza", Rule::Simple(4)),
    ("ya29.", Rule::Simple(5)),
    ("GOCSPX-", Rule::Simple(6)),
    ("_live_", Rule::Simple(7)),
    ("_test_", Rule::Simple(7)),
    ("whsec_", Rule::Simple(8)),
    ("npm_", Rule::Simple(9)),
    ("pypi-AgE", Rule::Simple(10)),
    ("hf_", Rule::Simple(11)),
    ("_v1_", Rule::Simple(12)),
    ("shpat_", Rule::Simple(13)),
    ("shpca_", Rule::Simple(13)),
    ("shppa_", Rule::Simple(13)),
    ("shpss_", Rule::Simple(13)),
    ("key-", Rule::Simple(14)),
    ("xai-", Rule::Simple(15)),
    ("gsk_", Rule::Simple(16)),
    ("pplx-", Rule::Simple(17)),
    ("sk-", Rule::From(compound::sk)),
    ("xox", Rule::From(compound::slack)),
    ("xapp-", Rule::From(compound::slack_app)),
    ("hooks.slack.com", Rule::Around(compound::slack_webhook)),
    ("SG.", Rule::From(compound::sendgrid)),
    (":AA", Rule::Around(compound::telegram)),
    ("frk_", Rule::From(compound::filrouge)),
    ("ecret_access_key", Rule::Around(header::aws_secret)),
    ("ECRET_ACCESS_KEY", Rule::Around(header::aws_secret)),
    ("ecretAccessKey", Rule::Around(header::aws_secret)),
    ("ecret-access-key", Rule::Around(header::aws_secret)),
    ("AccountKey=", Rule::Around(header::storage_key)),
    ("SharedAccessKey=", Rule::Around(header::storage_key)),
    ("earer ", Rule::Around(header::bearer)),
    ("EARER ", Rule::Around(header::bearer)),
    ("asic ", Rule::Around(header::basic)),
    ("ASIC ", Rule::Around(header::basic)),
    ("://", Rule::Around(header::url)),
    (r":\/\/", Rule::Around(header::url)),
    (r":\\/\\/", Rule::Around(header::url)),
    ("eyJ", Rule::From(jwt::judge)),
    ("-----BEGIN ", Rule::Around(pem::judge)),
];
