//! `docs/verify_bundle.py` and this program give the same verdict on every file. The script was written only from the
//! description of the format.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use filrouge_engine::bundle::verify;
use filrouge_store::verify::Verdict;

use crate::changed::eventful_bundle;
use crate::layout::Layout;
use crate::sessions::complete_turn;
use crate::world::{BundleWorld, Random, run, session_id};

/// Reads lines with a file name and optionally a space and a key. For each line, prints the finding or `intact`.
const DRIVER: &str = "
import sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import verify_bundle
for line in sys.stdin:
    name, _, key = line.strip().partition(' ')
    found = verify_bundle.verify(open(name, 'rb').read(), key or None)
    print(repr(found) if found else 'intact', flush=True)
";

fn script() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/verify_bundle.py")
}

fn python(arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(arguments);
    command
}

/// The script's verdict on each bundle, with the key that must have signed it.
fn script_verdicts(bundles: &[(Vec<u8>, Option<String>)]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let mut names = String::new();
    for (n, (bytes, key)) in bundles.iter().enumerate() {
        let path = dir.path().join(format!("{n}.json"));
        fs::write(&path, bytes).unwrap();
        let key = key.as_deref().unwrap_or("");
        names.push_str(&format!("{} {key}\n", path.display()));
    }
    let script = script();
    let folder = script.parent().unwrap().to_str().unwrap();
    let mut child = python(&["-c", DRIVER, folder])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is needed: install Python 3.8 or newer");
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(names.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Asserts that both agree on every bundle; returns the script's verdicts.
async fn assert_agreement(bundles: Vec<(Vec<u8>, Option<String>)>) -> Vec<String> {
    let verdicts = script_verdicts(&bundles);
    assert_eq!(verdicts.len(), bundles.len());
    for ((bytes, key), script) in bundles.iter().zip(&verdicts) {
        let key = key.as_ref().map(|key| key.parse().unwrap());
        let report = verify(bytes, key).await.unwrap();
        let intact = report.verdict == Verdict::Intact;
        let text = String::from_utf8_lossy(bytes);
        assert_eq!(intact, script == "intact", "{script}\n{report:?}\n{text}");
    }
    verdicts
}

#[test]
fn script_and_program_agree_on_changed_bundles() {
    run(async {
        let bundle = eventful_bundle().await;
        let layout = Layout::parse(&bundle);
        let mut random = Random(3);
        let mut files = vec![bundle.clone().into_bytes()];
        let mut change = |at: usize, byte: u8| {
            let mut bytes = bundle.clone().into_bytes();
            bytes[at] = byte;
            files.push(bytes);
        };
        for n in 0..300 {
            let at = random.below(bundle.len());
            let byte = u8::try_from(random.below(if n % 2 == 0 { 128 } else { 256 })).unwrap();
            if byte != bundle.as_bytes()[at] {
                change(at, byte);
            }
        }
        for at in layout
            .head
            .clone()
            .chain(layout.signature.clone())
            .step_by(5)
        {
            change(at, bundle.as_bytes()[at] ^ 1);
        }
        // The change is another digit, so that the bundle remains parseable.
        for at in (0..bundle.len())
            .filter(|at| bundle.as_bytes()[*at] == b'4')
            .step_by(9)
        {
            change(at, b'5');
        }
        for length in (0..bundle.len()).step_by(997) {
            files.push(bundle.as_bytes()[..length].to_vec());
        }
        files.push([bundle.as_bytes(), b"\n"].concat());
        let lists = [&layout.items, &layout.turns];
        for list in lists {
            let last = list.len() - 1;
            for n in [0, 1, last / 2, last] {
                files.push(Layout::without(&bundle, list, n).into_bytes());
                files.push(Layout::duplicated(&bundle, &list[n]).into_bytes());
            }
            files.push(Layout::swapped(&bundle, &list[0], &list[last]).into_bytes());
        }
        let replacement = bundle.find('\u{fffd}').unwrap();
        files.push(
            [
                &bundle.as_bytes()[..replacement],
                b"\xff",
                &bundle.as_bytes()[replacement + 3..],
            ]
            .concat(),
        );
        files.push(bundle.replacen(":1,", ":2,", 1).into_bytes());
        // A key of small order, with which anyone can sign.
        let weak = format!("01{}", "0".repeat(62));
        let signature = &bundle[layout.signature.start + 1..layout.signature.end - 1];
        let key = verify(bundle.as_bytes(), None).await.unwrap().signed_by;
        let forged = bundle
            .replace(signature, &format!("{weak}{}", "0".repeat(64)))
            .replace(&key.unwrap().public_key, &weak);
        files.push(forged.into_bytes());
        assert!(files.len() > 400, "{}", files.len());
        let verdicts =
            assert_agreement(files.into_iter().map(|bytes| (bytes, None)).collect()).await;
        assert_eq!(verdicts.iter().filter(|s| *s == "intact").count(), 1);
        assert_eq!(verdicts[0], "intact");
    });
}

#[test]
fn script_and_program_agree_on_all_kinds_of_sessions_and_on_the_signer() {
    run(async {
        let (first, second) = (BundleWorld::new(1), BundleWorld::new(2));
        let mut bundles = Vec::new();
        for world in [&first, &second] {
            world.create("empty").await;
            world.create("é\u{202e}\"\\").await;
            world
                .start("s", complete_turn("r", "\"q\"", "\"a\""))
                .await
                .unwrap();
            for id in ["empty", "é\u{202e}\"\\", "s"] {
                bundles.push(world.export(id).await);
            }
        }
        let first_key = first.public_key().to_string();
        let mut files: Vec<_> = bundles
            .iter()
            .map(|b| (b.clone().into_bytes(), None))
            .collect();
        files.extend(
            bundles
                .iter()
                .map(|b| (b.clone().into_bytes(), Some(first_key.clone()))),
        );
        let verdicts = assert_agreement(files).await;
        let intact: Vec<bool> = verdicts.iter().map(|s| s == "intact").collect();
        let (t, f) = (true, false);
        assert_eq!(intact, [t, t, t, t, t, t, t, t, t, f, f, f], "{verdicts:?}");
        // The session is imported into another store and exported again.
        let moved = BundleWorld::new(3);
        moved.import(&bundles[2]).await.unwrap();
        let (caller, id) = (crate::world::operator(), session_id("s"));
        let turn = moved.engine.turns.list(&caller, &id, Default::default());
        turn.await.unwrap();
        let reexported = moved.export("s").await;
        assert_eq!(
            assert_agreement(vec![(reexported.into_bytes(), None)]).await,
            ["intact"]
        );
    });
}

#[test]
fn the_script_reports_by_its_exit_code() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let world = BundleWorld::new(1);
        world
            .start("s", complete_turn("r", "\"q\"", "\"a\""))
            .await
            .unwrap();
        let (good, bad) = (dir.path().join("good"), dir.path().join("bad"));
        let bundle = world.export("s").await;
        fs::write(&good, &bundle).unwrap();
        fs::write(&bad, bundle.replace("\"text\":\"a\"", "\"text\":\"b\"")).unwrap();
        let (key, other) = (world.public_key().to_string(), "0".repeat(64));
        let script = script();
        let script = script.to_str().unwrap();
        let run_script = |arguments: &[&str]| {
            let output = python(&[&[script], arguments].concat()).output().unwrap();
            let stdout = String::from_utf8(output.stdout).unwrap();
            (output.status.code().unwrap(), stdout)
        };
        let (good, bad) = (good.to_str().unwrap(), bad.to_str().unwrap());
        let signed = format!("intact\nsigned by {key}\n");
        assert_eq!(run_script(&[good]), (0, signed.clone()));
        assert_eq!(run_script(&[good, &key]), (0, signed));
        let (exit_code, stdout) = run_script(&[good, &other]);
        assert_eq!(
            (exit_code, stdout.starts_with("broken: head: ")),
            (1, true),
            "{stdout}"
        );
        let (exit_code, stdout) = run_script(&[bad]);
        let names_the_item = stdout.starts_with("broken: items[1], seq 2: ");
        assert_eq!((exit_code, names_the_item), (1, true), "{stdout}");
        assert_eq!(run_script(&[good, "zz"]), (2, String::new()));
        let newer = dir.path().join("newer");
        fs::write(&newer, bundle.replacen(":1,", ":2,", 1)).unwrap();
        let stdout = "cannot tell: another format\n".to_owned();
        assert_eq!(run_script(&[newer.to_str().unwrap()]), (2, stdout));
        let stdout = "cannot tell: not a bundle\n".to_owned();
        assert_eq!(run_script(&[script]), (2, stdout));
        assert_eq!(run_script(&["/nowhere"]), (2, String::new()));
        assert_eq!(run_script(&[]), (2, String::new()));
    });
}
