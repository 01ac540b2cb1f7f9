//! Rules 1, 2, 5 and 10 of the blocks edit: the request and its result.

use reqwest::Method;
use serde_json::{Value, json};
use testkit::client::send;

use crate::{
    Author, MANAGE, author, author_of, blocks_path, content, each, embed, formatted, gallery, guid, list,
    path, service, text, text_block, with,
};

const INVALID: &str = "VALIDATION_FAILED";

/// RULE-NWS-001, RULE-NWS-045: 200 blocks are accepted, and more are refused.
#[tokio::test]
async fn post_has_at_most_200_blocks() {
    let author = author();
    let post = author.create_post().await;
    for count in [0, 1, 200] {
        let saved = author.set_blocks(&post, vec![text_block("x"); count]).await.expect(200);
        assert_eq!(saved["BlocksCount"], count);
        assert_eq!(list(&author.read(&post).await["Blocks"]).len(), count);
    }
    for count in [201, 1000] {
        let refused = author.set_blocks(&post, vec![text_block("x"); count]).await;
        let problem = refused.expect_problem(400, "NEWS_TOO_MANY_BLOCKS");
        assert!(text(&problem["detail"]).contains("200"), "{problem}");
    }
    assert_eq!(list(&author.read(&post).await["Blocks"]).len(), 200, "nothing of a refused edit is stored");
}

/// RULE-NWS-003: a text has 1..20000 characters, regardless of its bytes.
#[tokio::test]
async fn text_has_1_to_20000_characters() {
    let author = author();
    let post = author.create_post().await;
    for character in ["x", "ы", "🏠"] {
        for count in [1, 20_000] {
            let long = character.repeat(count);
            author.set_blocks(&post, [text_block(&long)]).await.expect(200);
            assert_eq!(author.read(&post).await["Blocks"][0]["Text"], long);
        }
        let refused =
            author.set_blocks(&post, [text_block("x"), text_block(&character.repeat(20_001))]).await;
        refused.expect_refusal(INVALID, "/Blocks/1/Text", "too_long");
    }
    author.set_blocks(&post, [text_block("")]).await.expect_refusal(INVALID, "/Blocks/0/Text", "too_short");
    for blank in [" ", "\u{200b}", "\u{feff}\n\u{a0}"] {
        for format in ["Plain", "Markdown", "Html"] {
            let refused = author.set_blocks(&post, [formatted(format, blank)]).await;
            refused.expect_refusal(INVALID, "/Blocks/0/Text", "too_short");
        }
    }
}

/// RULE-NWS-006: PostgreSQL cannot store a NUL, so the caller gets 400 and not 500.
#[tokio::test]
async fn nul_in_any_text_is_refused() {
    let author = author();
    let post = author.create_post().await;
    let refused = author.set_blocks(&post, [text_block("a\0b")]).await;
    refused.expect_refusal(INVALID, "/Blocks/0/Text", "forbidden_character");
    for member in ["Caption", "Alt"] {
        let mut block = gallery(1);
        block["Images"][0][member] = json!("\0");
        let refused = author.set_blocks(&post, [block]).await;
        refused.expect_refusal(INVALID, &format!("/Blocks/0/Images/0/{member}"), "forbidden_character");
    }
}

/// RULE-NWS-004: a gallery has 1..50 images.
#[tokio::test]
async fn gallery_has_1_to_50_images() {
    let author = author();
    let post = author.create_post().await;
    for count in [1, 50] {
        author.set_blocks(&post, [gallery(count)]).await.expect(200);
        assert_eq!(list(&author.read(&post).await["Blocks"][0]["Images"]).len(), count);
    }
    for (count, reason) in [(0, "too_few"), (51, "too_many")] {
        author.set_blocks(&post, [gallery(count)]).await.expect_refusal(INVALID, "/Blocks/0/Images", reason);
    }
}

