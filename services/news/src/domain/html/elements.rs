//! The elements of HTML and their roles in a text.

/// Elements with raw text, code or fallback content. The sanitizer removes them with their content.
pub const DROPPED: &[&str] = &[
    "audio",
    "canvas",
    "datalist",
    "iframe",
    "meter",
    "noembed",
    "noframes",
    "noscript",
    "plaintext",
    "progress",
    "script",
    "style",
    "template",
    "textarea",
    "title",
    "video",
    "xmp",
];

/// Elements whose content is text, even if it looks like tags.
pub const RAW: &[&str] = &[
    "iframe",
    "noembed",
    "noframes",
    "noscript",
    "plaintext",
    "script",
    "style",
    "textarea",
    "title",
    "xmp",
];

/// Elements that begin and end a line, and that the sanitizer keeps.
pub const BLOCKS: &[&str] = &[
    "article",
    "aside",
    "blockquote",
    "br",
    "caption",
    "center",
    "col",
    "colgroup",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "figcaption",
    "figure",
    "footer",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hgroup",
    "hr",
    "li",
    "nav",
    "ol",
    "p",
    "pre",
    "summary",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "ul",
];

/// Elements that a parser drops outside of a table.
pub const TABLE_PARTS: &[&str] = &["caption", "col", "colgroup", "tbody", "td", "tfoot", "th", "thead", "tr"];

/// Elements within a line, which can be within a word.
pub const INLINE: &[&str] = &[
    "a", "abbr", "acronym", "area", "b", "bdi", "bdo", "big", "blink", "cite", "code", "data", "del", "dfn",
    "em", "font", "i", "img", "ins", "kbd", "map", "mark", "nobr", "picture", "q", "rb", "rp", "rt", "rtc",
    "ruby", "s", "samp", "small", "source", "span", "strike", "strong", "sub", "sup", "time", "track", "tt",
    "u", "var", "wbr",
];

/// Elements that begin and end a line, and that the sanitizer does not keep.
pub const OTHER_BLOCKS: &[&str] = &[
    "address", "body", "dialog", "dir", "fieldset", "form", "frameset", "head", "html", "legend", "listing",
    "main", "menu", "multicol", "optgroup", "option", "search", "section", "tfoot",
];

/// Elements that a parser reopens where they are unclosed.
pub const FORMATTING: [&str; 14] =
    ["a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"];

/// Elements that do not nest: void elements, and elements that the next sibling closes.
pub const NON_NESTING: &[&str] = &[
    "area", "base", "br", "col", "colgroup", "dd", "dt", "embed", "hr", "img", "input", "li", "link", "meta",
    "optgroup", "option", "p", "param", "source", "tbody", "td", "tfoot", "th", "thead", "tr", "track",
    "wbr",
];
