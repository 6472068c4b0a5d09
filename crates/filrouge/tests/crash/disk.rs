//! Compiles the libraries that tests preload, and configures the faults that `disk.c` injects.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

/// The faults of a server's disk; none by default. `disk.c` describes the variables that configure them.
#[derive(Debug, Default, Clone)]
pub(crate) struct Faults {
    /// The point at which the server is killed (SIGKILL).
    pub(crate) kill_at: Option<u64>,
    /// The point at which the server is frozen (SIGSTOP).
    pub(crate) freeze_at: Option<u64>,
    /// The file in which all changes and flushes are recorded.
    pub(crate) record: Option<PathBuf>,
    /// Whether flushes report success without doing anything.
    pub(crate) fake_sync: bool,
    /// The number of the first flush that fails.
    pub(crate) fail_sync_at: Option<u64>,
    /// How many flushes fail; `None` for all later ones.
    pub(crate) fail_sync_count: Option<u64>,
    /// Only flushes of files with this text in their path are faked or fail.
    pub(crate) sync_only: Option<&'static str>,
    /// The disk has space for this many bytes.
    pub(crate) enospc_at: Option<u64>,
    /// The disk has space again once this file exists.
    pub(crate) enospc_off: Option<PathBuf>,
    /// Points, flushes and bytes are counted only while this file exists.
    pub(crate) arm: Option<PathBuf>,
}

