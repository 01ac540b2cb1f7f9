//! What a reader would read of a text, and HTML that is safe to show.

use std::cell::{Cell, RefCell};
use std::sync::LazyLock;

use ammonia::Builder;
use html5ever::tendril::StrTendril;
use html5ever::tokenizer::{
    BufferQueue, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
};
use pulldown_cmark::{Event, Parser, Tag, TagEnd};
use values::Invalid;

/// What sanitizing a text may come to, in bytes: a parser opens formatting that was left open anew in
/// every paragraph, so that a short text can become megabytes.
const MAX_EFFORT: usize = 256 * 1024;
/// Elements within each other: a parser looks through those that are open at every tag.
const MAX_DEPTH: usize = 256;

/// Where a link may lead.
const SCHEMES: [&str; 4] = ["http", "https", "mailto", "tel"];

/// Without images: a foreign one would tell its owner who reads; those of a post are galleries.
static SAFE: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let mut safe = Builder::default();
    safe.url_schemes(SCHEMES.into()).rm_tags(["img"]);
    // The sanitizer does not check where a citation leads, and no browser shows it.
    for element in ["blockquote", "del", "ins", "q"] {
        safe.rm_tag_attributes(element, ["cite"]);
    }
    safe
});

/// HTML without scripts, styles, event handlers, images, foreign schemes.
///
/// # Errors
/// `too_complex` when so many elements are within each other, or left open, that its repair would not be
/// worth it.
pub fn sanitize(html: &str) -> Result<String, Invalid> {
    let open = tokenize(html, OpenElements::default());
    if html.len() + open.effort.get() > MAX_EFFORT || open.depth.get() > MAX_DEPTH {
        return Err(Invalid::new("too_complex"));
    }
    // A byte order mark that what stood before it leaves at the beginning is no text, and would be dropped next time.
    Ok(SAFE.clean(html).to_string().trim_start_matches('\u{feff}').to_owned())
}

/// What a reader would read of Markdown.
///
/// # Errors
/// As [`sanitize`], of what it is rendered to, where HTML is in it.
pub fn read_markdown(text: &str) -> Result<String, Invalid> {
    // An image is read by what is said of it.
    let events = Parser::new(text)
        .filter(|event| !matches!(event, Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image)));
    let mut html = String::with_capacity(2 * text.len());
    let mut has_html = false;
    let events = events.inspect(|event| has_html |= matches!(event, Event::Html(_) | Event::InlineHtml(_)));
    pulldown_cmark::html::push_html(&mut html, events);
    // What Markdown alone is rendered to is whole, and has nothing that a reader would not see.
    Ok(read_html(&if has_html { sanitize(&html)? } else { html }))
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
    /// An upper bound of what a parser would add, without having it added: at each tag what is open there.
    effort: Cell<usize>,
}

