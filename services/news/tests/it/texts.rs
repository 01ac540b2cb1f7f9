//! Rules 5 and 8 of the blocks edit: `PlainText`, `SearchText` and sanitizing.

use serde_json::{Value, json};

use crate::{author, author_at, each, embed, formatted, gallery, list, service, text, text_block, with};

/// Writes a block and returns it as it is read.
async fn write_and_read(block: Value) -> Value {
    let author = author();
    let post = author.create_post_of([block]).await;
    author.read(&post).await["Blocks"][0].take()
}

/// RULE-NWS-009: a text with format `Plain` is its own plain text.
#[tokio::test]
async fn plain_text_is_stored_as_sent() {
    for words in ["Весна", " two\n\nlines ", "<b>not bold</b> &amp; **so**", "👨\u{200d}👩\u{200d}👧"]
    {
        let block = write_and_read(text_block(words)).await;
        assert_eq!((text(&block["Text"]), text(&block["PlainText"])), (words, words));
    }
}

/// RULE-NWS-009, INV-NWS-008: `PlainText` has no invisible characters in any format, so the word is
/// found.
#[tokio::test]
async fn invisible_characters_are_not_in_plain_text() {
    let (author, sql) = (author(), service().sql().await);
    for format in ["Plain", "Markdown", "Html"] {
        for invisible in ["\u{200b}", "\u{ad}", "\u{2060}", "\u{feff}", "\u{200d}", "\u{202a}"] {
            let post = author.create_post_of([formatted(format, &format!("Ново{invisible}стройка"))]).await;
            let block = author.read(&post).await["Blocks"][0].take();
            assert_eq!(block["PlainText"], "Новостройка", "{format} {invisible:?}");
            let stored = "select search_text from post where id = $1::text::uuid";
            let stored: String = sql.query_one(stored, &[&post]).await.unwrap().get(0);
            assert_eq!(stored, "Новостройка");
        }
    }
}

/// RULE-NWS-009: `PlainText` of Html is the text that a browser shows.
#[tokio::test]
async fn plain_text_of_html_is_what_a_browser_shows() {
    for (html, plain) in [
        ("<noscript><img src=\"https://mc.example.org/watch/1\"></noscript><p>Текст</p>", "Текст"),
        ("<iframe src=\"https://example.org\"><b>Код</b></iframe><p>Текст</p>", "Текст"),
        ("<textarea><b>Код</b></textarea><p>Текст</p>", "Текст"),
        ("<title>Документ 1</title>Текст", "Текст"),
        ("<noembed>Код</noembed><video>Код</video><template>Код</template>Текст", "Текст"),
        ("<section>Паркинг</section><section>Кладовые</section>", "Паркинг\nКладовые"),
        ("<address>Паркинг</address><address>Кладовые</address>", "Паркинг\nКладовые"),
        ("<option>Паркинг</option><option>Кладовые</option>", "Паркинг\nКладовые"),
        ("<label>Паркинг</label><label>Кладовые</label>", "Паркинг Кладовые"),
        ("<x-card>Паркинг</x-card><x-card>Кладовые</x-card>", "Паркинг Кладовые"),
        ("Ново<wbr>стройка", "Новостройка"),
        ("сло<strike>во</strike>", "слово"),
        ("Ново&shy;стройка", "Новостройка"),
        ("<ul>\n  <li>а</li>\n  <li>б</li>\n</ul>", "а\nб"),
        ("<p>\n  одна\n  строка\n</p>", "одна строка"),
        ("<table><tr><td>а</td><td>б</td></tr><tr><td>в</td></tr></table>", "а\tб\nв"),
        ("<pre>а\n  б</pre>", "а\n  б"),
    ] {
        let block = write_and_read(formatted("Html", html)).await;
        assert_eq!(block["PlainText"], plain, "{html}");
        let again = write_and_read(formatted("Html", text(&block["Text"]))).await;
        for member in ["Text", "PlainText", "Html"] {
            assert_eq!(again[member], block[member], "{html}: a block that was read can be sent again");
        }
    }
}