/// RULE-NWS-004: an image has `FileId`, `Caption` of at most 512 and `Alt` of at most 256
/// characters.
#[tokio::test]
async fn image_has_a_file_and_optional_texts() {
    let author = author();
    let post = author.create_post().await;
    let image = |caption: usize, alt: usize| {
        let image = json!({"FileId": guid(), "Caption": "ы".repeat(caption), "Alt": "ы".repeat(alt)});
        json!({"Kind": "ImageGallery", "Layout": "Masonry", "Images": [image]})
    };
    let bare = json!({"Kind": "ImageGallery", "Layout": "Carousel", "Images": [{"FileId": guid()}]});
    let full = image(512, 256);
    author.set_blocks(&post, [bare.clone(), full.clone()]).await.expect(200);
    let blocks = author.read(&post).await["Blocks"].take();
    let expected = json!([{"FileId": bare["Images"][0]["FileId"], "Caption": null, "Alt": null}]);
    assert_eq!((&blocks[0]["Images"], &blocks[1]["Images"]), (&expected, &full["Images"]));
    assert_eq!(each(&blocks, "Layout"), ["Carousel", "Masonry"]);
    for (block, member) in [(image(513, 1), "Caption"), (image(1, 257), "Alt")] {
        let field = format!("/Blocks/0/Images/0/{member}");
        author.set_blocks(&post, [block]).await.expect_refusal(INVALID, &field, "too_long");
    }
    for wrong in [json!({}), json!({"FileId": null}), json!({"FileId": "x"}), json!(1), json!(null)] {
        let block = json!({"Kind": "ImageGallery", "Layout": "Grid", "Images": [wrong]});
        author.set_blocks(&post, [block]).await.expect_problem(400, INVALID);
    }
}

/// RULE-NWS-005: exactly one of `SourceSelectionId` and `SnapshotId` is set.
#[tokio::test]
async fn embed_names_exactly_one_of_source_and_snapshot() {
    let author = author();
    let post = author.create_post().await;
    let nothing = json!({"Kind": "SelectionEmbed"});
    let nulls = json!({"Kind": "SelectionEmbed", "SourceSelectionId": null, "SnapshotId": null});
    let both = json!({"Kind": "SelectionEmbed", "SourceSelectionId": guid(), "SnapshotId": guid()});
    for block in [nothing, nulls, both] {
        let refused = author.set_blocks(&post, [text_block("x"), block]).await;
        refused.expect_refusal(INVALID, "/Blocks/1", "exactly_one");
    }
    for member in ["SourceSelectionId", "SnapshotId"] {
        for wrong in [json!("x"), json!(1), json!(""), json!([])] {
            let refused =
                author.set_blocks(&post, [with(json!({"Kind": "SelectionEmbed"}), member, wrong)]).await;
            refused.expect_refusal(INVALID, &format!("/Blocks/0/{member}"), "invalid_type");
        }
    }
    let selection = author.create_selection().await;
    let null_beside = with(embed(&selection), "SnapshotId", Value::Null);
    author.set_blocks(&post, [null_beside]).await.expect(200);
}

/// RULE-NWS-002: `BlockId` is unique in the request over all kinds and spellings.
#[tokio::test]
async fn duplicate_block_id_is_refused() {
    let author = author();
    let post = author.create_post().await;
    let id = guid();
    let named = |block: Value, id: String| with(block, "BlockId", id);
    for other in [id.to_string(), id.to_string().to_uppercase(), id.simple().to_string()] {
        let blocks = [named(text_block("x"), id.to_string()), text_block("y"), named(gallery(1), other)];
        author.set_blocks(&post, blocks).await.expect_refusal(INVALID, "/Blocks/2/BlockId", "duplicate");
    }
    author.set_blocks(&post, [text_block("x"), text_block("x")]).await.expect(200);
}

/// INV-NWS-008: an edit replaces the whole content, and nothing else of the post.
#[tokio::test]
async fn edit_replaces_the_whole_content() {
    let author = author();
    let post = author.create_post().await;
    let before = author.read(&post).await;
    for blocks in [vec![text_block("a"), gallery(1), text_block("b")], vec![text_block("c")], vec![]] {
        author.set_blocks(&post, blocks.clone()).await.expect(200);
        let after = author.read(&post).await;
        let kinds: Vec<_> = blocks.iter().map(|block| &block["Kind"]).collect();
        assert_eq!(each(&after["Blocks"], "Kind"), kinds);
        for kept in ["Title", "Summary", "CoverFileId", "Tags", "Status", "AuthorUserId", "PublishedAt"] {
            assert_eq!(after[kept], before[kept], "{kept}");
        }
    }
}

/// RULE-NWS-002: `BlockId` is taken from the request or assigned, and stays the same over versions.
#[tokio::test]
async fn block_keeps_its_id_over_versions() {
    let author = author();
    let post = author.create_post().await;
    let own = guid();
    let blocks =
        [with(text_block("x"), "BlockId", own.to_string()), with(gallery(1), "BlockId", Value::Null)];
    author.set_blocks(&post, blocks).await.expect(200);
    let first = author.read(&post).await["Blocks"].take();
    let assigned = text(&first[1]["BlockId"]).to_owned();
    assert_eq!(first[0]["BlockId"], own.to_string());
    assert_ne!(assigned, own.to_string());

    let again = [text_block("new"), with(text_block("y"), "BlockId", assigned.as_str()), first[0].clone()];
    author.set_blocks(&post, again.map(|block| with(block, "SortOrder", 0))).await.expect(200);

    let second = author.read(&post).await["Blocks"].take();
    assert_eq!(each(&second, "BlockId")[1..], [&first[1]["BlockId"], &first[0]["BlockId"]]);
    let fresh = text(&second[0]["BlockId"]);
    assert!(fresh != assigned && fresh != own.to_string());
}

