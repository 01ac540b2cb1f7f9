//! `cargo dev words`: the rules of docs/STYLE.md that a program can check.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::Args;
use devkit::stack;
use tokio::process::Command;

/// Words and phrases that no file contains. An underscore separates words, so names are checked,
/// too.
const BANNED: [&str; 17] = [
    "tell",
    "tells",
    "told",
    "telling",
    "anew",
    "put aside",
    "puts aside",
    "whoever",
    "nobody",
    "somebody",
    "anybody",
    "so many",
    "so much",
    "so long",
    "meanwhile",
    "under way",
    "in hand",
];
/// Words that do not begin a doc comment, because no noun precedes them.
const OPENINGS: [&str; 16] = [
    "as", "has", "how", "it", "of", "so", "that", "these", "they", "this", "those", "unless", "what",
    "where", "whether", "who",
];
/// Names that never change and contain a banned word: an environment variable and a Unix account.
const NAMES: [&str; 3] = ["HTTP_MAX_REQUESTS_UNDER_WAY", "\"nobody\"", "`nobody`"];
/// Files that contain the banned words on purpose: the rules themselves, and contracts that do not
/// change any more.
const EXEMPT: [&str; 3] = ["docs/STYLE.md", "libs/dev/command/src/words.rs", "contracts/released/"];
const EXTENSIONS: [&str; 11] = ["css", "ftl", "html", "js", "md", "rs", "sh", "sql", "toml", "ts", "yaml"];
/// Columns of a comment, and of a line of Markdown outside tables and code.
const COMMENT_WIDTH: usize = 100;
const MARKDOWN_WIDTH: usize = 300;

/// Check names, comments and documents against docs/STYLE.md
#[derive(Args)]
pub(crate) struct Words {}

impl Words {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let mut list = Command::new("git");
        // A new file is checked before it is added.
        list.args(["ls-files", "--cached", "--others", "--exclude-standard"]);
        let output = list.current_dir(stack::root()).output().await;
        let output = output.context("failed to run git")?;
        ensure!(
            output.status.success(),
            "failed to list the files: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let mut count = 0;
        for name in String::from_utf8(output.stdout)?.lines().filter(|name| is_text(name)) {
            // A file that was deleted and not committed is still listed.
            let Ok(text) = std::fs::read_to_string(stack::root().join(name)) else { continue };
            let faults = if is_exempt(name) { Vec::new() } else { faults(name, &text) };
            for fault in faults.into_iter().chain(broken_links(name, &text)) {
                println!("{name}:{fault}");
                count += 1;
            }
        }
        println!("{count} violations of docs/STYLE.md");
        Ok(if count == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn is_text(name: &str) -> bool {
    let extension = Path::new(name).extension().unwrap_or_default();
    EXTENSIONS.iter().any(|one| extension == *one)
}

/// Returns true for files in which only links are checked.
fn is_exempt(name: &str) -> bool {
    EXEMPT.iter().any(|exempt| name.starts_with(exempt))
}

/// A violation of a rule, and its line.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    line: usize,
    rule: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.line, self.rule)
    }
}

fn faults(name: &str, text: &str) -> Vec<Fault> {
    let extension = Path::new(name).extension().unwrap_or_default();
    let (is_rust, is_markdown) = (extension == "rs", extension == "md");
    let mut faults = Vec::new();
    let (mut is_code, mut is_doc_comment) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let mut report = |rule: String| faults.push(Fault { line: index + 1, rule });
        let words = words(&NAMES.iter().fold(line.to_owned(), |line, name| line.replace(name, "")));
        for banned in BANNED.iter().filter(|banned| words.contains(&format!(" {banned} "))) {
            report(format!("has the banned word \"{banned}\""));
        }
        let width = line.chars().count();
        if is_rust {
            let comment = line.trim_start();
            let documentation = comment.strip_prefix("///").or_else(|| comment.strip_prefix("//!"));
            let opening =
                documentation.filter(|_| !is_doc_comment).and_then(|text| text.split_whitespace().next());
            if let Some(word) = opening.filter(|word| OPENINGS.contains(&&*word.to_lowercase())) {
                report(format!("begins a doc comment with \"{word}\""));
            }
            is_doc_comment = documentation.is_some();
            if comment.starts_with("//") && width > COMMENT_WIDTH && !comment.contains("://") {
                report(format!("has a comment of {width} columns, more than {COMMENT_WIDTH}"));
            }
        }
        if is_markdown {
            is_code ^= line.trim_start().starts_with("```");
            let is_prose = !is_code && !line.trim_start().starts_with(['|', '[', '!']);
            if is_prose && width > MARKDOWN_WIDTH {
                report(format!("has a line of {width} characters, more than {MARKDOWN_WIDTH}"));
            }
        }
    }
    faults
}

