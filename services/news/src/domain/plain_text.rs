//! Plain text of Markdown and HTML, and sanitization of HTML.

use std::cell::{Cell, RefCell};
use std::sync::LazyLock;

use ammonia::Builder;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use pulldown_cmark::{Event, Parser, Tag, TagEnd};
use values::Invalid;

/// Maximum size of a repaired text, in bytes.
///
/// A parser reopens unclosed formatting in every paragraph, so a short text can grow to megabytes.
const MAX_REPAIRED_BYTES: usize = 256 * 1024;
/// Maximum depth of nested elements. At each tag a parser searches all open elements.
const MAX_DEPTH: usize = 256;

/// Allowed schemes of links.
const SCHEMES: [&str; 4] = ["http", "https", "mailto", "tel"];

/// Sanitizer that removes images, since loading one reveals the reader to another server.
static SANITIZER: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let mut sanitizer = Builder::default();
    sanitizer.url_schemes(SCHEMES.into()).rm_tags(["img"]);
    // The sanitizer does not check the address in `cite`, and no browser shows it.
    for element in ["blockquote", "del", "ins", "q"] {
        sanitizer.rm_tag_attributes(element, ["cite"]);
    }
    sanitizer
});

/// Removes scripts, styles, event handlers, images and links with other schemes.
///
/// # Errors
/// `too_complex` if elements are nested too deeply, or if the repair would exceed its limit.
pub fn sanitize(html: &str) -> Result<String, Invalid> {
    let open = tokenize(html, OpenElements::default());
    if html.len() + open.repair_bytes.get() > MAX_REPAIRED_BYTES || open.depth.get() > MAX_DEPTH {
        return Err(Invalid::new("too_complex"));
    }
    // Removed tags can leave a byte order mark at the start. It is removed here, since a second
    // sanitization would remove it and the text would change.
    Ok(SANITIZER.clean(html).to_string().trim_start_matches('\u{feff}').to_owned())
}

/// Returns the visible text of Markdown.
///
/// # Errors
/// The errors of [`sanitize`] for the rendered HTML, if the Markdown contains HTML.
pub fn markdown_to_plain_text(text: &str) -> Result<String, Invalid> {
    // An image contributes its alternative text.
    let events = Parser::new(text)
        .filter(|event| !matches!(event, Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image)));
    let mut html = String::with_capacity(2 * text.len());
    let mut has_html = false;
    let events = events.inspect(|event| has_html |= matches!(event, Event::Html(_) | Event::InlineHtml(_)));
    pulldown_cmark::html::push_html(&mut html, events);
    // Markdown without HTML renders to well-formed HTML without invisible content.
    Ok(html_to_plain_text(&if has_html { sanitize(&html)? } else { html }))
}

/// Elements that a parser reopens where they are unclosed.
const FORMATTING: [&str; 14] =
    ["a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"];

/// Elements that do not nest: void elements, and elements that the next sibling closes.
const NON_NESTING: [&str; 27] = [
    "area", "base", "br", "col", "colgroup", "dd", "dt", "embed", "hr", "img", "input", "li", "link", "meta",
    "optgroup", "option", "p", "param", "source", "tbody", "td", "tfoot", "th", "thead", "tr", "track",
    "wbr",
];

/// Counts open elements and estimates the size of a repair.
#[derive(Default)]
struct OpenElements {
    /// Names of open elements, with the bytes that reopening each one adds.
    open: RefCell<Vec<(String, usize)>>,
    depth: Cell<usize>,
    /// Upper bound of the bytes that a repair adds: at each tag the open elements are reopened.
    repair_bytes: Cell<usize>,
}

impl TokenSink for OpenElements {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let Token::TagToken(tag) = token else { return TokenSinkResult::Continue };
        let mut open = self.open.borrow_mut();
        if open.len() > MAX_DEPTH {
            // The depth limit is already exceeded.
            return TokenSinkResult::Continue;
        }
        self.repair_bytes.set(self.repair_bytes.get() + open.iter().map(|(_, size)| size).sum::<usize>());
        if tag.kind == TagKind::StartTag {
            if FORMATTING.contains(&&*tag.name) {
                let attributes = tag.attrs.iter().map(|attr| attr.name.local.len() + attr.value.len() + 4);
                open.push((tag.name.to_string(), tag.name.len() + 5 + attributes.sum::<usize>()));
            } else if !NON_NESTING.contains(&&*tag.name) {
                open.push((tag.name.to_string(), 0));
            }
            self.depth.set(self.depth.get().max(open.len()));
        } else if let Some(at) = open.iter().rposition(|(name, _)| *name == *tag.name) {
            open.remove(at);
        }
        TokenSinkResult::Continue
    }
}

