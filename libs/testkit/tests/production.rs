//! What is for a developer's machine stays there.

use std::fs;
use std::path::Path;

/// The issuer of test tokens and the stack with its sign-in are in no production binary: no package that a service is built of
/// depends on either.
#[test]
fn production_binaries_bring_no_sign_in() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut seen = 0;
    for group in ["libs", "services"] {
        for package in fs::read_dir(root.join(group)).unwrap() {
            let package = package.unwrap().path();
            let name = package.file_name().unwrap().to_string_lossy().into_owned();
            // `libs/dev` and `libs/testing` are folders of tools; no service names one of them, as is asserted below.
            if name == "testkit" || !package.join("Cargo.toml").exists() {
                continue;
            }
            let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
            let built_of = manifest.split("[dev-dependencies]").next().unwrap();
            for tool in ["testkit", "devkit", "devstack"] {
                assert!(!built_of.contains(tool), "{name}: {built_of}");
            }
            seen += 1;
        }
    }
    assert!(seen > 15, "{seen} packages");
}
