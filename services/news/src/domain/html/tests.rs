//! Tests of the sanitizer and of the text of HTML and Markdown.

use std::cell::RefCell;

use html5ever::tokenizer::{Token, TokenSink, TokenSinkResult};
use proptest::collection::vec;
use proptest::prelude::*;

use super::elements::DROPPED;
use super::{MAX_SANITIZED_BYTES, SCHEMES, escape_lines, inner_text, render_markdown, sanitize, tokenize};

/// Returns the text of HTML that is not sanitized yet.
fn text_of(html: &str) -> String {
    inner_text(&sanitize(html).unwrap())
}

fn text_of_markdown(markdown: &str) -> String {
    render_markdown(markdown).unwrap().plain_text
}

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
        ("<ul>\n  <li>а</li>\n  <li>б</li>\n</ul>", "а\nб"),
        ("<p>\n  одна\n  строка\n</p>", "одна строка"),
        ("один <b> два</b> <i> три </i>", "один два три"),
        ("<section>Паркинг</section><section>Кладовые</section>", "Паркинг\nКладовые"),
        ("<address>a</address><main>b</main><form>c</form><dialog>d</dialog>e", "a\nb\nc\nd\ne"),
        ("<select><option>a<option>b</option></select>c", "a\nb\nc"),
        ("<table><tr><td>a<td>b<tr><td>c</table>d", "a\tb\nc\nd"),
        ("<td>а</td><td>б</td><table><tfoot><tr><th>в<th>г</table>", "а\nб\nв\tг"),
        ("<body><p>а</p></body><section>б</section> <section>в</section>", "а\nб\nв"),
        ("сло<!-- x -->во", "слово"),
        ("<label>Паркинг</label><label>Кладовые</label>", "Паркинг Кладовые"),
        ("<x-a>Паркинг</x-a><x-b>Кладовые</x-b>, <y>да</y>!", "Паркинг Кладовые, да!"),
        ("Ново<wbr>стройка", "Новостройка"),
        ("Ново&shy;стройка и Ново&#8203;стройка", "Новостройка и Новостройка"),
        (
            "сло<strike>во</strike>, сло<font>во</font>, сло<nobr>во</nobr>, сло<big>во</big>",
            "слово, слово, слово, слово",
        ),
        ("<ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp></ruby>", "漢kan"),
        ("<p hidden>x<b>y</b></p><p>z</p>", "z"),
        ("<p hidden>x<b>y</b>w</p><p>z</p>", "z"),
        ("a&nbsp;b", "a\u{a0}b"),
        ("a&nbsp; b", "a\u{a0} b"),
    ] {
        assert_eq!(text_of(html), plain, "{html}");
        let safe = sanitize(html).unwrap();
        assert_eq!(sanitize(&safe).as_ref(), Ok(&safe), "{html}");
    }
}

/// RULE-NWS-009: elements with raw text, code or fallback content are dropped with their content.
#[test]
fn elements_with_raw_text_are_dropped() {
    for name in DROPPED {
        let html = format!("<{name}><img src=x><b>Код</b> a &lt; b</{name}><p>Текст</p>");
        let rest = if *name == "plaintext" { "" } else { "Текст" };
        assert_eq!(text_of(&html), rest, "{name}");
        assert!(!sanitize(&html).unwrap().contains("Код"), "{name}");
    }
    for (html, safe) in [
        ("a<title>Документ 1</title>b", "ab"),
        ("<style><!--</style>a<p>b</p>-->", "a<p>b</p>--&gt;"),
        ("<svg><title/><text>a</text></svg>b", "a b"),
        ("</noscript>a", "a"),
        ("a<script>alert(1)", "a"),
        ("a<script><!--<script></script>x</script>b", "ab"),
        ("a<title/>b</title>c", "ac"),
    ] {
        assert_eq!(sanitize(html).unwrap(), safe, "{html}");
    }
}