/// RULE-NWS-007: `SortOrder` is an int of 0 or more.
#[tokio::test]
async fn sort_order_is_an_int_of_0_or_more() {
    let author = author();
    let post = author.create_post().await;
    for order in [json!(0), json!(1), json!(i32::MAX)] {
        author.set_blocks(&post, [with(text_block("x"), "SortOrder", order.clone())]).await.expect(200);
        assert_eq!(author.read(&post).await["Blocks"][0]["SortOrder"], order);
    }
    let wrong =
        [json!(-1), json!(1.5), json!(1.0), json!("1"), json!(null), json!(true), json!(2_147_483_648_i64)];
    for order in wrong {
        for block in [text_block("x"), gallery(1), embed(&guid().to_string())] {
            let refused = author.set_blocks(&post, [with(block, "SortOrder", order.clone())]).await;
            refused.expect_problem(400, INVALID);
        }
    }
    let without = author.news.put(&blocks_path(&post), json!({"Blocks": [text_block("x")]})).await;
    without.expect_refusal(INVALID, "/Blocks/0/SortOrder", "required");
}

/// RULE-NWS-007: ties keep the order of the request, and gaps are accepted.
#[tokio::test]
async fn blocks_are_ordered_by_sort_order() {
    let author = author();
    let post = author.create_post().await;
    let orders = [("c", 7), ("a", 0), ("d", 7), ("b", 3), ("e", 7)];
    let blocks = orders.map(|(text, order)| with(text_block(text), "SortOrder", order));
    author.set_blocks(&post, blocks).await.expect(200);
    let read = author.read(&post).await;
    assert_eq!(each(&read["Blocks"], "Text"), ["a", "b", "c", "d", "e"]);
    assert_eq!(each(&read["Blocks"], "SortOrder"), [0, 3, 7, 7, 7]);
}

/// RULE-NWS-003, RULE-NWS-004, RULE-NWS-006: values of enums are case-sensitive, and an unknown or
/// missing one is refused.
#[tokio::test]
async fn unknown_enum_value_is_refused() {
    let author = author();
    let post = author.create_post().await;
    for (member, good, values) in [
        ("Kind", text_block("x"), vec!["text", "TEXT", "Video", "", "Text "]),
        ("Kind", gallery(1), vec!["imageGallery", "Gallery"]),
        ("Kind", embed(&guid().to_string()), vec!["selectionEmbed", "Embed"]),
        ("Format", text_block("x"), vec!["plain", "HTML", "html", "Text", ""]),
        ("Layout", gallery(1), vec!["grid", "Mosaic", ""]),
    ] {
        for value in values {
            let refused = author.set_blocks(&post, [with(good.clone(), member, value)]).await;
            let pointer = format!("/Blocks/0/{member}");
            refused.expect_refusal(INVALID, &pointer, "unknown_value");
        }
        let mut without = good;
        without.as_object_mut().unwrap().remove(member);
        let refused = author.set_blocks(&post, [without]).await;
        refused.expect_refusal(INVALID, &format!("/Blocks/0/{member}"), "required");
    }
}

/// RULE-NWS-006: the form of the body is checked before its content.
#[tokio::test]
async fn malformed_body_is_refused() {
    let author = author();
    let post = author.create_post_of([text_block("kept")]).await;
    for body in [
        "",
        "{",
        "nope",
        "[]",
        "null",
        "[[]]",
        "{\"Blocks\":[{}]",
        "{\"Blocks\":[]}x",
        "{}",
        "{\"Blocks\":null}",
        "{\"Blocks\":{}}",
        "{\"Blocks\":\"\"}",
        "{\"Blocks\":[null]}",
        "{\"Blocks\":[1]}",
        "{\"Blocks\":[[]]}",
        "{\"Blocks\":[{}]}",
        "{\"blocks\":[]}",
        "{\"Blocks\":[],\"Blocks\":[]}",
        "{\"Blocks\":[{\"Kind\":\"Text\",\"SortOrder\":0,\"Format\":\"Plain\",\"Text\":\"\\ud800\"}]}",
        "{\"Blocks\":[{\"Kind\":\"Text\",\"Kind\":\"Text\",\"SortOrder\":0,\"Format\":\"Plain\",\"Text\":\"x\"}]}",
    ] {
        let request =
            author.news.request(Method::PUT, &blocks_path(&post)).header("content-type", "application/json");
        let response = send(request.body(body)).await;
        assert_eq!(response.status, 400, "{body}: {}", response.text);
        response.expect_problem(400, INVALID);
    }
    let untyped = author.news.request(Method::PUT, &blocks_path(&post)).body(content([]).to_string());
    send(untyped).await.expect_problem(415, "UNSUPPORTED_MEDIA_TYPE");
    assert_eq!(author.read(&post).await["Blocks"][0]["Text"], "kept");
}

