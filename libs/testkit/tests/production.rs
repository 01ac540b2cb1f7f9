//! What is for a developer's machine stays there.

use std::fs;
use std::path::Path;

/// The issuer of test tokens and the stack with its sign-in are in no production binary: whatever a service is
/// built of depends on neither.
#[test]
fn no_production_binary_brings_a_sign_in() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut seen = 0;
    for group in ["libs", "services"] {
        for package in fs::read_dir(root.join(group)).unwrap() {
            let package = package.unwrap().path();
            let name = package.file_name().unwrap().to_string_lossy().into_owned();
            if ["testkit", "devstack"].contains(&name.as_str()) {
                continue;
            }
            let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
            let built_of = manifest.split("[dev-dependencies]").next().unwrap();
            assert!(!built_of.contains("testkit") && !built_of.contains("devstack"), "{name}: {built_of}");
            seen += 1;
        }
    }
    assert!(seen > 5, "{seen} packages");
}
