//! The highest cost of a valid text: the densest markup against ordinary HTML of the same length.

use std::time::Instant;

use serde_json::json;

use super::{Bench, PARAGRAPH};
use crate::bench::Effort;
use crate::bench::report::{Goal, Rounds, Row, Unit};
use devkit::progress::Step;

/// Characters of a text.
const LENGTH: usize = 20_000;
/// Number of this bench's post.
const POST: u32 = 900_000;

pub(super) async fn run(bench: &Bench<'_>, effort: Effort, step: &Step) -> anyhow::Result<Vec<Row>> {
    let edits: u32 = effort.choose(50, 20);
    bench.write_posts(POST.into(), 1, "Draft", 1).await?;
    let client = devkit::http::client()?;
    // In the first text, every two characters are an element. The text ends with HTML, so the
    // sanitizer reads the HTML of all elements, which has five bytes for each byte of the text. In
    // the second text, every four characters are a piece of HTML. The sanitizer must not run once
    // for each piece.
    let texts = [
        ("Markdown of list items", "Markdown", "-\n".repeat(LENGTH / 2 - 2) + "<br>"),
        ("Markdown with HTML in it", "Markdown", "<br>".repeat(LENGTH / 4)),
        ("Html of paragraphs", "Html", format!("<p>{PARAGRAPH}</p>").repeat(LENGTH / (PARAGRAPH.len() + 7))),
    ];
    let mut taken = [const { Vec::new() }; 3];
    for round in 1..=effort.rounds() {
        for ((what, format, text), taken) in texts.iter().zip(&mut taken) {
            step.note(format!("round {round}: {what}"));
            let begun = Instant::now();
            for _ in 0..edits {
                let block = json!({"Kind": "Text", "SortOrder": 0, "Format": format, "Text": text});
                bench.set_blocks(&client, POST, &[block]).await?;
            }
            taken.push(begun.elapsed().as_secs_f64() * 1e3 / f64::from(edits));
        }
    }
    let [items, pieces, html] = taken;
    let of_html = |taken: &[f64]| Rounds::ratios(taken, &html);
    let (items_of_html, pieces_of_html) = (of_html(&items), of_html(&pieces));
    let mut rows: Vec<_> = texts
        .iter()
        .zip([items, pieces, html.clone()])
        .map(|((what, ..), taken)| {
            Row::new(format!("Edit with 20,000 characters, {what}"), Unit::Milliseconds, Rounds::new(taken))
        })
        .collect();
    rows.push(Row::new("Markdown of list items / Html of paragraphs", Unit::Ratio, items_of_html));
    let pieces = Row::new("Markdown with HTML in it / Html of paragraphs", Unit::Ratio, pieces_of_html);
    rows.push(pieces.goal(Goal::AtMost(5.0)));
    Ok(rows)
}
