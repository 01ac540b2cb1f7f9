//! The tests whose result can depend on the broker: those of packages that use Kafka, and each test
//! module of a service that reads the bus.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;

/// Folders of the packages whose integration tests all depend on the broker.
const PACKAGES: [&str; 4] = ["ledger", "messaging", "stack", "testkit"];
/// Calls by which a test module uses the bus without a function that reads it.
const USES: [&str; 2] = ["bus()", "Bus::"];
/// Calls that read the bus. A function that contains such a call also reads the bus.
const READS: [&str; 3] = [".events(", ".events_until(", ".published("];

/// One file of a package's tests.
struct Module {
    /// The name in libtest: `deal_move`, `model::compare`.
    name: String,
    text: String,
}

/// The tests of one program whose result can depend on the broker.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    None,
    /// The tests of these modules, as prefixes of their names.
    Modules(Vec<String>),
    All,
}

/// Returns the part of the tests of `source` whose result can depend on the broker. `source` is a
/// file of the package in `folder`.
pub(super) fn part(folder: &Path, source: &Path) -> anyhow::Result<Part> {
    let package = folder.file_name().unwrap_or_default();
    if !source.starts_with("tests") {
        return Ok(Part::None);
    }
    if PACKAGES.iter().any(|name| package == *name) {
        return Ok(Part::All);
    }
    let tests = folder.join(source.parent().unwrap_or(source));
    let mut modules = Vec::new();
    read(&tests, "", &mut modules)?;
    let names: Vec<_> = bus_users(&modules).into_iter().map(|name| format!("{name}::")).collect();
    Ok(if names.is_empty() { Part::None } else { Part::Modules(names) })
}

fn read(folder: &Path, prefix: &str, modules: &mut Vec<Module>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            read(&path, &format!("{prefix}{name}::"), modules)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            modules.push(Module { name: format!("{prefix}{name}"), text: std::fs::read_to_string(&path)? });
        }
    }
    Ok(())
}

/// Returns the names of the modules that use the bus, directly or through a function.
fn bus_users(modules: &[Module]) -> BTreeSet<&str> {
    let functions: Vec<_> = modules.iter().flat_map(|module| functions(&module.text)).collect();
    let mut readers: Vec<Function> = Vec::new();
    // Repeats until no further function calls one of the readers.
    loop {
        let more: Vec<_> = functions
            .iter()
            .filter(|function| !readers.contains(function))
            .filter(|function| {
                READS.iter().any(|read| function.body.contains(read))
                    || readers.iter().any(|reader| reader.is_called_in(function.body))
            })
            .copied()
            .collect();
        if more.is_empty() {
            break;
        }
        readers.extend(more);
    }
    let reads = |text: &str| self::functions(text).iter().any(|function| readers.contains(function));
    modules
        .iter()
        // The name of the root module is no prefix of a test's name.
        .filter(|module| module.name != "main")
        .filter(|module| USES.iter().any(|call| module.text.contains(call)) || reads(&module.text))
        .map(|module| &*module.name)
        .collect()
}

/// A function of a test module.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Function<'t> {
    name: &'t str,
    /// The text up to the end of the function, or up to the next function of the same block.
    body: &'t str,
    /// A function in an `impl`, which is called through a value or a type.
    is_method: bool,
}

impl Function<'_> {
    fn is_called_in(&self, body: &str) -> bool {
        body.match_indices(self.name).any(|(position, name)| {
            let (before, after) = (&body[..position], &body[position + name.len()..]);
            let is_path = before.ends_with(['.', ':']) && !before.ends_with("crate::");
            let is_word = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let is_call = after.starts_with('(') || after.starts_with("::<");
            is_word && is_call && is_path == self.is_method
        })
    }
}

fn functions(text: &str) -> Vec<Function<'_>> {
    let starts: Vec<_> = text.match_indices("fn ").map(|(position, word)| position + word.len()).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let mut functions = Vec::new();
    for (start, end) in starts.iter().copied().zip(ends) {
        let line = text[..start].rsplit('\n').next().unwrap_or_default();
        let body = text[start..end].split("\n}").next().unwrap_or_default();
        if let Some((name, _)) = body.split_once(['(', '<']) {
            functions.push(Function { name, body, is_method: line.starts_with(' ') });
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use devkit::stack;

    use super::{Part, part};

    fn chosen(package: &str, source: &str) -> Part {
        part(&stack::root().join(package), Path::new(source)).unwrap()
    }

    fn modules(package: &str) -> Vec<String> {
        let Part::Modules(modules) = chosen(package, "tests/it/main.rs") else {
            panic!("{package} has modules")
        };
        modules
    }

    #[test]
    fn only_modules_that_read_the_bus_are_chosen() {
        let crm = modules("services/crm");
        assert!(crm.contains(&"deal_create::".to_owned()), "{crm:?}");
        assert!(!crm.contains(&"documents::".to_owned()) && !crm.contains(&"main::".to_owned()), "{crm:?}");
        let selections = modules("services/selections");
        assert!(selections.contains(&"consumer::".to_owned()), "{selections:?}");
        assert!(!selections.contains(&"paging::".to_owned()), "{selections:?}");
    }

    #[test]
    fn kafka_packages_are_chosen_whole_without_unit_tests() {
        assert_eq!(chosen("libs/ledger", "tests/faults/main.rs"), Part::All);
        assert_eq!(chosen("libs/ledger", "src/lib.rs"), Part::None);
        assert_eq!(chosen("libs/db", "tests/database.rs"), Part::None);
        assert_eq!(chosen("services/crm", "src/lib.rs"), Part::None);
    }
}
