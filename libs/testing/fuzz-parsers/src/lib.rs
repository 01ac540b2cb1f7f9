//! Fuzz targets of the parsers that read bytes of callers.
//!
//! A target panics if the parser does, or if an accepted input violates a property of the parser.
//! `cargo dev fuzz --parsers` runs the targets with new inputs. The test of this crate runs them
//! with the stored inputs.
#![expect(clippy::missing_panics_doc, reason = "every target panics if an input violates a property")]

mod body;
mod cursor;
mod feed;
mod header;
mod html;
mod phone;
mod query;
mod text;
mod token;

pub use body::body;
pub use cursor::cursor;
pub use feed::feed;
pub use header::header;
pub use html::html;
pub use phone::phone;
pub use query::query;
pub use text::text;
pub use token::token;

/// A fuzz target.
pub struct Target {
    /// Name of the binary, and of the folder with the stored inputs.
    pub name: &'static str,
    /// Maximum size of an input, in bytes.
    pub max_bytes: u32,
    pub run: fn(&[u8]),
}

/// All targets. Short inputs run faster, so the maximum is below the parser's own limit where the
/// limit itself is simple.
pub const TARGETS: [Target; 9] = [
    Target { name: "body", max_bytes: 16 * 1024, run: body },
    Target { name: "cursor", max_bytes: 5 * 1024, run: cursor },
    Target { name: "feed", max_bytes: 32 * 1024, run: feed },
    Target { name: "header", max_bytes: 1024, run: header },
    Target { name: "html", max_bytes: 20_000, run: html },
    Target { name: "phone", max_bytes: 256, run: phone },
    Target { name: "query", max_bytes: 4 * 1024, run: query },
    Target { name: "text", max_bytes: 2 * 1024, run: text },
    Target { name: "token", max_bytes: 9 * 1024, run: token },
];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::TARGETS;

    /// Each target has a binary and stored inputs, which satisfy its properties.
    #[test]
    fn stored_inputs_satisfy_the_properties_of_their_target() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        for target in TARGETS {
            assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{}", target.name);
            let stored: Vec<_> = fs::read_dir(folder.join("corpus").join(target.name)).unwrap().collect();
            assert!(!stored.is_empty(), "{}", target.name);
            for file in stored {
                (target.run)(&fs::read(file.unwrap().path()).unwrap());
            }
        }
    }
}