/// Returns the relative links of a page that lead to no file. Anchors are not checked.
fn broken_links(name: &str, text: &str) -> Vec<Fault> {
    let folder = match name.strip_suffix(".md") {
        Some(_) => stack::root().join(name).with_file_name(""),
        None => return Vec::new(),
    };
    let mut faults = Vec::new();
    let mut is_code = false;
    for (index, line) in text.lines().enumerate() {
        is_code ^= line.trim_start().starts_with("```");
        // Parts with an odd index are code.
        let prose: String = line.split('`').step_by(2).collect();
        let targets = prose.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        for target in targets.filter(|target| !is_code && !target.contains(':')) {
            if !folder.join(target).exists() {
                faults.push(Fault { line: index + 1, rule: format!("has a broken link to \"{target}\"") });
            }
        }
    }
    faults
}

/// Returns the words of a line in lower case, with one space around each.
fn words(line: &str) -> String {
    let mut words = String::from(" ");
    for word in line.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty()) {
        words.push_str(&word.to_lowercase());
        words.push(' ');
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{broken_links, faults, is_exempt, is_text};

    fn rules(name: &str, text: &str) -> Vec<(usize, String)> {
        faults(name, text).into_iter().map(|fault| (fault.line, fault.rule)).collect()
    }

    #[test]
    fn banned_words_are_found_in_prose_and_in_names() {
        let found = rules("a.rs", "let told_name = 1;\n// Retold stories\n// Put aside.");
        assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [1, 3]);
    }

    #[test]
    fn doc_comment_that_begins_with_a_pronoun_is_found_once() {
        let text = "/// It is a lease.\n/// It ends.\nstruct A;\n/// A lease.\n/// It ends.\nstruct B;";
        assert_eq!(rules("a.rs", text), [(1, "begins a doc comment with \"It\"".to_owned())]);
    }

    #[test]
    fn long_comments_and_long_prose_are_found_and_tables_are_not() {
        let long = "x".repeat(301);
        assert_eq!(rules("a.rs", &format!("// {long}")).len(), 1);
        assert_eq!(rules("a.rs", &format!("let a = \"{long}\";")).len(), 0);
        assert_eq!(rules("a.md", &format!("{long}\n| {long} |\n```\n{long}\n```")).len(), 1);
    }

    #[test]
    fn relative_link_to_a_missing_file_is_found() {
        let page = "[a](testing.md) [`b`](../README.md#start) [c](https://example.org/x.md) [d](#below)\n\
                    `[e](…)`\n```\n[f](gone.md)\n```\n[![g](trace.svg)](gone.md#h) [i](../docs/)";
        let found: Vec<_> = broken_links("docs/a.md", page).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["6 has a broken link to \"gone.md\""]);
        assert_eq!(broken_links("docs/a.rs", "/// [f](gone.md)"), []);
    }

    #[test]
    fn files_of_text_are_checked_except_the_rules_themselves() {
        assert!(is_text("services/crm/src/lib.rs") && is_text("docs/spec/crm.md") && !is_text("Cargo.lock"));
        assert!(is_exempt("docs/STYLE.md") && !is_exempt("docs/spec/crm.md"));
    }
}
