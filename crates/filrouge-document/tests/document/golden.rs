//! Compares the documents of a small conversation with golden files, byte for byte.

use std::path::PathBuf;

use crate::sample::small;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/document/golden")
        .join(name)
}

/// Compares a text with its golden file. Also writes the text to the build folder, so that a developer can inspect it
/// and copy it over the golden file.
fn compare(name: &str, actual: &str) {
    let output = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&output, actual).unwrap();
    let golden = std::fs::read_to_string(path(name)).unwrap();
    let differs = golden.lines().zip(actual.lines()).position(|(g, a)| g != a);
    if let Some(line) = differs {
        let (g, a) = (golden.lines().nth(line), actual.lines().nth(line));
        let (line, output) = (line + 1, output.display());
        panic!(
            "{name}, line {line}:\n golden {g:?}\n actual {a:?}\n \
             if the change is right, copy {output} over the golden file"
        );
    }
    assert!(
        golden == actual,
        "{name}: one text is the beginning of the other; if the change is right, copy {} over the golden file",
        output.display()
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