impl TokenSink for OpenElements {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let Token::TagToken(tag) = token else { return TokenSinkResult::Continue };
        let mut open = self.open.borrow_mut();
        if open.len() > MAX_DEPTH {
            // Refused already.
            return TokenSinkResult::Continue;
        }
        self.effort.set(self.effort.get() + open.iter().map(|(_, size)| size).sum::<usize>());
        if tag.kind == TagKind::StartTag {
            if FORMATTING.contains(&&*tag.name) {
                let attributes = tag.attrs.iter().map(|attr| attr.name.local.len() + attr.value.len() + 4);
                open.push((tag.name.to_string(), tag.name.len() + 5 + attributes.sum::<usize>()));
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
struct Reader {
    text: RefCell<String>,
    /// Within `pre`, where lines are as they are written.
    verbatim: Cell<bool>,
}

impl TokenSink for Reader {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        let mut text = self.text.borrow_mut();
        match token {
            Token::CharacterTokens(characters) if self.verbatim.get() => text.push_str(&characters),
            Token::CharacterTokens(characters) => {
                for character in characters.chars() {
                    if character != '\n' || !text.ends_with('\n') {
                        text.push(character);
                    }
                }
            }
            Token::TagToken(tag) => {
                if &*tag.name == "pre" {
                    self.verbatim.set(tag.kind == TagKind::StartTag);
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

/// The text of sanitized HTML without its markup; paragraphs, items and cells stay apart.
pub fn read_html(html: &str) -> String {
    tokenize(html, Reader::default()).text.take().trim().to_owned()
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
    use std::cell::RefCell;

    use html5ever::tokenizer::{Token, TokenSink, TokenSinkResult};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use pulldown_cmark::Parser;

    use super::{MAX_EFFORT, SCHEMES, read_html, read_markdown, sanitize, tokenize};

    #[test]
    fn html_reads_as_a_reader_would_read_it() {
        for (html, plain) in [
            (
                "<h1>Весна</h1>\n\n<p>Новый <b>дом</b> &amp; сад<script>alert(1)</script></p><ul><li>a<li>b</ul>",
                "Весна\nНовый дом & сад\na\nb",
            ),
            ("a<br>b", "a\nb"),
            ("a<br>\nb", "a\nb"),
            ("<pre>a\n\nb</pre>c", "a\n\nb\nc"),
        ] {
            assert_eq!(read_html(&sanitize(html).unwrap()), plain, "{html}");
        }
    }

    #[test]
    fn markdown_reads_as_a_reader_would_read_it() {
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
            assert_eq!(read_markdown(markdown).unwrap(), plain, "{markdown}");
        }
    }

    #[test]
    fn links_lead_where_they_may_and_there_are_no_images() {
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

    /// Collects what must not be in safe HTML.
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

    /// The scheme of an address as a browser reads it, which drops some characters before.
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

    /// The property below would hold of anything if these were not recognized.
    #[test]
    fn dangers_are_recognized() {
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

    /// An attribute that is kept or not, quoted or not.
    fn attribute() -> impl Strategy<Value = String> {
        let name =
            "onclick|onerror|onload|on[a-z]{3,8}|style|srcdoc|title|href|src|cite|xlink:href|formaction";
        (name, VALUE, "[\"']?").prop_map(|(name, value, quote)| format!(" {name}={quote}{value}{quote}"))
    }

    /// A tag that is kept or not.
    fn tag() -> impl Strategy<Value = String> {
        let name =
            "p|a|b|q|div|td|table|blockquote|img|svg|math|mtext|script|style|iframe|form|noscript|[a-z]{1,6}";
        (name, vec(attribute(), 0..3))
            .prop_map(|(name, attributes)| format!("<{name}{}>", attributes.concat()))
    }

    /// Tags in any order, closed or not, with text and parts of markup between them.
    fn html() -> impl Strategy<Value = String> {
        let link = VALUE.prop_map(|value| format!("<a href=\"{value}\">"));
        let end = "</(p|a|q|table|svg|math|style|script|title|noscript)>";
        let rest = "<!--|-->|javascript:|[&<\"']|\\PC{1,3}";
        vec(prop_oneof![4 => tag(), 1 => link, 1 => end, 1 => rest], 0..12).prop_map(|parts| parts.concat())
    }

    proptest! {
        /// Whatever is sent, what is stored runs and loads nothing and leads to known schemes. So it does if it is sent again.
        #[test]
        fn sanitized_html_has_nothing_dangerous(text in html()) {
            let Ok(safe) = sanitize(&text) else { return Ok(()) };
            prop_assert_eq!(dangers(&safe), Vec::<String>::new(), "{}", safe);
            let again = sanitize(&safe).unwrap();
            prop_assert_eq!(dangers(&again), Vec::<String>::new(), "{}", again);
            read_html(&safe);
        }

        /// What is stored of elements without links and tables within each other stays as it is when it is sent again.
        #[test]
        fn html_that_was_sanitized_is_sanitized_to_itself(
            text in "(<[b-z][a-z]{0,5} on[a-z]{3,5}=.{0,5}>|<script>|javascript:|&|\\PC){0,40}",
        ) {
            let Ok(safe) = sanitize(&text) else { return Ok(()) };
            prop_assert_eq!(sanitize(&safe), Ok(safe));
        }

        /// However a Markdown text is made, it is read or refused, and what it reads as is in proportion to it.
        #[test]
        fn markdown_is_not_multiplied(
            piece in "([\\[\\]()*_`#>+\"'\n&<-]|<b>|</b>|<p>|<!--|\\[a\\]: b\n|\\[a\\]|https?://|🏠|[a-z ]){1,20}",
            times in 1_usize..400,
        ) {
            let text = piece.repeat(times);
            if let Ok(plain) = read_markdown(&text) {
                prop_assert!(plain.len() <= MAX_EFFORT);
            }
        }

        /// What has no HTML in it reads as it would if it were sanitized.
        #[test]
        fn markdown_alone_needs_no_sanitizing(text in "([\\[\\]()*_`#>!+\"'\n&-]|&lt;b>|https?://|🏠|[a-z ]){1,200}") {
            let mut html = String::new();
            pulldown_cmark::html::push_html(&mut html, Parser::new(&text.replace("![", "[")));
            let sanitized = sanitize(&html).map(|safe| read_html(&safe));
            prop_assert_eq!(Ok(read_markdown(&text.replace("![", "[")).unwrap()), sanitized);
        }
    }

    #[test]
    fn formatting_that_is_closed_may_be_followed_by_as_much_as_fits() {
        let link = format!("<a href=\"https://example.org/{}\">x</a>", "y".repeat(1_000));
        assert!(sanitize(&format!("{link}{}", "<p>x".repeat(900))).is_ok());
    }

    #[test]
    fn formatting_that_is_left_open_is_not_multiplied() {
        let open = (0..400).map(|n| format!("<b id={n}>")).collect::<Vec<_>>().concat();
        let bomb = format!("<p>{open}{}", "<p>x".repeat(2_000));
        assert_eq!(sanitize(&bomb).unwrap_err().code, "too_complex");
        assert_eq!(
            read_markdown(&format!("{open}\n\n{}", "x\n\n".repeat(2_000))).unwrap_err().code,
            "too_complex"
        );
        let closed = "<p><b><i>x</i></b></p>".repeat(900);
        assert!(sanitize(&closed).is_ok());
    }

    #[test]
    fn elements_within_each_other_have_an_end() {
        let nested = |depth: usize| sanitize(&"<div>".repeat(depth));
        assert!(nested(256).is_ok());
        assert_eq!(nested(257).unwrap_err().code, "too_complex");
        assert_eq!(read_markdown(&format!("{}<b>", ">".repeat(257))).unwrap_err().code, "too_complex");
        assert_eq!(read_markdown(&format!("{}x", ">".repeat(19_999))).unwrap(), "x");
        let items = format!("<ul>{}</ul>{}", "<li>x".repeat(900), "<p>x<br>".repeat(900));
        assert!(sanitize(&items).is_ok());
    }

    /// What is legal and as large as can be is read: four-byte characters, and what HTML has longer names for.
    #[test]
    fn the_longest_texts_are_read() {
        for (markdown, plain) in [("🏠", "🏠"), ("\"", "\""), ("&", "&"), ("**a** ", "a "), ("- x\n", "x\n")]
        {
            let times = 20_000 / markdown.chars().count();
            let read = read_markdown(&markdown.repeat(times)).unwrap();
            assert_eq!(read, plain.repeat(times).trim(), "{markdown}");
        }
    }
}
