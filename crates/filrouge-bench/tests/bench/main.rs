//! Runs the built program, for workloads that start it again in further processes.

use std::process::Command;

#[test]
fn eight_processes_write_to_one_store_and_nothing_is_refused() {
    let out = Command::new(env!("CARGO_BIN_EXE_filrouge-bench"))
        .args(["--quick", "--json", "processes"])
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let sections: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    for series in sections[0]["series"].as_array().unwrap() {
        assert!(series["legs"][0]["per_s"].as_f64() > Some(0.0), "{series}");
    }
}
