//! Holds `docs/conformance.md` to the tests: what it names exists, and every code has its row, and its words.

#![expect(clippy::unwrap_used, reason = "a repository that cannot be read fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    fs::read_to_string(root().join("docs/conformance.md")).unwrap()
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|of| of == extension) {
            found.push(path);
        }
    }
    found
}

/// Every package of the workspace: its name and its folder.
fn packages() -> Vec<(String, PathBuf)> {
    let mut packages = Vec::new();
    for group in ["libs", "libs/dev", "libs/testing", "services"] {
        for folder in fs::read_dir(root().join(group)).unwrap() {
            let folder = folder.unwrap().path();
            let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
            let name = manifest.lines().find_map(|line| line.strip_prefix("name = ")).unwrap();
            packages.push((name.trim_matches('"').to_owned(), folder));
        }
    }
    packages
}

/// Every test of the workspace, as `crate::file::name`; those of `thing/tests.rs` belong to the file `thing`.
fn tests() -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    for (name, package) in packages() {
        let sources = ["src", "tests"].into_iter().flat_map(|folder| files(&package.join(folder), "rs"));
        for file in sources {
            let module = if file.ends_with("tests.rs") { file.parent().unwrap() } else { &file };
            let stem = module.file_stem().unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&file).unwrap();
            let mut is_test = false;
            for line in text.lines().map(str::trim) {
                if ["#[test]", "#[tokio::test", "#[actix_web::test"].iter().any(|of| line.starts_with(of)) {
                    is_test = true;
                } else if let Some((_, rest)) = line.split_once("fn ") {
                    if is_test {
                        let function = rest.split('(').next().unwrap_or_default();
                        tests.insert(format!("{name}::{stem}::{function}"));
                    }
                    is_test = false;
                }
            }
        }
    }
    tests
}

/// `a::b::c` in backticks.
fn named(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).filter(|text| text.split("::").count() == 3)
}

#[test]
fn every_test_that_the_page_names_exists() {
    let (page, tests) = (page(), tests());
    let unknown: Vec<_> = page.lines().flat_map(named).filter(|name| !tests.contains(*name)).collect();
    assert!(unknown.is_empty(), "docs/conformance.md names tests that do not exist: {unknown:#?}");
}

#[test]
fn every_row_of_the_page_names_a_test() {
    let page = page();
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Rule"));
    let unproved: Vec<_> = rows.clone().filter(|row| named(row).next().is_none()).collect();
    assert!(rows.count() > 20 && unproved.is_empty(), "rows without a test: {unproved:#?}");
}

#[test]
fn every_code_of_every_area_has_a_row() {
    let page = page();
    for area in fs::read_dir(root().join("services")).unwrap() {
        let messages = fs::read_to_string(area.unwrap().path().join("messages/en.ftl")).unwrap();
        let codes = messages.lines().filter_map(|line| line.split_once(" = ")).map(|(code, _)| code);
        for code in codes.filter(|code| code.chars().all(|c| c.is_ascii_uppercase() || c == '_')) {
            assert!(page.contains(&format!("`{code}`")), "{code} has no row in docs/conformance.md");
        }
    }
}

/// Errors: every message, with all that it says, is there in every language.
#[test]
fn every_message_is_there_in_every_language() {
    let areas = fs::read_dir(root().join("services")).unwrap().map(|area| area.unwrap().path());
    for folder in areas.chain([root().join("libs/web")]) {
        let [english, russian] = ["en", "ru"].map(|language| {
            let messages = fs::read_to_string(folder.join(format!("messages/{language}.ftl"))).unwrap();
            let names = messages.lines().filter_map(|line| line.split_once(" = "));
            names.map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
        });
        assert_eq!(english, russian, "{}", folder.display());
    }
}