/// Elements within a line. All other elements end a line.
const INLINE: [&str; 26] = [
    "a", "abbr", "acronym", "b", "bdi", "bdo", "cite", "code", "data", "del", "dfn", "em", "i", "ins", "kbd",
    "mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup", "u", "var",
];

/// Collects the characters of sanitized HTML, which needs no tree.
#[derive(Default)]
struct PlainTextSink {
    text: RefCell<String>,
    /// True within `pre`, which keeps its lines.
    in_pre: Cell<bool>,
}

impl TokenSink for PlainTextSink {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut text = self.text.borrow_mut();
        match token {
            Token::CharacterTokens(characters) if self.in_pre.get() => text.push_str(&characters),
            Token::CharacterTokens(characters) => {
                for character in characters.chars() {
                    if character != '\n' || !text.ends_with('\n') {
                        text.push(character);
                    }
                }
            }
            Token::TagToken(tag) => {
                if &*tag.name == "pre" {
                    self.in_pre.set(tag.kind == TagKind::StartTag);
                }
                if !INLINE.contains(&&*tag.name) && !text.ends_with('\n') {
                    text.push('\n');
                }
            }
            _ => {}
        }
        TokenSinkResult::Continue
    }
}

/// Returns the text of sanitized HTML, with line breaks between paragraphs, items and cells.
pub fn html_to_plain_text(html: &str) -> String {
    tokenize(html, PlainTextSink::default()).text.take().trim().to_owned()
}

