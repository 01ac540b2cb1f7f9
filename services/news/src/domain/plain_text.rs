//! What a reader would read of a text, and HTML that is safe to show.

use std::cell::RefCell;

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{BufferQueue, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts};
use pulldown_cmark::{Event, Parser, TagEnd};

use super::TextFormat;

/// HTML without scripts, styles, event handlers, foreign schemes.
pub fn sanitize(html: &str) -> String {
    ammonia::clean(html)
}

/// The text without its markup; paragraphs, items and cells stay apart.
pub fn plain_text(format: TextFormat, text: &str) -> String {
    match format {
        TextFormat::Plain => text.to_owned(),
        TextFormat::Markdown => of_markdown(text),
        TextFormat::Html => of_html(text),
    }
}

fn of_markdown(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    // A block of HTML comes line by line; a script or a comment only shows as such when it is whole.
    let mut block = String::new();
    for event in Parser::new(text) {
        match event {
            Event::Text(text) | Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                plain.push_str(&text);
            }
            Event::SoftBreak
            | Event::HardBreak
            | Event::Rule
            | Event::End(
                TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::Item | TagEnd::CodeBlock | TagEnd::TableCell,
            ) => plain.push('\n'),
            Event::Html(html) => block.push_str(&html),
            Event::End(TagEnd::HtmlBlock) => {
                plain.push_str(&of_html(&sanitize(&std::mem::take(&mut block))));
                plain.push('\n');
            }
            Event::InlineHtml(html) => plain.push_str(&of_html(&sanitize(&html))),
            Event::Start(_) | Event::End(_) | Event::FootnoteReference(_) | Event::TaskListMarker(_) => {}
        }
    }
    plain.trim().to_owned()
}

/// Tags inside a line; all others end one.
const INLINE: [&str; 26] = [
    "a", "abbr", "acronym", "b", "bdi", "bdo", "cite", "code", "data", "del", "dfn", "em", "i", "ins", "kbd",
    "mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup", "u", "var",
];

/// Collects characters; sanitized HTML needs no tree for that.
#[derive(Default)]
struct Reader(RefCell<String>);

impl TokenSink for Reader {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut text = self.0.borrow_mut();
        match token {
            Token::CharacterTokens(characters) => text.push_str(&characters),
            Token::TagToken(tag) if !INLINE.contains(&&*tag.name) && !text.ends_with('\n') => text.push('\n'),
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

fn of_html(html: &str) -> String {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(html));
    let tokenizer = Tokenizer::new(Reader::default(), TokenizerOpts::default());
    // A script, which could suspend it, was sanitized away.
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.0.take().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{plain_text, sanitize};
    use crate::domain::TextFormat;

    #[test]
    fn html_reads_as_a_reader_would_read_it() {
        let html = sanitize(
            "<h1>Весна</h1><p>Новый <b>дом</b> &amp; сад<script>alert(1)</script></p><ul><li>a<li>b</ul>",
        );
        assert_eq!(plain_text(TextFormat::Html, &html), "Весна\nНовый дом & сад\na\nb");
    }

    #[test]
    fn markdown_reads_as_a_reader_would_read_it() {
        let markdown = "# Весна\n\nНовый **дом** и [сад](https://example.com)\n\n- a\n- `b`";
        assert_eq!(plain_text(TextFormat::Markdown, markdown), "Весна\nНовый дом и сад\na\nb");
    }

    proptest! {
        /// Whatever is sent, what is stored holds no script and no handler, and nothing panics.
        #[test]
        fn nothing_dangerous_survives(text in "(<[a-z]{1,6} on[a-z]{3,5}=.{0,5}>|<script>|javascript:|&|\\PC){0,40}") {
            let safe = sanitize(&text);
            prop_assert!(!safe.contains("<script"));
            prop_assert_eq!(sanitize(&safe), safe.clone());
            plain_text(TextFormat::Html, &safe);
            plain_text(TextFormat::Markdown, &text);
        }
    }
}