/// A block that is not allowed separates texts by a line break, and begins no text with one.
#[test]
fn block_that_is_not_allowed_is_a_line_break_between_texts() {
    assert_eq!(sanitize("<main>a</main><form>b</form>").unwrap(), "a<br>b");
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
        ("a  \nb\nc", "a\nb c"),
        ("```\na\n\nb < c\n```\nd", "a\n\nb < c\nd"),
        ("![sea](https://example.com/x.png) and <img src=x alt=y>", "sea and"),
        ("a <b>b *c* <script>d</script>", "a b c"),
    ] {
        assert_eq!(text_of_markdown(markdown), plain, "{markdown}");
    }
}

/// RULE-NWS-009: Markdown is rendered to sanitized HTML.
#[test]
fn html_of_markdown_is_safe() {
    for (markdown, html) in [
        ("[x](javascript:alert(1))", "<p><a rel=\"noopener noreferrer\">x</a></p>\n"),
        ("<img src=x onerror=alert(1)>a", "<p>a</p>\n"),
        ("a\n\n<script>alert(1)</script>", "<p>a</p>\n"),
        ("**a** `<b>`", "<p><strong>a</strong> <code>&lt;b&gt;</code></p>\n"),
        ("![sea](https://example.com/x.png)", "<p>sea</p>\n"),
    ] {
        assert_eq!(render_markdown(markdown).unwrap().html, html, "{markdown}");
    }
}

/// RULE-NWS-009: the HTML of a plain text shows its characters and lines.
#[test]
fn html_of_a_plain_text_is_escaped() {
    assert_eq!(
        escape_lines("<b>a</b> & \"b\"\r\n\nc\u{1}"),
        "&lt;b&gt;a&lt;/b&gt; &amp; &quot;b&quot;<br><br>c"
    );
}

/// RULE-NWS-009: links and citations keep only known schemes, and images are removed.
#[test]
fn sanitized_html_has_allowed_links_and_no_images() {
    let kept = ["https://example.com/", "http://example.com/", "mailto:a@example.com", "tel:+7495", "/post"];
    for to in kept {
        assert!(sanitize(&format!("<a href=\"{to}\">x</a>")).unwrap().contains(to), "{to}");
    }
    for to in
        ["javascript:alert(1)", "data:text/html,x", "ftp://example.com/", "sms:1", "magnet:?x", "x-app:y"]
    {
        assert!(!sanitize(&format!("<a href=\"{to}\">x</a>")).unwrap().contains("href"), "{to}");
    }
    for before in ["", " ", "\u{2028}", "\u{a0}", "\u{1}", "\u{200b}", "\u{feff}\u{85}\t"] {
        for to in [
            "javascript:alert(1)",
            "JAVA\tSCRIPT:alert(1)",
            "java&#10;script:alert(1)",
            "vbscript:x",
            "data:x",
        ] {
            let link = sanitize(&format!("<a href='{before}{to}'>x</a>")).unwrap();
            assert_eq!(link, "<a rel=\"noopener noreferrer\">x</a>", "{before:?} {to}");
            for element in ["blockquote", "q", "del", "ins"] {
                let safe = sanitize(&format!("<{element} cite='{before}{to}'>x</{element}>")).unwrap();
                assert_eq!(safe, format!("<{element}>x</{element}>"), "{before:?} {to}");
            }
        }
        let kept = sanitize(&format!("<q cite='{before}https://example.org/a:b'>x</q>")).unwrap();
        assert_eq!(kept, "<q cite=\"https://example.org/a:b\">x</q>", "{before:?}");
    }
    assert!(sanitize("<a href=\"/a:b?c:d#e\">x</a>").unwrap().contains("/a:b?c:d#e"));
    assert_eq!(sanitize("a<img src=\"https://example.com/x.png\" alt=\"x\">b").unwrap(), "ab");
    // A byte order mark that a second pass would remove from the start is removed at once.
    assert_eq!(sanitize("<c onaaa=>\u{feff}\u{feff}a\u{feff}").unwrap(), "a\u{feff}");
}

/// Elements that load, run or submit something.
const ACTIVE: [&str; 22] = [
    "applet", "audio", "base", "button", "embed", "form", "frame", "iframe", "img", "input", "link", "math",
    "meta", "noscript", "object", "script", "source", "style", "svg", "template", "textarea", "video",
];

/// Attributes that hold a style or a document.
const ACTIVE_ATTRIBUTES: [&str; 3] = ["style", "srcdoc", "srcset"];

