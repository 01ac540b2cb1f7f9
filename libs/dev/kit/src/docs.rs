//! Sections of documents that commands write. People write the text around them.

use std::path::PathBuf;

use anyhow::Context;

use crate::stack;

/// Replaces the section `name` of a command in `docs/<document>`.
pub fn write_section(document: &str, command: &str, name: &str, section: &str) -> anyhow::Result<PathBuf> {
    let path = stack::root().join("docs").join(document);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    std::fs::write(&path, with_section(&text, command, name, section))?;
    Ok(path)
}

/// Returns the text with the new section, which is appended if it was missing.
fn with_section(text: &str, command: &str, name: &str, section: &str) -> String {
    let (start, end) = (format!("<!-- {command} {name} -->\n"), format!("<!-- end of {name} -->\n"));
    let section = format!("{start}{section}{end}");
    match text.split_once(&start).and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1))) {
        Some((before, after)) => format!("{before}{section}{after}"),
        None => format!("{text}\n## {name}\n\n{section}"),
    }
}

#[cfg(test)]
mod tests {
    use super::with_section;

    #[test]
    fn section_is_replaced_and_the_rest_is_kept() {
        let first = with_section("# Performance\n", "bench", "messaging", "1\n");
        assert_eq!(
            first,
            "# Performance\n\n## messaging\n\n<!-- bench messaging -->\n1\n<!-- end of messaging -->\n"
        );
        let written = format!("{first}\nNotes.\n");
        assert_eq!(with_section(&written, "bench", "messaging", "2\n"), written.replace("\n1\n", "\n2\n"));
    }
}
