//! Sanitizes HTML, and reads the text of HTML and Markdown.

mod elements;
mod inner_text;
mod source;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::LazyLock;

use ammonia::Builder;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{BufferQueue, TokenSink, Tokenizer, TokenizerOpts};
use pulldown_cmark::{Event, Parser, Tag, TagEnd};
use values::{Invalid, is_invisible};

pub use inner_text::inner_text;

use source::Source;

/// Maximum size of a repaired text, in bytes.
///
/// A parser reopens unclosed formatting in every paragraph, so a short text can grow to megabytes.
const MAX_REPAIRED_BYTES: usize = 256 * 1024;
/// Maximum size of sanitized HTML, in bytes. A text of 20,000 `&` becomes 100,000 bytes.
const MAX_SANITIZED_BYTES: usize = 128 * 1024;
/// Maximum depth of nested elements. At each tag a parser searches all open elements.
const MAX_DEPTH: usize = 256;

/// Allowed schemes of links.
const SCHEMES: [&str; 4] = ["http", "https", "mailto", "tel"];

/// Sanitizer that removes images, since loading one reveals the reader to another server.
static SANITIZER: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let mut sanitizer = Builder::default();
    sanitizer
        .url_schemes(SCHEMES.into())
        .rm_tags(["img"])
        .add_generic_attributes(["hidden"])
        .clean_content_tags(elements::DROPPED.iter().copied().collect())
        .attribute_filter(|_, name, value| check_address(name, value));
    sanitizer
});

/// Removes scripts, styles, event handlers, images, and links whose scheme is not in [`SCHEMES`].
///
/// # Errors
/// `too_complex` if elements are nested too deeply, or if the result would exceed its limit.
pub fn sanitize(html: &str) -> Result<String, Invalid> {
    let Source { html, depth, repair_bytes } = source::read(html);
    if html.len() + repair_bytes > MAX_REPAIRED_BYTES || depth > MAX_DEPTH {
        return Err(Invalid::new("too_complex"));
    }
    // A no-break space is shorter than its entity, which the sanitizer writes. Without the
    // replacement most texts would grow.
    let safe = SANITIZER.clean(&html).to_string().replace("&nbsp;", "\u{a0}");
    if safe.len() > MAX_SANITIZED_BYTES {
        return Err(Invalid::new("too_complex"));
    }
    // Removed tags can leave a byte order mark at the start. It is removed here, since a second
    // sanitization would remove it and the text would change.
    Ok(safe.trim_start_matches('\u{feff}').to_owned())
}

/// Keeps an attribute unless it is an address whose scheme is not in [`SCHEMES`].
///
/// Removes white space, control and invisible characters before the scheme, because some programs
/// ignore them and would open the address.
fn check_address<'a>(name: &str, value: &'a str) -> Option<Cow<'a, str>> {
    if !matches!(name, "href" | "cite") {
        return Some(value.into());
    }
    let address = value.trim_start_matches(|c: char| c.is_whitespace() || c.is_control() || is_invisible(c));
    // Browsers ignore these three characters in an address.
    let compact = address.replace(['\t', '\n', '\r'], "");
    let end = compact.find([':', '/', '?', '#']).unwrap_or(compact.len());
    let (scheme, rest) = compact.split_at(end);
    let is_allowed =
        !rest.starts_with(':') || SCHEMES.iter().any(|allowed| allowed.eq_ignore_ascii_case(scheme));
    is_allowed.then(|| address.into())
}

/// The safe HTML of a text, and its text for readers.
pub struct Rendered {
    pub html: String,
    pub plain_text: String,
}

/// Renders Markdown. An image contributes its alternative text.
///
/// # Errors
/// The errors of [`sanitize`] for the rendered HTML, if the Markdown contains HTML.
pub fn render_markdown(text: &str) -> Result<Rendered, Invalid> {
    let events = Parser::new(text)
        .filter(|event| !matches!(event, Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image)));
    let mut html = String::with_capacity(2 * text.len());
    let mut has_html = false;
    let events = events.inspect(|event| has_html |= matches!(event, Event::Html(_) | Event::InlineHtml(_)));
    pulldown_cmark::html::push_html(&mut html, events);
    match sanitize(&html) {
        Ok(safe) => Ok(Rendered { plain_text: inner_text(&safe), html: safe }),
        Err(too_complex) if has_html => Err(too_complex),
        // Thousands of nested quotes are legal Markdown, which is shown as it was written.
        Err(_) => Ok(Rendered { plain_text: inner_text(&html), html: escape_lines(text) }),
    }
}

/// Returns HTML that shows a plain text, with its line breaks.
///
/// Leaves out control characters except tabs, because HTML cannot contain them.
pub fn escape_lines(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for (number, line) in text.lines().enumerate() {
        if number > 0 {
            html.push_str("<br>");
        }
        push_escaped(&mut html, line);
    }
    html.retain(|c| !c.is_control() || c == '\t');
    html
}

fn push_escaped(html: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            c => html.push(c),
        }
    }
}

fn tokenize<S: TokenSink>(html: &str, sink: S) -> S {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(html));
    let tokenizer = Tokenizer::new(sink, TokenizerOpts::default());
    // No sink of this module pauses the tokenizer for a script.
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink
}
