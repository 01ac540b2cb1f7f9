//! Tools for a developer's machine are not part of production binaries.

use std::fs;
use std::path::Path;

/// RULE-ALL-069: no package of a production binary depends on the issuer of test tokens or on the
/// local stack, which has the sign-in.
#[test]
fn production_binaries_have_no_test_sign_in() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut seen = 0;
    for group in ["libs", "services"] {
        for package in fs::read_dir(root.join(group)).unwrap() {
            let package = package.unwrap().path();
            let name = package.file_name().unwrap().to_string_lossy().into_owned();
            // `libs/dev` and `libs/testing` are folders of tools without a manifest of their own.
            if name == "testkit" || !package.join("Cargo.toml").exists() {
                continue;
            }
            let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
            let dependencies = manifest.split("[dev-dependencies]").next().unwrap();
            for tool in ["testkit", "devkit", "devstack"] {
                assert!(!dependencies.contains(tool), "{name}: {dependencies}");
            }
            seen += 1;
        }
    }
    assert!(seen > 15, "{seen} packages");
}
