//! The number of SQL statements per catalog request.

use serde_json::Value;
use testkit::database;
use testkit::deployed::Deployed;
use testkit::statements::StatementCounter;

use crate::cat_lists::{DEVELOPERS, OBJECTS, PROJECTS, encoded};
use crate::catalog_fill::{Building, Catalog, Developer, Object, Project};
use crate::{list, text};

/// Returns a catalog with `count` developers whose names begin with `word`.
///
/// The first developer has `count` projects, its first project `count` buildings, and its first
/// building `count` objects.
fn numbered_catalog(word: &str, count: usize) -> Catalog {
    let numbered = || (1..=count).map(|number| format!("{word} {number}"));
    let developers: Vec<_> = numbered().map(|name| Developer::new(&name)).collect();
    let projects: Vec<_> = numbered().map(|name| Project::new(&developers[0], &name)).collect();
    let buildings: Vec<_> = numbered().map(|name| Building::new(&projects[0], &name)).collect();
    let object = |(number, rooms): (usize, i16)| Object {
        rooms: Some(rooms),
        ..Object::new(&buildings[0], &number.to_string())
    };
    let objects = (1..=count).zip((1..=20).cycle()).map(object).collect();
    Catalog { developers, projects, buildings, objects }
}

/// Returns paths of reads of the catalog. Each has a JSON pointer to the list of `count` items of
/// the response, or an empty text if there is no such list.
fn reads(word: &str, catalog: &Catalog) -> Vec<(String, &'static str)> {
    let (word, developer) = (encoded(word), catalog.developers[0].id);
    let (project, building) = (catalog.projects[0].id, catalog.buildings[0].id);
    let object = catalog.objects[0].id;
    let of_developer = format!("DeveloperId={developer}&PageSize=100");
    vec![
        (format!("{DEVELOPERS}?Query={word}&PageSize=100"), "/Items"),
        (format!("{DEVELOPERS}?Query={word}&PageSize=100&Sort=-ProjectsPublishedCount"), "/Items"),
        (format!("{DEVELOPERS}/{developer}"), ""),
        (format!("{PROJECTS}?{of_developer}"), "/Items"),
        (format!("{PROJECTS}?{of_developer}&Sort=PriceFrom&Query={word}"), "/Items"),
        (format!("{PROJECTS}?{of_developer}&Rooms=1,2&PriceFrom=1"), ""),
        (format!("{PROJECTS}/facets?DeveloperId={developer}"), ""),
        (format!("{PROJECTS}/facets?DeveloperId={developer}&Rooms=1,2&PriceFrom=1"), ""),
        (format!("{PROJECTS}/{project}"), "/Buildings"),
        (format!("{PROJECTS}/{project}/buildings/{building}"), "/Grid/0/Floors/0/Objects"),
        (format!("{OBJECTS}?{of_developer}"), "/Items"),
        (format!("{OBJECTS}?ProjectId={project}&PageSize=100&Sort=-Price&Kind=Flat"), "/Items"),
        (format!("{OBJECTS}/{object}"), ""),
        (format!("{OBJECTS}/{object}/price-history"), "/Items"),
    ]
}

/// RULE-CHS-055: a request runs at most three statements, and the same number for one row and for a
/// hundred rows.
#[tokio::test]
async fn statement_count_does_not_depend_on_rows() {
    let url = database::create().await.unwrap();
    let statements = StatementCounter::start(&url).await;
    let settings = [("DATABASE_URL", statements.url()), ("GUEST_READS_PER_MINUTE", "0")];
    let serve = Deployed::start(env!("CARGO_BIN_EXE_chessboard"), &["serve"], &settings).await;
    let (sql, guest) = (database::connect(&url).await.unwrap(), serve.guest());
    sql.batch_execute("set search_path = chessboard").await.unwrap();
    let counted =
        [("Один", 1), ("Сотня", 100)].map(|(word, count)| (word, count, numbered_catalog(word, count)));
    let mut executed = Vec::new();
    for (word, count, catalog) in &counted {
        catalog.insert(&sql).await;
        let prices = format!(
            "insert into price_history select '{}', n, n, 'RUB', '2026-02-01' from generate_series(1, {count}) as n",
            catalog.objects[0].id
        );
        sql.batch_execute(&prices).await.unwrap();
        for (path, pointer) in reads(word, catalog) {
            let mut least = usize::MAX;
            // New connections execute statements of their own, so the minimum of four reads counts.
            for _ in 0..4 {
                let before = statements.executed();
                let response = guest.get(&path).await.expect(200);
                least = least.min(statements.executed() - before);
                if !pointer.is_empty() {
                    assert_eq!(
                        list(response.pointer(pointer).unwrap_or(&Value::Null)).len(),
                        *count,
                        "{path}"
                    );
                }
            }
            executed.push(least);
        }
    }
    let (one, hundred) = executed.split_at(executed.len() / 2);
    assert_eq!(one, hundred);
    assert!(one.iter().all(|count| (1..=3).contains(count)), "{one:?}");
}

/// RULE-CHS-045: later pages of a walk prepare no statement. Planning would take longer than
/// reading the page.
#[tokio::test]
async fn later_search_pages_use_prepared_statements() {
    let url = database::create().await.unwrap();
    let statements = StatementCounter::start(&url).await;
    let settings = [("DATABASE_URL", statements.url()), ("GUEST_READS_PER_MINUTE", "0")];
    let serve = Deployed::start(env!("CARGO_BIN_EXE_chessboard"), &["serve"], &settings).await;
    let (sql, guest) = (database::connect(&url).await.unwrap(), serve.guest());
    sql.batch_execute("set search_path = chessboard").await.unwrap();
    let catalog = numbered_catalog("Глубоко", 200);
    catalog.insert(&sql).await;
    let found = format!("{OBJECTS}?DeveloperId={}&Sort=AreaTotal", catalog.developers[0].id);
    let (mut path, mut seen, mut prepared) = (found.clone(), 0, Vec::new());
    loop {
        // Each thread has its own connection, which prepares the statement once.
        for _ in 0..50 {
            guest.get(&path).await.expect(200);
        }
        let page = guest.get(&path).await.expect(200);
        prepared.push(statements.prepared());
        seen += list(&page["Items"]).len();
        if page["NextCursor"].is_null() {
            break;
        }
        path = format!("{found}&Cursor={}", text(&page["NextCursor"]));
    }
    assert_eq!(seen, 200);
    // The first page has no cursor and therefore different SQL.
    assert!(prepared[1..].windows(2).all(|pages| pages[0] == pages[1]), "{prepared:?}");
}