/// RULE-NWS-006: all faults of all blocks are in one problem.
#[tokio::test]
async fn several_faults_are_reported_together() {
    let author = author();
    let post = author.create_post().await;
    let blocks = [text_block(""), gallery(0), json!({"Kind": "SelectionEmbed"}), json!({"Kind": "Film"})];
    let problem = author.set_blocks(&post, blocks).await.expect_problem(400, INVALID);
    assert_eq!(
        each(&problem["errors"], "field"),
        ["/Blocks/0/Text", "/Blocks/1/Images", "/Blocks/2", "/Blocks/3/Kind"]
    );
}

/// INV-SEL-001: a client's values of the fields that the server writes are ignored.
#[tokio::test]
async fn server_fields_in_a_request_are_ignored() {
    let author = author();
    let post = author.create_post().await;
    let selection = author.create_selection().await;
    let mut forged = embed(&selection);
    for (member, value) in [
        ("PublicCode", json!("AAAAAAAAAAAA")),
        ("Title", json!(7)),
        ("ItemsCount", json!(-1)),
        ("Items", json!([1])),
        ("Extra", json!({})),
    ] {
        forged[member] = value;
    }
    let plain = with(text_block("x"), "PlainText", "forged");
    author.set_blocks(&post, [forged, plain]).await.expect(200);
    let blocks = author.read(&post).await["Blocks"].take();
    assert_eq!((&blocks[0]["Title"], &blocks[0]["ItemsCount"]), (&json!("Three flats"), &json!(3)));
    assert_ne!(blocks[0]["PublicCode"], "AAAAAAAAAAAA");
    assert_eq!(text(&blocks[0]["PublicCode"]).len(), 12);
    assert_eq!((&blocks[0]["Extra"], &blocks[1]["PlainText"]), (&Value::Null, &json!("x")));
}

/// INV-NWS-008: `UpdatedByUserId` is the user of the last change, and the author stays.
#[tokio::test]
async fn last_editor_is_recorded() {
    let author = author();
    let editor = author_of(service(), guid(), &|claims| claims.permission(MANAGE));
    let post = author.create_post().await;
    let changed_by = async |who: &Author| {
        let read = author.read(&post).await;
        assert_eq!(read["UpdatedByUserId"], who.id.to_string());
        for member in ["AuthorUserId", "CreatedByUserId"] {
            assert_eq!(read[member], author.id.to_string(), "{member}");
        }
    };
    for who in [&editor, &author] {
        who.set_blocks(&post, [text_block(&who.id.to_string())]).await.expect(200);
        changed_by(who).await;
    }
    for who in [&editor, &author] {
        who.news.put(&path(&post), json!({"Title": who.id})).await.expect(200);
        changed_by(who).await;
    }
    for (who, to) in [(&editor, "publish"), (&author, "unpublish"), (&editor, "archive")] {
        who.change_status(&post, to).await.expect(200);
        changed_by(who).await;
    }
}

/// INV-NWS-008, RULE-NWS-013: an edit records actor and time, and its response has four members.
#[tokio::test]
async fn edit_is_dated_and_returns_four_members() {
    let author = author();
    let post = author.create_post().await;
    let before = author.read(&post).await;
    let saved = author.set_blocks(&post, [text_block("x")]).await.expect(200);
    assert_eq!(saved, json!({"PostId": post, "BlocksCount": 1, "EmbedSnapshotIds": [], "Version": 2}));
    let after = author.news.get(&path(&post)).await.expect(200);
    assert_eq!(after["UpdatedByUserId"], author.id.to_string());
    assert!(text(&after["UpdatedAt"]) > text(&before["UpdatedAt"]));
    assert_eq!(after["CreatedAt"], before["CreatedAt"]);
    assert_eq!(after["Version"], before["Version"].as_i64().unwrap() + 1);
}
