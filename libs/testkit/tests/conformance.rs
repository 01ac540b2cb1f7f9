//! Compares the error codes and the messages of the services with the specification.

#![expect(clippy::unwrap_used, reason = "an unreadable repository fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the text of all pages of the specification.
fn specification() -> String {
    let pages = fs::read_dir(root().join("docs/spec")).unwrap();
    pages.map(|page| fs::read_to_string(page.unwrap().path()).unwrap()).collect()
}

#[test]
fn every_code_of_every_service_is_specified() {
    let specification = specification();
    for service in fs::read_dir(root().join("services")).unwrap() {
        let messages = fs::read_to_string(service.unwrap().path().join("messages/en.ftl")).unwrap();
        let codes = messages.lines().filter_map(|line| line.split_once(" = ")).map(|(code, _)| code);
        for code in codes.filter(|code| code.chars().all(|c| c.is_ascii_uppercase() || c == '_')) {
            assert!(specification.contains(&format!("`{code}`")), "docs/spec does not contain {code}");
        }
    }
}

/// Every message exists in every language, in the same order.
#[test]
fn messages_exist_in_every_language() {
    let services = fs::read_dir(root().join("services")).unwrap().map(|service| service.unwrap().path());
    for folder in services.chain([root().join("libs/web")]) {
        let [english, russian] = ["en", "ru"].map(|language| {
            let messages = fs::read_to_string(folder.join(format!("messages/{language}.ftl"))).unwrap();
            let names = messages.lines().filter_map(|line| line.split_once(" = "));
            names.map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
        });
        assert_eq!(english, russian, "{}", folder.display());
    }
}