/// Attributes that hold an address.
const ADDRESSES: [&str; 8] = ["action", "cite", "data", "formaction", "href", "poster", "src", "xlink:href"];

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

/// RULE-NWS-009: [`dangers`], which checks sanitized HTML, finds dangerous markup and accepts
/// harmless text.
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
    let name = "onclick|onerror|onload|on[a-z]{3,8}|style|srcdoc|title|href|src|cite|xlink:href|formaction";
    (name, VALUE, "[\"']?").prop_map(|(name, value, quote)| format!(" {name}={quote}{value}{quote}"))
}

/// Generates a tag, allowed or not.
fn tag() -> impl Strategy<Value = String> {
    let name =
        "p|a|b|q|div|td|table|blockquote|img|svg|math|mtext|script|style|iframe|form|noscript|[a-z]{1,6}";
    (name, vec(attribute(), 0..3)).prop_map(|(name, attributes)| format!("<{name}{}>", attributes.concat()))
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
        inner_text(&safe);
    }

    /// RULE-NWS-009: nothing of a dropped element is in the text, and words outside of it are. The
    /// text of any HTML has no invisible characters and no white space at its ends.
    #[test]
    fn text_has_nothing_of_dropped_elements(
        other in html(),
        name in proptest::sample::select(DROPPED),
        inside in "(<[a-z]{1,6}>|</[a-z]{1,6}>|secret|[ a-z&;<>'\"=!-]){0,12}",
    ) {
        prop_assume!(!inside.contains(&format!("</{name}")) && !inside.contains("<!--"));
        let Ok(safe) = sanitize(&format!("<div>видно</div><{name}>secret{inside}</{name}>")) else { return Ok(()) };
        prop_assert_eq!(inner_text(&safe), "видно");
        let Ok(safe) = sanitize(&other) else { return Ok(()) };
        let text = inner_text(&safe);
        let has_invisible = text.contains(['\u{ad}', '\u{200b}']);
        prop_assert!(!has_invisible && text.trim() == text);
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

    /// RULE-NWS-009: a Markdown text is refused, or its HTML is within the limit.
    #[test]
    fn html_of_markdown_is_bounded(
        piece in "([\\[\\]()*_`#>+\"'\n&<-]|<b>|</b>|<p>|<!--|\\[a\\]: b\n|\\[a\\]|https?://|🏠|[a-z ]){1,20}",
        times in 1_usize..400,
    ) {
        let text = piece.repeat(times);
        if let Ok(rendered) = render_markdown(&text) {
            prop_assert!(rendered.html.len() <= MAX_SANITIZED_BYTES);
        }
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
    let markdown = render_markdown(&format!("{open}\n\n{}", "x\n\n".repeat(2_000)));
    assert_eq!(markdown.err().unwrap().code, "too_complex");
    let closed = "<p><b><i>x</i></b></p>".repeat(900);
    assert!(sanitize(&closed).is_ok());
}

/// RULE-NWS-009: 256 nested elements are accepted, and 257 are refused. Markdown without HTML may
/// have any depth.
#[test]
fn more_than_256_nested_elements_are_too_complex() {
    let nested = |depth: usize| sanitize(&"<div>".repeat(depth));
    assert!(nested(256).is_ok());
    assert_eq!(nested(257).unwrap_err().code, "too_complex");
    assert_eq!(render_markdown(&format!("{}<b>", ">".repeat(257))).err().unwrap().code, "too_complex");
    let quotes = render_markdown(&format!("{}x", ">".repeat(19_999))).unwrap();
    assert_eq!((quotes.plain_text.as_str(), quotes.html.len()), ("x", 4 * 19_999 + 1));
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
        let text = text_of_markdown(&markdown.repeat(times));
        assert_eq!(text, plain.repeat(times).trim(), "{markdown}");
    }
    for character in ["🏠", "&", "<", "\u{a0}", "\""] {
        assert!(sanitize(&character.repeat(20_000)).is_ok(), "{character}");
    }
    assert_eq!(sanitize(&"<a>".repeat(6_666)).unwrap_err().code, "too_complex");
}