fn tokenize<S: TokenSink>(html: &str, sink: S) -> S {
    let input = BufferQueue::default();
    input.push_back(StrTendril::from_slice(html));
    let tokenizer = Tokenizer::new(sink, TokenizerOpts::default());
    // These sinks never pause the tokenizer for a script.
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use html5ever::tokenizer::{Token, TokenSink, TokenSinkResult};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use pulldown_cmark::Parser;

    use super::{
        MAX_REPAIRED_BYTES, SCHEMES, html_to_plain_text, markdown_to_plain_text, sanitize, tokenize,
    };

    /// RULE-NWS-009: the plain text of HTML is its visible text, with a line for each block
    /// element.
    #[test]
    fn plain_text_of_html_has_its_visible_words() {
        for (html, plain) in [
            (
                "<h1>Весна</h1>\n\n<p>Новый <b>дом</b> &amp; сад<script>alert(1)</script></p><ul><li>a<li>b</ul>",
                "Весна\nНовый дом & сад\na\nb",
            ),
            ("a<br>b", "a\nb"),
            ("a<br>\nb", "a\nb"),
            ("<pre>a\n\nb</pre>c", "a\n\nb\nc"),
        ] {
            assert_eq!(html_to_plain_text(&sanitize(html).unwrap()), plain, "{html}");
        }
    }

    /// RULE-NWS-009: the plain text of Markdown is the visible text of its rendering.
    #[test]
    fn plain_text_of_markdown_has_its_visible_words() {
        for (markdown, plain) in [
            (
                "# Весна\n\nНовый **дом** и [сад](https://example.com)\n\n- a\n- `b`",
                "Весна\nНовый дом и сад\na\nb",
            ),
            ("a<br>b", "a\nb"),
            ("a  \nb\nc", "a\nb\nc"),
            ("```\na\n\nb < c\n```\nd", "a\n\nb < c\nd"),
            ("![sea](https://example.com/x.png) and <img src=x alt=y>", "sea and"),
            ("a <b>b *c* <script>d</script>", "a b c"),
        ] {
            assert_eq!(markdown_to_plain_text(markdown).unwrap(), plain, "{markdown}");
        }
    }

    /// RULE-NWS-009: links keep only known schemes, and images and citations are removed.
    #[test]
    fn sanitized_html_has_allowed_links_and_no_images() {
        let kept =
            ["https://example.com/", "http://example.com/", "mailto:a@example.com", "tel:+7495", "/post"];
        for to in kept {
            assert!(sanitize(&format!("<a href=\"{to}\">x</a>")).unwrap().contains(to), "{to}");
        }
        for to in
            ["javascript:alert(1)", "data:text/html,x", "ftp://example.com/", "sms:1", "magnet:?x", "x-app:y"]
        {
            assert!(!sanitize(&format!("<a href=\"{to}\">x</a>")).unwrap().contains("href"), "{to}");
        }
        assert_eq!(sanitize("<q cite=\"javascript:alert(1)\">x</q>").unwrap(), "<q>x</q>");
        assert_eq!(sanitize("a<img src=\"https://example.com/x.png\" alt=\"x\">b").unwrap(), "ab");
        assert_eq!(sanitize("<c onaaa=>\u{feff}\u{feff}a\u{feff}").unwrap(), "a\u{feff}");
    }

    /// Elements that load, run or submit something.
    const ACTIVE: [&str; 22] = [
        "applet", "audio", "base", "button", "embed", "form", "frame", "iframe", "img", "input", "link",
        "math", "meta", "noscript", "object", "script", "source", "style", "svg", "template", "textarea",
        "video",
    ];

    /// Attributes that hold a style or a document.
    const ACTIVE_ATTRIBUTES: [&str; 3] = ["style", "srcdoc", "srcset"];

    /// Attributes that hold an address.
    const ADDRESSES: [&str; 8] =
        ["action", "cite", "data", "formaction", "href", "poster", "src", "xlink:href"];

    /// Collects elements and attributes that safe HTML must not have.
    #[derive(Default)]
    struct Dangers(RefCell<Vec<String>>);

    impl TokenSink for Dangers {
        type Handle = ();

        fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
            let Token::TagToken(tag) = token else { return TokenSinkResult::Continue };
            let mut found = self.0.borrow_mut();
            if ACTIVE.contains(&&*tag.name) {
                found.push(tag.name.to_string());
            }
            for attribute in &tag.attrs {
                let name = &*attribute.name.local;
                let is_foreign =
                    scheme(&attribute.value).is_some_and(|scheme| !SCHEMES.contains(&scheme.as_str()));
                let is_active = name.starts_with("on") || ACTIVE_ATTRIBUTES.contains(&name);
                if is_active || ADDRESSES.contains(&name) && is_foreign {
                    found.push(format!("{name}={}", attribute.value));
                }
            }
            TokenSinkResult::Continue
        }
    }

    /// Returns the scheme of an address. Like a browser, it first drops control characters.
    fn scheme(address: &str) -> Option<String> {
        let address = address.replace(['\t', '\n', '\r'], "");
        let (scheme, _) = address.trim_start_matches(|c: char| c <= ' ').split_once(':')?;
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        is_scheme.then(|| scheme.to_ascii_lowercase())
    }

    fn dangers(html: &str) -> Vec<String> {
        tokenize(html, Dangers::default()).0.take()
    }

    /// RULE-NWS-009: the checker of the next test finds dangerous markup and accepts harmless text.
    #[test]
    fn dangers_in_html_are_recognized() {
        for dangerous in [
            "<script>",
            "<IMG src=x>",
            "<p onabc=x>",
            "<p title='>' ONCLICK='x'>",
            "<p style=x>",
            "<a href='JavaScript:x'>",
            "<a href=' java\tscript:x'>",
            "<a href='data:text/html,x'>",
            "<blockquote cite='vbscript:x'>",
        ] {
            assert!(!dangers(dangerous).is_empty(), "{dangerous}");
        }
        for harmless in [
            "a onclick=x",
            "<p title='<img onerror=x>'>",
            "<a href='/x:y'>",
            "<a href='?a:b'>",
            "<a href='https://x'>",
            "&lt;script>",
        ] {
            assert_eq!(dangers(harmless), Vec::<String>::new(), "{harmless}");
        }
    }

    const VALUE: &str = "(javascript:|JaVa\tScRiPt:|vbscript:|data:text/html,|https://)?[a-z(]{0,4}";

    /// Generates an attribute, allowed or not, quoted or not.
    fn attribute() -> impl Strategy<Value = String> {
        let name =
            "onclick|onerror|onload|on[a-z]{3,8}|style|srcdoc|title|href|src|cite|xlink:href|formaction";
        (name, VALUE, "[\"']?").prop_map(|(name, value, quote)| format!(" {name}={quote}{value}{quote}"))
    }

    /// Generates a tag, allowed or not.
    fn tag() -> impl Strategy<Value = String> {
        let name =
            "p|a|b|q|div|td|table|blockquote|img|svg|math|mtext|script|style|iframe|form|noscript|[a-z]{1,6}";
        (name, vec(attribute(), 0..3))
            .prop_map(|(name, attributes)| format!("<{name}{}>", attributes.concat()))
    }

    /// Generates tags in any order, closed or not, with text and fragments of markup between them.
    fn html() -> impl Strategy<Value = String> {
        let link = VALUE.prop_map(|value| format!("<a href=\"{value}\">"));
        let end = "</(p|a|q|table|svg|math|style|script|title|noscript)>";
        let rest = "<!--|-->|javascript:|[&<\"']|\\PC{1,3}";
        vec(prop_oneof![4 => tag(), 1 => link, 1 => end, 1 => rest], 0..12).prop_map(|parts| parts.concat())
    }

    proptest! {
        /// RULE-NWS-009: sanitized HTML runs and loads nothing and links to known schemes, also
        /// after a second pass.
        #[test]
        fn sanitized_html_has_nothing_dangerous(text in html()) {
            let Ok(safe) = sanitize(&text) else { return Ok(()) };
            prop_assert_eq!(dangers(&safe), Vec::<String>::new(), "{}", safe);
            let again = sanitize(&safe).unwrap();
            prop_assert_eq!(dangers(&again), Vec::<String>::new(), "{}", again);
            html_to_plain_text(&safe);
        }

        /// RULE-NWS-009: sanitized HTML without links and nested tables does not change when it is
        /// sent again.
        #[test]
        fn sanitizing_is_idempotent(
            text in "(<[b-z][a-z]{0,5} on[a-z]{3,5}=.{0,5}>|<script>|javascript:|&|\\PC){0,40}",
        ) {
            let Ok(safe) = sanitize(&text) else { return Ok(()) };
            prop_assert_eq!(sanitize(&safe), Ok(safe));
        }

        /// RULE-NWS-009: a Markdown text is refused, or its plain text is within the limit.
        #[test]
        fn plain_text_of_markdown_is_bounded(
            piece in "([\\[\\]()*_`#>+\"'\n&<-]|<b>|</b>|<p>|<!--|\\[a\\]: b\n|\\[a\\]|https?://|🏠|[a-z ]){1,20}",
            times in 1_usize..400,
        ) {
            let text = piece.repeat(times);
            if let Ok(plain) = markdown_to_plain_text(&text) {
                prop_assert!(plain.len() <= MAX_REPAIRED_BYTES);
            }
        }

        /// RULE-NWS-009: Markdown without HTML has the same plain text with and without sanitizing.
        #[test]
        fn markdown_without_html_needs_no_sanitizing(text in "([\\[\\]()*_`#>!+\"'\n&-]|&lt;b>|https?://|🏠|[a-z ]){1,200}") {
            let mut html = String::new();
            pulldown_cmark::html::push_html(&mut html, Parser::new(&text.replace("![", "[")));
            let sanitized = sanitize(&html).map(|safe| html_to_plain_text(&safe));
            prop_assert_eq!(Ok(markdown_to_plain_text(&text.replace("![", "[")).unwrap()), sanitized);
        }
    }

    /// RULE-NWS-009: closed elements do not count for later paragraphs.
    #[test]
    fn closed_formatting_adds_no_repair() {
        let link = format!("<a href=\"https://example.org/{}\">x</a>", "y".repeat(1_000));
        assert!(sanitize(&format!("{link}{}", "<p>x".repeat(900))).is_ok());
    }

    /// RULE-NWS-009: unclosed formatting that many paragraphs would repeat is refused.
    #[test]
    fn unclosed_formatting_is_too_complex() {
        let open = (0..400).map(|n| format!("<b id={n}>")).collect::<Vec<_>>().concat();
        let bomb = format!("<p>{open}{}", "<p>x".repeat(2_000));
        assert_eq!(sanitize(&bomb).unwrap_err().code, "too_complex");
        assert_eq!(
            markdown_to_plain_text(&format!("{open}\n\n{}", "x\n\n".repeat(2_000))).unwrap_err().code,
            "too_complex"
        );
        let closed = "<p><b><i>x</i></b></p>".repeat(900);
        assert!(sanitize(&closed).is_ok());
    }

    /// RULE-NWS-009: 256 nested elements are accepted, and 257 are refused.
    #[test]
    fn more_than_256_nested_elements_are_too_complex() {
        let nested = |depth: usize| sanitize(&"<div>".repeat(depth));
        assert!(nested(256).is_ok());
        assert_eq!(nested(257).unwrap_err().code, "too_complex");
        assert_eq!(
            markdown_to_plain_text(&format!("{}<b>", ">".repeat(257))).unwrap_err().code,
            "too_complex"
        );
        assert_eq!(markdown_to_plain_text(&format!("{}x", ">".repeat(19_999))).unwrap(), "x");
        let items = format!("<ul>{}</ul>{}", "<li>x".repeat(900), "<p>x<br>".repeat(900));
        assert!(sanitize(&items).is_ok());
    }

    /// RULE-NWS-009: the longest legal texts are accepted, also with four-byte characters and
    /// characters that HTML escapes.
    #[test]
    fn longest_texts_are_accepted() {
        for (markdown, plain) in [("🏠", "🏠"), ("\"", "\""), ("&", "&"), ("**a** ", "a "), ("- x\n", "x\n")]
        {
            let times = 20_000 / markdown.chars().count();
            let text = markdown_to_plain_text(&markdown.repeat(times)).unwrap();
            assert_eq!(text, plain.repeat(times).trim(), "{markdown}");
        }
    }
}
