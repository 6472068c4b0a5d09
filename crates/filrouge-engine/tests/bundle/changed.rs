//! Any change in a bundle is detected and reported with its place.

use filrouge_engine::bundle::BundleReport;
use filrouge_store::verify::Verdict;

use crate::layout::Layout;
use crate::round_trip::write_redacted;
use crate::world::{BundleWorld, Random, run, verification_report};

/// A bundle of an eventful session with redactions.
pub(crate) async fn eventful_bundle() -> String {
    let world = BundleWorld::new(1);
    write_redacted(&world, "s").await;
    world.export("s").await
}

/// The finding that a report must contain after a change: the seq of an item, or a place that begins with one of these
/// words.
enum ExpectedFinding {
    Seq(u64),
    /// Alternatives are separated by `|`.
    Place(String),
    Anything,
}

fn expected_finding(layout: &Layout, at: usize) -> ExpectedFinding {
    let index_in = |list: &[std::ops::Range<usize>]| list.iter().position(|r| r.contains(&at));
    if layout.session.contains(&at) {
        ExpectedFinding::Place("session".into())
    } else if let Some(n) = index_in(&layout.turns) {
        ExpectedFinding::Place(format!("turns[{n}]"))
    } else if let Some(k) = index_in(&layout.items) {
        ExpectedFinding::Seq(k as u64 + 1)
    } else if layout.head.contains(&at) || layout.signature.contains(&at) {
        ExpectedFinding::Place("head|signature".into())
    } else {
        ExpectedFinding::Anything
    }
}

/// Asserts that the bundle is not intact and that the expected place is reported.
#[track_caller]
fn assert_detected(report: &BundleReport, expected: &ExpectedFinding, change: &str) {
    assert_ne!(report.verdict, Verdict::Intact, "{change}");
    assert_eq!(report.signed_by, None);
    let [finding] = report.findings.as_slice() else {
        panic!("{change}: {report:?}");
    };
    match expected {
        ExpectedFinding::Seq(seq) => assert_eq!(finding.seq, Some(*seq), "{change}: {finding:?}"),
        ExpectedFinding::Place(places) => assert!(
            places.split('|').any(|p| finding.what.starts_with(p)),
            "{change}: not {places}: {finding:?}"
        ),
        ExpectedFinding::Anything => assert!(!finding.what.is_empty()),
    }
    if !matches!(expected, ExpectedFinding::Anything) {
        assert_eq!(report.verdict, Verdict::Broken, "{change}: {finding:?}");
    }
}

/// Replaces a byte, and asserts that the change is detected.
async fn assert_change_detected(bundle: &str, layout: &Layout, at: usize, byte: u8) {
    let mut bytes = bundle.as_bytes().to_vec();
    let old = std::mem::replace(&mut bytes[at], byte);
    let change = format!(
        "byte {at}: {:?} for {:?}",
        char::from(byte),
        char::from(old)
    );
    assert_detected(
        &verification_report(&bytes).await,
        &expected_finding(layout, at),
        &change,
    );
}

/// Bytes that are significant in JSON, and some that are not.
const LIKELY_BYTES: &[u8] = b"\"\\{}[],: \n\t0123456789-+.eEaftnu\x00\x7f\x80\xbf\xc3\xff";

#[test]
fn a_change_of_any_byte_is_detected() {
    run(async {
        let bundle = eventful_bundle().await;
        let layout = Layout::parse(&bundle);
        let mut random = Random(1);
        for n in 0..1_000 {
            let at = random.below(bundle.len());
            let byte = match n % 2 {
                0 => LIKELY_BYTES[random.below(LIKELY_BYTES.len())],
                _ => u8::try_from(random.below(256)).unwrap(),
            };
            if byte != bundle.as_bytes()[at] {
                assert_change_detected(&bundle, &layout, at, byte).await;
            }
        }
    });
}

#[test]
fn a_change_of_every_byte_of_frame_head_and_signature_is_detected() {
    run(async {
        let bundle = eventful_bundle().await;
        let layout = Layout::parse(&bundle);
        let mut random = Random(2);
        let is_outside = |at: &usize| {
            let pieces = [&layout.turns, &layout.items];
            let is_inside = pieces.iter().any(|l| l.iter().any(|r| r.contains(at)));
            !is_inside && !layout.session.contains(at)
        };
        let (mut places, mut last) = (0, 0);
        for at in (0..bundle.len()).filter(is_outside) {
            (places, last) = (places + 1, at);
            for byte in [
                b' ',
                LIKELY_BYTES[random.below(LIKELY_BYTES.len())],
                bundle.as_bytes()[at] ^ 1,
            ] {
                if byte != bundle.as_bytes()[at] {
                    assert_change_detected(&bundle, &layout, at, byte).await;
                }
            }
        }
        assert!(places > 600 && last == bundle.len() - 1, "{places}");
    });
}

/// Replaces the first and the last byte of each piece by white space or a bracket, after which a reader might include
/// the following text in the piece.
#[test]
fn changes_at_every_border_are_detected() {
    run(async {
        let bundle = eventful_bundle().await;
        let layout = Layout::parse(&bundle);
        let single = [&layout.session, &layout.head];
        let lists = layout.turns.iter().chain(&layout.items);
        for piece in single.into_iter().chain(lists) {
            for at in [piece.start, piece.end - 1] {
                for byte in *b" \n\t,}{][\"" {
                    if byte != bundle.as_bytes()[at] {
                        assert_change_detected(&bundle, &layout, at, byte).await;
                    }
                }
            }
        }
    });
}