/// RULE-NWS-009: every text is also served as sanitized HTML.
#[tokio::test]
async fn every_text_is_served_as_safe_html() {
    for (format, words, html) in [
        ("Plain", "<b>a</b> & \"b\"\nc", "&lt;b&gt;a&lt;/b&gt; &amp; &quot;b&quot;<br>c"),
        ("Plain", "[x](javascript:alert(1))", "[x](javascript:alert(1))"),
        ("Markdown", "[x](javascript:alert(1))", "<p><a rel=\"noopener noreferrer\">x</a></p>\n"),
        ("Markdown", "a <img src=x onerror=alert(1)>", "<p>a </p>\n"),
        ("Markdown", "a\n\n<script>alert(1)</script>", "<p>a</p>\n\n"),
        ("Markdown", "**a** `<b>`", "<p><strong>a</strong> <code>&lt;b&gt;</code></p>\n"),
        ("Html", "<p onclick=x>a</p><script>alert(1)</script>", "<p>a</p>"),
    ] {
        let block = write_and_read(formatted(format, words)).await;
        assert_eq!(text(&block["Html"]).trim(), html.trim(), "{format} {words}");
        if format != "Html" {
            assert_eq!(block["Text"], words);
        }
    }
}

/// RULE-NWS-009: the check of a scheme skips white space, control characters and invisible
/// characters at the start of an address. This holds for links and citations.
#[tokio::test]
async fn address_with_another_scheme_is_removed() {
    for before in ["", " ", "\t", "\u{2028}", "\u{a0}", "\u{3000}", "\u{1}", "\u{85}", "\u{200b}", "\u{feff}"]
    {
        let address = format!("{before}javascript:alert(1)");
        let link = write_and_read(formatted("Html", &format!("<a href='{address}'>x</a>"))).await;
        assert_eq!(link["Text"], "<a rel=\"noopener noreferrer\">x</a>", "{before:?}");
        let quote = format!("<blockquote cite='{address}'>x</blockquote>");
        let quote = write_and_read(formatted("Html", &quote)).await;
        assert_eq!(quote["Text"], "<blockquote>x</blockquote>", "{before:?}");
    }
    let kept = "<q cite=\"https://example.org/\">x</q>";
    assert_eq!(write_and_read(formatted("Html", kept)).await["Text"], kept);
}

/// RULE-NWS-009: Markdown is stored as sent, and `PlainText` is its visible text.
#[tokio::test]
async fn markdown_is_stored_as_sent_and_read_without_markup() {
    for (markdown, plain) in [
        ("# Весна\n\nНовый **дом** и [сад](https://example.com)", "Весна\nНовый дом и сад"),
        ("- a\n- `b`", "a\nb"),
        ("![sea](https://example.com/x.png)", "sea"),
        ("a &amp; b", "a & b"),
        ("`<b>`", "<b>"),
        ("one <b>two</b> three", "one two three"),
        ("before\n\n<script>\nalert(1)\n</script>\n\nafter", "before\nafter"),
        ("before\n\n<!-- to\nourselves -->\n\nafter", "before\nafter"),
        ("<div>\n<p>inside</p>\n</div>", "inside"),
    ] {
        let block = write_and_read(formatted("Markdown", markdown)).await;
        assert_eq!(block["Text"], markdown);
        let lines: Vec<_> =
            text(&block["PlainText"]).lines().filter(|line| !line.trim().is_empty()).collect();
        assert_eq!(lines.join("\n"), plain, "{markdown}");
    }
}

/// RULE-NWS-009: scripts, handlers, styles, frames, forms, images and links with other schemes are
/// removed.
#[tokio::test]
async fn html_is_sanitized_before_it_is_stored() {
    let link = "<a rel=\"noopener noreferrer\">x</a>";
    for (html, safe) in [
        ("<script>alert(1)</script>", ""),
        ("<img src=x onerror=alert(1)>", ""),
        ("<a href=\"javascript:alert(1)\">x</a>", link),
        ("<svg onload=alert(1)>", ""),
        ("<iframe src=\"https://example.com\"></iframe>", ""),
        ("<style>*{}</style>", ""),
        ("<p style=\"position:fixed\" onclick=\"alert(1)\">x</p>", "<p>x</p>"),
        ("<form action=\"/x\"><input name=x></form>", ""),
        (
            "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=alert(1)&gt;\">",
            "<table></table>",
        ),
        ("<a href=\"data:text/html,<script>alert(1)</script>\">x</a>", link),
        ("<q cite=\"javascript:alert(1)\">x</q>", "<q>x</q>"),
        ("<base href=\"https://example.com\">", ""),
        ("<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">", "\"&gt;"),
        ("<meta http-equiv=refresh content=0>", ""),
    ] {
        let block = write_and_read(formatted("Html", &format!("ok {html}"))).await;
        assert_eq!(block["Text"], format!("ok {safe}"), "{html}");
    }
}

