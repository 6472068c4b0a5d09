//! Compares the documents of a small conversation with golden files, byte for byte.

use std::path::PathBuf;

use crate::sample::small;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/document/golden")
        .join(name)
}

/// Compares with the golden file. The text is also written to the build folder, to be checked and then copied over the
/// golden file.
fn compare(name: &str, written: &str) {
    let made = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&made, written).unwrap();
    let golden = std::fs::read_to_string(path(name)).unwrap();
    let differs = golden
        .lines()
        .zip(written.lines())
        .position(|(g, w)| g != w);
    if let Some(line) = differs {
        let (g, w) = (golden.lines().nth(line), written.lines().nth(line));
        let (line, made) = (line + 1, made.display());
        panic!("{name}, line {line}:\n golden {g:?}\n is now {w:?}\n copy {made} when it is right");
    }
    assert!(
        golden == written,
        "{name}: one of the two is longer than the other; copy {} when it is right",
        made.display()
    );
}

#[test]
fn markdown_equals_its_golden_file() {
    compare("small.md", &small().markdown());
}

#[test]
fn html_equals_its_golden_file() {
    compare("small.html", &small().html());
}
