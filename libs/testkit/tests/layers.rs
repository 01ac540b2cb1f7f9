//! The layers of a service: each uses only the layers to its right (docs/ARCHITECTURE.md).

#![expect(clippy::unwrap_used, reason = "an unreadable repository fails the test")]

use std::fs;
use std::path::{Path, PathBuf};

const LAYERS: [&[&str]; 4] =
    [&["http", "consumers", "jobs"], &["ops"], &["db", "events", "clients"], &["domain"]];

fn position(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Returns the Rust files below a folder, without those of tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let files = entries.map(|path| match path.extension() {
        None => sources(&path),
        Some(extension) if extension == "rs" && !path.ends_with("tests.rs") => vec![path],
        Some(_) => Vec::new(),
    });
    files.flatten().collect()
}

/// Returns the modules of the crate that a text imports or names.
fn modules(code: &str) -> impl Iterator<Item = &str> {
    let is_separator = |c: char| !c.is_alphanumeric() && c != '_';
    code.split("crate::").skip(1).flat_map(move |rest| {
        let group = rest.strip_prefix('{').and_then(|group| group.split('}').next());
        let first = rest.split(is_separator).next();
        group.map(|group| group.split(is_separator)).into_iter().flatten().chain(first)
    })
}

#[test]
fn layer_uses_only_the_layers_to_its_right() {
    let services = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../services");
    let mut checked = 0;
    for service in fs::read_dir(services).unwrap() {
        let folder = service.unwrap().path().join("src");
        for (layer, name) in
            LAYERS.iter().enumerate().flat_map(|(n, names)| names.iter().map(move |name| (n, name)))
        {
            for file in sources(&folder.join(name)) {
                let text = fs::read_to_string(&file).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                let code: String = code
                    .lines()
                    .filter(|line| !line.trim_start().starts_with("//"))
                    .collect::<Vec<_>>()
                    .join("\n");
                let above: Vec<_> = modules(&code)
                    .filter(|module| position(module).is_some_and(|other| other < layer))
                    .collect();
                assert!(above.is_empty(), "{} uses {above:?}", file.display());
                let has_clock = matches!(*name, "domain" | "db") && code.contains("clock::now");
                assert!(!has_clock, "{} reads the clock", file.display());
                checked += 1;
            }
        }
    }
    assert!(checked > 300, "{checked}");
}