/// RULE-NWS-009: harmless HTML is kept, and `PlainText` is its visible text.
#[tokio::test]
async fn harmless_html_is_kept() {
    let html = "<h1>Весна</h1><p>Новый <b>дом</b> &amp; <a href=\"https://example.com/\">сад</a></p><ul><li>a</li><li>b</li></ul>";
    let block = write_and_read(formatted("Html", html)).await;
    for kept in ["<h1>Весна</h1>", "<b>дом</b>", "href=\"https://example.com/\"", "<li>a</li>"] {
        assert!(text(&block["Text"]).contains(kept), "{}", block["Text"]);
    }
    assert_eq!(block["PlainText"], "Весна\nНовый дом & сад\na\nb");
    assert_eq!(block["Format"], "Html");
}

/// RULE-NWS-009, RULE-NWS-059: blocks can be sent back as they were read, with and without the
/// sources of embeds.
#[tokio::test]
async fn blocks_can_be_sent_back_as_they_were_read() {
    let author = author();
    let (post, selection) = (author.create_post().await, author.create_selection().await);
    let blocks = [
        embed(&selection),
        text_block("x"),
        formatted("Html", "<p>a < b</p>"),
        formatted("Markdown", "*x*"),
        gallery(2),
    ];
    author.set_blocks(&post, blocks).await.expect(200);
    let first = author.read(&post).await["Blocks"].take();
    let mut again = first.as_array().unwrap().clone();
    again[1]["Text"] = json!("y");
    let saved = author.set_blocks(&post, again.clone()).await.expect(200);
    assert_eq!(saved["Version"], 3);
    assert_eq!(author.read(&post).await["Blocks"][0], first[0]);

    again[0].as_object_mut().unwrap().remove("SourceSelectionId");
    again[1]["Text"] = json!("x");
    author.set_blocks(&post, again).await.expect(200);

    assert_eq!(author.read(&post).await["Blocks"], first);
}

/// INV-NWS-008: `SearchText` is the plain text of the text blocks in block order.
#[tokio::test]
async fn search_text_follows_the_text_blocks() {
    let author = author_at(service());
    let post = author.create_post().await;
    let sql = service().sql().await;
    let search_text = async || {
        let row =
            sql.query_one("select search_text from post where id = $1::text::uuid", &[&post]).await.unwrap();
        row.get::<_, String>(0)
    };
    let captioned = json!({"Kind": "ImageGallery", "Layout": "Grid", "Images": [{"FileId": crate::guid(), "Caption": "sea"}]});
    let blocks = [
        with(formatted("Html", "<p>второй</p>"), "SortOrder", 2),
        with(captioned, "SortOrder", 1),
        with(formatted("Markdown", "**первый**"), "SortOrder", 0),
    ];
    author.set_blocks(&post, blocks).await.expect(200);
    assert_eq!(search_text().await, "первый\nвторой");
    author.set_blocks(&post, [gallery(1)]).await.expect(200);
    assert_eq!(search_text().await, "");
    assert_eq!(each(&author.read(&post).await["Blocks"], "Kind"), ["ImageGallery"]);
}

/// RULE-NWS-003: Html is counted as it was sent. It is refused if nothing of it remains, or if
/// sanitizing would repeat too many elements.
#[tokio::test]
async fn html_is_counted_as_it_was_sent() {
    let author = author();
    let post = author.create_post().await;
    let open = (0..400).map(|n| format!("<b id={n}>")).collect::<Vec<_>>().concat();
    for (html, reason) in [
        ("<script>alert(1)</script>".to_owned(), "too_short"),
        ("<p hidden>".repeat(2_001), "too_long"),
        ("<a>".repeat(6_666), "too_complex"),
        (format!("<p>{open}{}", "<p>x".repeat(2_000)), "too_complex"),
    ] {
        let refused = author.set_blocks(&post, vec![formatted("Html", &html)]).await;
        refused.expect_refusal("VALIDATION_FAILED", "/Blocks/0/Text", reason);
    }
    let link = format!("<a href=\"/x\">y</a>{}", "x".repeat(19_980));
    for html in [link, "&".repeat(20_000), "\u{a0}x".repeat(10_000), "<b>x</b>".repeat(2_500)] {
        author.set_blocks(&post, [formatted("Html", &html)]).await.expect(200);
    }
    let words = "слово\u{a0}".repeat(3_333);
    author.set_blocks(&post, [formatted("Html", &words)]).await.expect(200);
    let stored = author.read(&post).await["Blocks"].take();
    assert_eq!(stored[0]["Text"], words, "a no-break space stays one character");
    author.set_blocks(&post, list(&stored).to_vec()).await.expect(200);
}
