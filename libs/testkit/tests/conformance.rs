//! Compares the error codes and the messages of the services with the specification.

#![expect(clippy::unwrap_used, reason = "an unreadable repository fails the test")]

use std::collections::BTreeSet;
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

/// Returns the messages of a folder in one language, in their order. An attribute is a message of
/// its own.
fn messages(folder: &Path, language: &str) -> Vec<(String, String)> {
    let file = fs::read_to_string(folder.join(format!("messages/{language}.ftl"))).unwrap();
    let mut messages: Vec<(String, String)> = Vec::new();
    for line in file.lines().filter(|line| !line.starts_with('#')) {
        match (line.split_once(" = "), messages.last_mut()) {
            (Some((name, text)), _) => {
                let parent = messages.iter().rev().map(|(name, _)| name).find(|name| !name.contains('.'));
                let prefix = if name.starts_with(' ') { parent.cloned().unwrap() } else { String::new() };
                messages.push((format!("{prefix}{}", name.trim()), text.to_owned()));
            }
            (None, Some((_, text))) => text.push_str(line),
            (None, None) => assert_eq!(line, ""),
        }
    }
    messages
}

/// Returns the arguments of a message.
fn arguments(text: &str) -> BTreeSet<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split('$').skip(1).map(|rest| rest.split(|c| !is_name(c)).next().unwrap()).collect()
}

fn message_folders() -> impl Iterator<Item = PathBuf> {
    let services = fs::read_dir(root().join("services")).unwrap().map(|service| service.unwrap().path());
    services.chain([root().join("libs/web")])
}

/// Every message exists in every language, in the same order, with the same arguments and in the
/// letters of the language.
#[test]
fn messages_exist_in_every_language() {
    for folder in message_folders() {
        let [english, russian] = ["en", "ru"].map(|language| messages(&folder, language));
        let names = |messages: &[(String, String)]| -> Vec<_> {
            messages.iter().map(|(name, _)| name.clone()).collect()
        };
        assert_eq!(names(&english), names(&russian), "{}", folder.display());
        let is_cyrillic = |c: char| matches!(c, 'а'..='я' | 'А'..='Я' | 'ё' | 'Ё');
        for ((name, english), (_, russian)) in english.iter().zip(&russian) {
            assert!(!english.contains(is_cyrillic) && russian.contains(is_cyrillic), "{name}");
            assert_eq!(arguments(english), arguments(russian), "{name}");
        }
    }
}

/// Returns the sources below a folder, without comments and tests.
fn sources(folder: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_test = path.file_stem().is_some_and(|name| name == "tests");
        if path.is_dir() {
            all.push_str(&sources(&path));
        } else if !is_test && path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(path).unwrap();
            let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
            all.extend(code.lines().filter(|line| !line.trim_start().starts_with("//")));
        }
    }
    all
}

/// Splits the arguments of each `call` at their quotes, and returns the part at `position`.
fn literals<'s>(sources: &'s str, call: &'s str, position: usize) -> impl Iterator<Item = &'s str> {
    let arguments = sources.split(call).skip(1).map(|rest| rest.split(')').next().unwrap());
    arguments.filter_map(move |arguments| arguments.split('"').nth(position))
}

/// Each code of a refusal and each code of an invalid member has a message.
#[test]
fn every_code_has_a_message() {
    let libraries = ["web", "service", "auth", "values"];
    let common_sources: String =
        libraries.map(|library| sources(&root().join(format!("libs/{library}/src")))).concat();
    for folder in message_folders() {
        let sources = sources(&folder.join("src")) + &common_sources;
        let known = messages(&folder, "en").into_iter().chain(messages(&root().join("libs/web"), "en"));
        let known: BTreeSet<_> = known.map(|(name, _)| name).collect();
        let codes = ["Code::new(", "Code::common(", "Code::conflict("];
        let codes = codes.into_iter().flat_map(|call| literals(&sources, call, 1));
        // In `.at("/Field", "code")`, the code is the second text.
        let fields = literals(&sources, "Invalid::new(", 1).chain(literals(&sources, ".at(\"", 2));
        let missing: BTreeSet<_> = codes.chain(fields).filter(|code| !known.contains(*code)).collect();
        assert!(missing.is_empty(), "{}: {missing:?}", folder.display());
    }
}
