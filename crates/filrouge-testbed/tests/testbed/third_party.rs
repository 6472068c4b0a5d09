//! Tests of third-party programs in the build folder.

use std::path::Path;
use std::process::Command;

use filrouge_testbed::third_party::{Unavailable, installed, or_report_untested, run};

#[test]
fn an_unavailable_program_leaves_a_note_until_it_is_available() {
    let folder = tempfile::tempdir().unwrap();
    let absent = run(&mut Command::new("filrouge-has-no-such-program"));
    assert_eq!(
        or_report_untested(folder.path(), "one", "a client", absent),
        None
    );
    let note = folder.path().join("not-tested/one");
    let text = std::fs::read_to_string(&note).unwrap();
    assert!(text.starts_with("a client: "), "{text}");
    assert!(text.contains("filrouge-has-no-such-program"), "{text}");
    assert_eq!(
        or_report_untested(folder.path(), "one", "a client", Ok(())),
        Some(())
    );
    assert!(!note.exists());
}

#[test]
fn an_interrupted_installation_is_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let interrupted = |target: &Path| {
        std::fs::write(target.join("partial"), "").unwrap();
        Err(Unavailable("interrupted".to_owned()))
    };
    assert!(installed(folder.path(), "one", "1", interrupted).is_err());
    let complete = |target: &Path| {
        assert!(!target.join("partial").exists(), "files are left over");
        Ok(())
    };
    assert!(installed(folder.path(), "one", "1", complete).is_ok());
    let not_called = |_: &Path| panic!("the program is installed already");
    assert!(installed(folder.path(), "one", "1", not_called).is_ok());
    assert!(installed(folder.path(), "one", "2", |_| Ok(())).is_ok());
}
