//! The documents of a small conversation, byte for byte.

use std::path::PathBuf;

use crate::sample::small;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/document/golden")
        .join(name)
}

fn compare(name: &str, written: &str) {
    let golden = std::fs::read_to_string(path(name)).unwrap();
    let differs = golden
        .lines()
        .zip(written.lines())
        .position(|(g, w)| g != w);
    if let Some(line) = differs {
        let (g, w) = (golden.lines().nth(line), written.lines().nth(line));
        panic!("{name}, line {}:\n golden {g:?}\n is now {w:?}", line + 1);
    }
    assert!(
        golden == written,
        "{name}: one of the two goes on after the other has ended"
    );
}

#[test]
fn markdown_is_as_it_was() {
    compare("small.md", &small().markdown());
}

#[test]
fn html_is_as_it_was() {
    compare("small.html", &small().html());
}

/// Rewrites the golden files: `cargo test -p filrouge-document -- --ignored write_golden_files`. Read the
/// difference before keeping it.
#[test]
#[ignore = "writes the files that the other tests compare with"]
fn write_golden_files() {
    std::fs::write(path("small.md"), small().markdown()).unwrap();
    std::fs::write(path("small.html"), small().html()).unwrap();
}
