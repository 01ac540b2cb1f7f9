//! File operations of commands.

use std::path::Path;

use anyhow::Context;

/// Copies a folder with everything in it.
pub fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("failed to create {}", to.display()))?;
    for entry in std::fs::read_dir(from).with_context(|| format!("failed to read {}", from.display()))? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy_folder(&source, &target)?;
        } else {
            std::fs::copy(&source, &target)
                .with_context(|| format!("failed to copy {}", source.display()))?;
        }
    }
    Ok(())
}