impl Faults {
    /// Returns the environment that causes these faults below `root`; empty without faults.
    pub(crate) fn environment(&self, root: &Path) -> Vec<(&'static str, OsString)> {
        let number = |n: Option<u64>| n.map(|n| n.to_string().into());
        let path = |p: &Option<PathBuf>| p.clone().map(PathBuf::into_os_string);
        let mut variables: Vec<(&'static str, OsString)> = [
            ("DISK_KILL_AT", number(self.kill_at)),
            ("DISK_FREEZE_AT", number(self.freeze_at)),
            ("DISK_RECORD", path(&self.record)),
            ("DISK_FAKE_SYNC", self.fake_sync.then(|| "1".into())),
            ("DISK_FAIL_SYNC_AT", number(self.fail_sync_at)),
            ("DISK_FAIL_SYNC_COUNT", number(self.fail_sync_count)),
            ("DISK_SYNC_ONLY", self.sync_only.map(OsString::from)),
            ("DISK_ENOSPC_AT", number(self.enospc_at)),
            ("DISK_ENOSPC_OFF", path(&self.enospc_off)),
            ("DISK_ARM", path(&self.arm)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect();
        if !variables.is_empty() {
            variables.push(("DISK_ROOT", root.into()));
            variables.push(("LD_PRELOAD", library().into()));
        }
        variables
    }
}

/// Returns the path of the compiled `disk.c`, which is built once per process.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    &LIBRARY.get_or_init(|| compile("disk.c")).1
}

/// Compiles a C file of this folder to a library for `LD_PRELOAD`; returns its directory and its path.
pub(crate) fn compile(source: &str) -> (TempDir, PathBuf) {
    let dir = TempDir::with_prefix("filrouge-preload-").expect("a temporary directory");
    let library = dir.path().join("preload.so");
    let mut compiler = Command::new("cc");
    compiler.args([
        "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-x", "c", "-o",
    ]);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crash");
    let output = compiler
        .arg(&library)
        .arg(folder.join(source))
        .output()
        .expect("run cc, the C compiler");
    assert!(
        output.status.success(),
        "{source} does not compile: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    (dir, library)
}

mod tests {
    use std::fs;

    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;
    use crate::image::{Disk, Unsynced};

    /// Runs a shell script in a fresh directory on a disk with `faults`; returns whether it succeeded.
    fn run(dir: &TempDir, script: &str, mut faults: Faults) -> bool {
        let root = dir
            .path()
            .canonicalize()
            .expect("the directory")
            .join("root");
        fs::create_dir_all(&root).expect("create the root");
        faults.record = Some(dir.path().join("record"));
        let mut shell = Command::new("sh");
        shell
            .arg("-c")
            .arg(script)
            .current_dir(&root)
            .envs(faults.environment(&root));
        shell.status().expect("run the shell").success()
    }

    /// Returns the content that a file has after a power cut, if the file exists.
    fn content_after_cut(
        dir: &TempDir,
        unsynced: Unsynced,
        seed: u64,
        name: &str,
    ) -> Option<Vec<u8>> {
        let root = dir
            .path()
            .canonicalize()
            .expect("the directory")
            .join("root");
        let disk = Disk::new(&dir.path().join("nothing"));
        let image = disk.after_cut(
            &dir.path().join("record"),
            unsynced,
            &mut StdRng::seed_from_u64(seed),
        );
        image.files().get(&root.join(name)).map(|f| f.to_vec())
    }

    /// Writes four sectors of zeros and flushes them, then writes four sectors of `x` without a flush.
    const TWO_WRITES: &str = "
        dd if=/dev/zero of=a bs=512 count=4 conv=fsync status=none
        tr '\\0' x < /dev/zero | dd of=a bs=512 count=4 seek=4 conv=notrunc iflag=fullblock status=none";

    #[test]
    fn only_flushed_writes_are_durable() {
        let dir = TempDir::new().expect("a temporary directory");
        assert!(run(&dir, TWO_WRITES, Faults::default()));
        assert_eq!(
            content_after_cut(&dir, Unsynced::Lost, 0, "a"),
            Some(vec![0; 2048])
        );
        assert_eq!(
            content_after_cut(&dir, Unsynced::Kept, 0, "a"),
            Some([[0; 2048], [b'x'; 2048]].concat())
        );
        let torn: Vec<Vec<u8>> = (0..40)
            .filter_map(|seed| content_after_cut(&dir, Unsynced::Torn, seed, "a"))
            .collect();
        assert_eq!(torn.len(), 40);
        assert!(
            torn.iter().all(|t| t[..2048].iter().all(|b| *b == 0)),
            "a flushed sector was lost"
        );
        assert!(
            torn.iter()
                .any(|t| t.contains(&b'x') && t[2048..].contains(&0)),
            "no image has a hole between kept sectors"
        );
    }

    #[test]
    fn names_need_a_flush_too() {
        let dir = TempDir::new().expect("a temporary directory");
        let script = "
            dd if=/dev/zero of=old bs=9 count=1 conv=fsync status=none && mv old new && printf b > b && rm b
            dd if=/dev/zero of=c bs=1 count=1 status=none";
        assert!(run(&dir, script, Faults::default()));
        assert!(
            content_after_cut(&dir, Unsynced::Lost, 0, "old").is_some()
                && content_after_cut(&dir, Unsynced::Lost, 0, "new").is_none()
        );
        assert!(
            content_after_cut(&dir, Unsynced::Kept, 0, "old").is_none()
                && content_after_cut(&dir, Unsynced::Kept, 0, "new").is_some()
        );
        assert!(content_after_cut(&dir, Unsynced::Lost, 0, "c").is_none());
        assert!(run(&dir, "sync .", Faults::default()));
        assert_eq!(
            content_after_cut(&dir, Unsynced::Lost, 0, "new"),
            Some(vec![0; 9])
        );
        assert_eq!(
            content_after_cut(&dir, Unsynced::Lost, 0, "c"),
            Some(vec![]),
            "the name was flushed, the byte was not"
        );
        assert!(content_after_cut(&dir, Unsynced::Lost, 0, "b").is_none());
    }

    #[test]
    fn faults_occur_where_they_are_configured() {
        let dir = TempDir::new().expect("a temporary directory");
        let one_flush = "dd if=/dev/zero of=f bs=8 count=1 conv=fsync status=none 2>/dev/null";
        assert!(!run(
            &dir,
            one_flush,
            Faults {
                fail_sync_at: Some(1),
                ..Faults::default()
            }
        ));
        assert!(run(
            &dir,
            one_flush,
            Faults {
                fail_sync_at: Some(2),
                ..Faults::default()
            }
        ));
        assert!(!run(
            &dir,
            one_flush,
            Faults {
                enospc_at: Some(7),
                ..Faults::default()
            }
        ));
        assert!(run(
            &dir,
            one_flush,
            Faults {
                enospc_at: Some(8),
                ..Faults::default()
            }
        ));
        let absent = Some(dir.path().join("absent"));
        assert!(run(
            &dir,
            one_flush,
            Faults {
                fail_sync_at: Some(1),
                arm: absent,
                ..Faults::default()
            }
        ));

        // dd truncates `f`, writes 8 bytes and flushes: two points each. `len` is the length of `f` after the kill.
        for (kill_at, len) in [(1, 8), (2, 0), (3, 0), (4, 4), (5, 8), (6, 8)] {
            fs::write(dir.path().join("root/f"), [1; 8]).expect("write");
            assert!(
                !run(
                    &dir,
                    one_flush,
                    Faults {
                        kill_at: Some(kill_at),
                        ..Faults::default()
                    }
                ),
                "point {kill_at}"
            );
            assert_eq!(
                fs::read(dir.path().join("root/f")).expect("read").len(),
                len,
                "point {kill_at}"
            );
        }
        assert!(run(
            &dir,
            one_flush,
            Faults {
                kill_at: Some(7),
                ..Faults::default()
            }
        ));
    }

    #[test]
    fn a_disk_that_fakes_flushes_keeps_nothing() {
        let dir = TempDir::new().expect("a temporary directory");
        assert!(run(
            &dir,
            TWO_WRITES,
            Faults {
                fake_sync: true,
                ..Faults::default()
            }
        ));
        assert_eq!(content_after_cut(&dir, Unsynced::Lost, 0, "a"), None);
    }
}
