//! Compiles `disk.c`, and configures the faults that it injects.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

/// Faults of a server's disk; none by default.
#[derive(Debug, Default, Clone)]
pub(crate) struct Faults {
    /// SIGKILL at this point.
    pub(crate) kill_at: Option<u64>,
    /// Record all changes and flushes here.
    pub(crate) record: Option<PathBuf>,
    /// Flushes succeed without doing anything.
    pub(crate) lie: bool,
    /// Flushes fail from this one on.
    pub(crate) fail_sync_at: Option<u64>,
    /// This many flushes fail; `None`: all later ones.
    pub(crate) fail_sync_count: Option<u64>,
    /// Only files whose path contains this have faulty flushes.
    pub(crate) sync_only: Option<&'static str>,
    /// The disk has space for this many bytes.
    pub(crate) enospc_at: Option<u64>,
    /// The disk has space again once this file exists.
    pub(crate) enospc_off: Option<PathBuf>,
    /// Points, flushes and bytes are counted only once this file exists.
    pub(crate) arm: Option<PathBuf>,
}

impl Faults {
    /// The environment that causes the faults below `root`; empty without faults.
    pub(crate) fn environment(&self, root: &Path) -> Vec<(&'static str, OsString)> {
        let number = |n: Option<u64>| n.map(|n| n.to_string().into());
        let path = |p: &Option<PathBuf>| p.clone().map(PathBuf::into_os_string);
        let mut set: Vec<(&'static str, OsString)> = [
            ("DISK_KILL_AT", number(self.kill_at)),
            ("DISK_RECORD", path(&self.record)),
            ("DISK_LIE", self.lie.then(|| "1".into())),
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
        if !set.is_empty() {
            set.push(("DISK_ROOT", root.into()));
            set.push(("LD_PRELOAD", library().into()));
        }
        set
    }
}

/// The compiled `disk.c`, built once per process.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_dir, library) = LIBRARY.get_or_init(|| {
        let dir = TempDir::with_prefix("filrouge-disk-").expect("a temporary directory");
        let library = dir.path().join("disk.so");
        let mut compiler = Command::new("cc");
        compiler.args([
            "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-x", "c", "-o",
        ]);
        let output = compiler
            .arg(&library)
            .arg(source())
            .output()
            .expect("the C compiler, which SQLite's build needs too");
        assert!(
            output.status.success(),
            "disk.c: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        (dir, library)
    });
    library
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crash/disk.c")
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

    /// The content of a file of the image, or `None`.
    fn image(dir: &TempDir, unsynced: Unsynced, seed: u64, name: &str) -> Option<Vec<u8>> {
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

    const TWO_WRITES: &str = "
        dd if=/dev/zero of=a bs=512 count=4 conv=fsync status=none
        tr '\\0' x < /dev/zero | dd of=a bs=512 count=4 seek=4 conv=notrunc iflag=fullblock status=none";

    #[test]
    fn only_flushed_writes_are_durable() {
        let dir = TempDir::new().expect("a temporary directory");
        assert!(run(&dir, TWO_WRITES, Faults::default()));
        assert_eq!(image(&dir, Unsynced::Lost, 0, "a"), Some(vec![0; 2048]));
        assert_eq!(
            image(&dir, Unsynced::Kept, 0, "a"),
            Some([[0; 2048], [b'x'; 2048]].concat())
        );
        let torn: Vec<Vec<u8>> = (0..40)
            .filter_map(|seed| image(&dir, Unsynced::Torn, seed, "a"))
            .collect();
        assert_eq!(torn.len(), 40);
        assert!(
            torn.iter().all(|t| t[..2048].iter().all(|b| *b == 0)),
            "flushed sectors are kept"
        );
        assert!(
            torn.iter()
                .any(|t| t.contains(&b'x') && t[2048..].contains(&0)),
            "a hole between sectors"
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
            image(&dir, Unsynced::Lost, 0, "old").is_some()
                && image(&dir, Unsynced::Lost, 0, "new").is_none()
        );
        assert!(
            image(&dir, Unsynced::Kept, 0, "old").is_none()
                && image(&dir, Unsynced::Kept, 0, "new").is_some()
        );
        assert!(image(&dir, Unsynced::Lost, 0, "c").is_none());
        assert!(run(&dir, "sync .", Faults::default()));
        assert_eq!(image(&dir, Unsynced::Lost, 0, "new"), Some(vec![0; 9]));
        assert_eq!(
            image(&dir, Unsynced::Lost, 0, "c"),
            Some(vec![]),
            "the name is flushed, the byte is not"
        );
        assert!(image(&dir, Unsynced::Lost, 0, "b").is_none());
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

        // dd empties `f`, writes and flushes: two points each.
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
                lie: true,
                ..Faults::default()
            }
        ));
        assert_eq!(image(&dir, Unsynced::Lost, 0, "a"), None);
    }
}
