//! The page `docs/conformance.md`: every rule of the specification with the tests that name it.
//!
//! A test names its rules at the beginning of its doc comment, before a colon:
//! `/// INV-SEL-004, RULE-SEL-012: a selection has at most 200 items.`

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use devkit::stack;

use crate::services;

/// Path of the page in the clone.
pub const PAGE: &str = "docs/conformance.md";
const INTRODUCTION: &str = "# Conformance

Every rule of the [specification](spec/README.md) with the tests that prove it.
`cargo dev contracts` writes this page from the doc comments of the tests; `--check` compares it.
A test is named by its package, its module and its function.
Run one with `cargo dev test -p <package> <function>`.
";
const PREFIXES: [&str; 2] = ["INV-", "RULE-"];
const TEST_ATTRIBUTES: [&str; 3] = ["#[test]", "#[tokio::test", "#[actix_web::test"];

/// Returns the page.
///
/// # Errors
/// A rule without a test, a test that names an unknown rule, or a file that cannot be read.
pub fn page() -> anyhow::Result<String> {
    let mut tests: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (package, folder) in packages()? {
        for file in ["src", "tests"].map(|name| sources(&folder.join(name))).concat() {
            let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            let module = module(&file);
            for (function, rules) in tests_of(&text) {
                for rule in rules {
                    tests.entry(rule).or_default().insert(format!("`{package}::{module}::{function}`"));
                }
            }
        }
    }
    let mut page = INTRODUCTION.to_owned();
    // A rule of two services is on the pages of both.
    let (mut known, mut without_test) = (BTreeSet::new(), Vec::new());
    for name in specification() {
        let path = stack::root().join(format!("docs/spec/{name}.md"));
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let title = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(name);
        write!(page, "\n## {title}\n\n| Rule | Text | Tests |\n|---|---|---|\n")?;
        for (id, rule) in rules(&text) {
            let Some(tests) = tests.get(id) else {
                without_test.push(id.to_owned());
                continue;
            };
            known.insert(id.to_owned());
            let tests: Vec<_> = tests.iter().map(String::as_str).collect();
            let rule = with_links_to_page(rule, name);
            writeln!(page, "| {id} | {rule} | {} |", tests.join(", "))?;
        }
    }
    ensure!(without_test.is_empty(), "no test names these rules: {}", without_test.join(", "));
    let unknown: Vec<_> = tests.iter().filter(|(id, _)| !known.contains(*id)).collect();
    ensure!(unknown.is_empty(), "tests name rules that are not in docs/spec: {unknown:?}");
    Ok(page)
}

/// Returns the pages of the specification with rules, in the order of this page.
fn specification() -> impl Iterator<Item = &'static str> {
    let services = services::all().into_iter().map(|service| service.name);
    ["common"].into_iter().chain(services).chain(["events"])
}

/// Returns each rule of a page of the specification with its text.
fn rules(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.lines().filter_map(|line| {
        let (id, rule) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
        is_rule(id).then_some((id, rule))
    })
}

/// Returns a text of a page of the specification. A link within that page becomes a link from
/// `docs/` to it.
fn with_links_to_page(text: &str, page: &str) -> String {
    text.replace("](#", &format!("](spec/{page}.md#"))
}

fn is_rule(word: &str) -> bool {
    PREFIXES.iter().any(|prefix| word.starts_with(prefix))
}

/// Returns each test of a file with the rules at the beginning of its doc comment.
fn tests_of(text: &str) -> Vec<(&str, Vec<String>)> {
    let mut tests = Vec::new();
    let (mut comment, mut is_test) = (String::new(), false);
    for line in text.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("///") {
            comment.push_str(words);
        } else if TEST_ATTRIBUTES.iter().any(|attribute| line.starts_with(attribute)) {
            is_test = true;
        } else if !line.starts_with("#[") {
            if is_test && let Some((_, rest)) = line.split_once("fn ") {
                let function = rest.split('(').next().unwrap_or_default();
                let rules = comment.split(':').next().unwrap_or_default().split([',', ' ']);
                tests.push((function, rules.filter(|word| is_rule(word)).map(str::to_owned).collect()));
            }
            comment.clear();
            is_test = false;
        }
    }
    tests
}

/// Returns the name of the module in a file. Tests in `inbox/tests.rs` belong to module `inbox`.
fn module(file: &Path) -> String {
    let named =
        if file.ends_with("tests.rs") || file.ends_with("mod.rs") { file.parent() } else { Some(file) };
    named.and_then(Path::file_stem).unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns every package of the workspace with its folder.
fn packages() -> anyhow::Result<Vec<(String, PathBuf)>> {
    let mut packages = Vec::new();
    for group in ["libs", "libs/dev", "libs/testing", "services"] {
        let group = stack::root().join(group);
        for entry in std::fs::read_dir(&group).with_context(|| group.display().to_string())? {
            let folder = entry?.path();
            let Ok(manifest) = std::fs::read_to_string(folder.join("Cargo.toml")) else { continue };
            let name = manifest.lines().find_map(|line| line.strip_prefix("name = "));
            let name = name.with_context(|| format!("{} has no name", folder.display()))?;
            packages.push((name.trim_matches('"').to_owned(), folder));
        }
    }
    packages.sort();
    Ok(packages)
}

/// Returns the Rust files below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{rules, tests_of, with_links_to_page};

    #[test]
    fn rules_before_the_colon_of_a_doc_comment_are_read() {
        let text = "/// INV-SEL-004, RULE-SEL-012: at most 200 items,\n/// as RULE-SEL-013 says.\n#[tokio::test]\n\
            async fn full_selection_rejects_an_item() {\n/// A helper.\nfn helper() {\n#[test]\nfn test_without_rule() {}";
        let expected = vec!["INV-SEL-004".to_owned(), "RULE-SEL-012".to_owned()];
        assert_eq!(
            tests_of(text),
            [("full_selection_rejects_an_item", expected), ("test_without_rule", vec![])]
        );
    }

    #[test]
    fn rules_of_a_page_are_the_rows_that_begin_with_an_id() {
        let page =
            "| Id | Rule |\n|---|---|\n| INV-SEL-001 | Embedded content is frozen. |\n| Title | text |";
        assert_eq!(rules(page).collect::<Vec<_>>(), [("INV-SEL-001", "Embedded content is frozen.")]);
    }

    #[test]
    fn anchors_of_a_rule_lead_to_its_page() {
        let rule = with_links_to_page("As [lists](#8-lists) say.", "common");
        assert_eq!(rule, "As [lists](spec/common.md#8-lists) say.");
    }
}
