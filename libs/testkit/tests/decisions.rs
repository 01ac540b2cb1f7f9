//! Compares the index of the decisions with their pages.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Number, title and status of a decision.
type Entry = (String, String, String);

/// Removes what was corrected from a status: `accepted, corrected (…)` becomes
/// `accepted, corrected`. Links stay.
fn without_reasons(status: &str) -> String {
    status.split_once(" (").map_or(status, |(status, _)| status).to_owned()
}

#[test]
fn index_of_decisions_has_the_titles_and_statuses_of_the_pages() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/decisions");
    let (mut pages, mut index) = (BTreeMap::<String, Entry>::new(), BTreeMap::new());
    for entry in fs::read_dir(&folder).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let text = fs::read_to_string(folder.join(&file)).unwrap();
        if file == "README.md" {
            let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
            for row in rows.filter(|row| row.starts_with(|c: char| c.is_ascii_digit())) {
                let [number, link, status, _] = row.splitn(4, " | ").collect::<Vec<_>>()[..] else {
                    panic!("{row}")
                };
                let (title, file) = link.trim_matches(['[', ')']).split_once("](").unwrap();
                index.insert(file.to_owned(), (number.to_owned(), title.to_owned(), status.to_owned()));
            }
            continue;
        }
        let mut lines = text.lines();
        let (number, title) = lines.next().unwrap().strip_prefix("# ").unwrap().split_once(". ").unwrap();
        let status = lines.nth(1).unwrap().strip_prefix("Status: ").unwrap();
        assert_eq!(number.parse::<u32>().unwrap(), file[..4].parse().unwrap(), "{file}");
        pages.insert(file, (number.to_owned(), title.to_owned(), without_reasons(status)));
    }
    assert_eq!(index, pages);
}