#[test]
fn truncated_and_extended_bundles_are_broken() {
    run(async {
        let world = BundleWorld::new(1);
        let request = crate::sessions::complete_turn("r", "\"é\"", "\"a\"");
        world.start("s", request).await.unwrap();
        let bundle = world.export("s").await;
        for length in 0..bundle.len() {
            let report = verification_report(&bundle.as_bytes()[..length]).await;
            assert_detected(
                &report,
                &ExpectedFinding::Anything,
                &format!("cut to {length}"),
            );
            let verdict = match length < "{\"filrouge_bundle\":".len() {
                true => Verdict::CannotTell,
                false => Verdict::Broken,
            };
            assert_eq!(report.verdict, verdict, "cut to {length}");
        }
        for suffix in [&b"\n"[..], b" ", b"{}", b"\0", b"\xff", bundle.as_bytes()] {
            let report = verification_report(&[bundle.as_bytes(), suffix].concat()).await;
            assert_detected(
                &report,
                &ExpectedFinding::Place("the end".into()),
                &format!("{suffix:?}"),
            );
            let report = verification_report(&[suffix, bundle.as_bytes()].concat()).await;
            assert_ne!(report.verdict, Verdict::Intact);
        }
    });
}

#[test]
fn moved_removed_and_duplicated_items_and_turns_are_detected() {
    run(async {
        let bundle = eventful_bundle().await;
        let layout = Layout::parse(&bundle);
        let assert_change = async |text: String, expected: ExpectedFinding, change: String| {
            assert_detected(
                &verification_report(text.as_bytes()).await,
                &expected,
                &change,
            );
        };
        let seq = |n: usize| ExpectedFinding::Seq(n as u64 + 1);
        let turn = |n: usize| ExpectedFinding::Place(format!("turns[{n}]"));
        let (items, turns) = (&layout.items, &layout.turns);
        for n in 0..items.len() {
            let last = n + 1 == items.len();
            let text = Layout::without(&bundle, items, n);
            // Only the signed head reveals that the end of the chain is missing.
            let expected = if last {
                ExpectedFinding::Anything
            } else {
                seq(n)
            };
            assert_change(text, expected, format!("without item {n}")).await;
            let text = Layout::duplicated(&bundle, &items[n]);
            assert_change(text, seq(n + 1), format!("item {n} twice")).await;
            for other in [n + 1, items.len() - 1] {
                if other > n && other < items.len() {
                    let text = Layout::swapped(&bundle, &items[n], &items[other]);
                    assert_change(text, seq(n), format!("items {n} and {other}")).await;
                }
            }
        }
        for n in 0..turns.len() {
            let text = Layout::without(&bundle, turns, n);
            assert_change(text, turn(n), format!("without turn {n}")).await;
            let text = Layout::duplicated(&bundle, &turns[n]);
            assert_change(text, turn(n + 1), format!("turn {n} twice")).await;
            if let Some(next) = turns.get(n + 1) {
                let text = Layout::swapped(&bundle, &turns[n], next);
                assert_change(text, turn(n), format!("turns {n} and {}", n + 1)).await;
            }
        }
    });
}

/// A replacement character in a bundle is ordinary text; undecodable bytes in its place are detected.
#[test]
fn undecodable_bytes_do_not_pass_for_a_replacement_character() {
    run(async {
        let bundle = eventful_bundle().await;
        let replacement = "\u{fffd}";
        let at = bundle.find(replacement).unwrap();
        let (before, after) = (&bundle.as_bytes()[..at], &bundle.as_bytes()[at + 3..]);
        let layout = Layout::parse(&bundle);
        for invalid in [&b"\xff"[..], b"\xef", b"\xef\xbf", b"\xc3", b"\xed\xa0\x80"] {
            let changed = [before, invalid, after].concat();
            let expected = expected_finding(&layout, at);
            assert_detected(
                &verification_report(&changed).await,
                &expected,
                &format!("{invalid:?}"),
            );
        }
        assert_eq!(String::from_utf8_lossy(b"\xff"), replacement);
    });
}

#[test]
fn another_version_cannot_be_verified() {
    run(async {
        let bundle = eventful_bundle().await;
        for version in ["2", "10", "11"] {
            let other_version = bundle.replacen(
                "\"filrouge_bundle\":1,",
                &format!("\"filrouge_bundle\":{version},"),
                1,
            );
            let report = verification_report(other_version.as_bytes()).await;
            assert_eq!(report.verdict, Verdict::CannotTell, "{version}");
            let world = BundleWorld::new(1);
            let refused = world.import(&other_version).await.unwrap_err();
            assert_eq!(refused.code, filrouge_types::ErrorCode::Invalid);
            assert!(refused.hint.is_some());
        }
        for no_version in ["", "-1", "1.0", "\"1\"", "x"] {
            let other_version = bundle.replacen(
                "\"filrouge_bundle\":1,",
                &format!("\"filrouge_bundle\":{no_version},"),
                1,
            );
            let report = verification_report(other_version.as_bytes()).await;
            assert_eq!(report.verdict, Verdict::Broken, "{no_version}");
        }
    });
}
