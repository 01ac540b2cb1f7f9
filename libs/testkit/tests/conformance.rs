//! Compares `docs/conformance.md` with the tests, the error codes and their messages.

#![expect(clippy::unwrap_used, reason = "an unreadable repository fails the test")]

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
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found
}

/// Returns name and folder of every package of the workspace.
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

/// Returns every test of the workspace as `crate::file::name`.
///
/// The tests of `inbox/tests.rs` belong to the file `inbox`.
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
                if ["#[test]", "#[tokio::test", "#[actix_web::test"]
                    .iter()
                    .any(|attribute| line.starts_with(attribute))
                {
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

/// Returns each `a::b::c` in backticks.
fn named(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).filter(|text| text.split("::").count() == 3)
}

#[test]
fn each_test_on_the_page_exists() {
    let (page, tests) = (page(), tests());
    let unknown: Vec<_> = page.lines().flat_map(named).filter(|name| !tests.contains(*name)).collect();
    assert!(unknown.is_empty(), "docs/conformance.md names tests that do not exist: {unknown:#?}");
}

#[test]
fn each_row_of_the_page_names_a_test() {
    let page = page();
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Rule"));
    let untested: Vec<_> = rows.clone().filter(|row| named(row).next().is_none()).collect();
    assert!(rows.count() > 20 && untested.is_empty(), "rows without a test: {untested:#?}");
}

#[test]
fn each_error_code_has_a_row() {
    let page = page();
    for service in fs::read_dir(root().join("services")).unwrap() {
        let messages = fs::read_to_string(service.unwrap().path().join("messages/en.ftl")).unwrap();
        let codes = messages.lines().filter_map(|line| line.split_once(" = ")).map(|(code, _)| code);
        for code in codes.filter(|code| code.chars().all(|c| c.is_ascii_uppercase() || c == '_')) {
            assert!(page.contains(&format!("`{code}`")), "{code} has no row in docs/conformance.md");
        }
    }
}

/// RULE-ALL-010: the message files of all languages have the same messages.
#[test]
fn languages_have_the_same_messages() {
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
