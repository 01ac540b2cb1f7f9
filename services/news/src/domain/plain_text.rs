//! What a reader would read of a text, and HTML that is safe to show.

use std::cell::{Cell, RefCell};

use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use pulldown_cmark::{Event, Parser, TagEnd};

use values::Invalid;

use super::TextFormat;

/// What sanitizing a text may come to, in bytes: a parser opens formatting that was left open anew in
/// every paragraph, so that a short text can become megabytes.
const MAX_EFFORT: usize = 256 * 1024;
/// Elements within each other: a parser looks through those that are open at every tag.
const MAX_DEPTH: usize = 256;

/// HTML without scripts, styles, event handlers, foreign schemes.
///
/// # Errors
/// `too_complex` when so many elements are within each other, or left open, that its repair would not be
/// worth it.
pub fn sanitize(html: &str) -> Result<String, Invalid> {
    let open = tokenize(html, OpenElements::default());
    if html.len() + open.effort() > MAX_EFFORT || open.depth.get() > MAX_DEPTH {
        return Err(Invalid::new("too_complex"));
    }
    Ok(ammonia::clean(html))
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
                plain.push_str(&read(&std::mem::take(&mut block)));
                plain.push('\n');
            }
            Event::InlineHtml(html) => plain.push_str(&read(&html)),
            Event::Start(_) | Event::End(_) | Event::FootnoteReference(_) | Event::TaskListMarker(_) => {}
        }
    }
    plain.trim().to_owned()
}

/// What is seen of HTML inside of Markdown; nothing of what cannot be repaired.
fn read(html: &str) -> String {
    sanitize(html).map(|safe| of_html(&safe)).unwrap_or_default()
}

/// Elements that a parser opens anew where they were left open.
const FORMATTING: [&str; 14] =
    ["a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"];

/// Elements that are never within their like: they have no content, or end where the next begins.
const FLAT: [&str; 27] = [
    "area", "base", "br", "col", "colgroup", "dd", "dt", "embed", "hr", "img", "input", "li", "link", "meta",
    "optgroup", "option", "p", "param", "source", "tbody", "td", "tfoot", "th", "thead", "tr", "track",
    "wbr",
];

/// What is open at once, at most.
#[derive(Default)]
struct OpenElements {
    /// Each with its size, should it be opened anew.
    open: RefCell<Vec<(String, usize)>>,
    depth: Cell<usize>,
    formatting: Cell<usize>,
    tags: Cell<usize>,
}

impl OpenElements {
    /// An upper bound of what a parser would add, without having it added.
    fn effort(&self) -> usize {
        self.formatting.get() * self.tags.get()
    }
}

impl TokenSink for OpenElements {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let Token::TagToken(tag) = token else { return TokenSinkResult::Continue };
        let mut open = self.open.borrow_mut();
        if tag.kind == TagKind::StartTag {
            self.tags.set(self.tags.get() + 1);
            if FORMATTING.contains(&&*tag.name) {
                let attributes = tag.attrs.iter().map(|attr| attr.name.local.len() + attr.value.len() + 4);
                open.push((tag.name.to_string(), tag.name.len() + 5 + attributes.sum::<usize>()));
                let formatting = open.iter().map(|(_, size)| size).sum();
                self.formatting.set(self.formatting.get().max(formatting));
            } else if !FLAT.contains(&&*tag.name) {
                open.push((tag.name.to_string(), 0));
            }
            self.depth.set(self.depth.get().max(open.len()));
        } else if let Some(at) = open.iter().rposition(|(name, _)| *name == *tag.name) {
            open.remove(at);
        }
        TokenSinkResult::Continue
    }
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
    tokenize(html, Reader::default()).0.take().trim().to_owned()
}

fn tokenize<S: TokenSink>(html: &str, sink: S) -> S {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(html));
    let tokenizer = Tokenizer::new(sink, TokenizerOpts::default());
    // These sinks never ask it to pause for a script.
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink
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
        )
        .unwrap();
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
            let Ok(safe) = sanitize(&text) else { return Ok(()) };
            prop_assert!(!safe.contains("<script"));
            prop_assert_eq!(sanitize(&safe), Ok(safe.clone()));
            plain_text(TextFormat::Html, &safe);
            plain_text(TextFormat::Markdown, &text);
        }
    }

    #[test]
    fn formatting_that_is_left_open_is_not_multiplied() {
        let open = (0..400).map(|n| format!("<b id={n}>")).collect::<Vec<_>>().concat();
        let bomb = format!("<p>{open}{}", "<p>x".repeat(2_000));
        assert_eq!(sanitize(&bomb).unwrap_err().code, "too_complex");
        let closed = "<p><b><i>x</i></b></p>".repeat(900);
        assert!(sanitize(&closed).is_ok());
    }

    #[test]
    fn elements_within_each_other_have_an_end() {
        let nested = |depth: usize| sanitize(&"<div>".repeat(depth));
        assert!(nested(256).is_ok());
        assert_eq!(nested(257).unwrap_err().code, "too_complex");
        let items = format!("<ul>{}</ul>{}", "<li>x".repeat(900), "<p>x<br>".repeat(900));
        assert!(sanitize(&items).is_ok());
    }
}
