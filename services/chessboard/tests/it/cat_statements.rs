//! How often the catalog asks its database.

use serde_json::Value;
use testkit::database;
use testkit::deployed::Deployed;
use testkit::statements::Statements;

use crate::cat_lists::{DEVELOPERS, OBJECTS, PROJECTS, encoded};
use crate::catalog_fill::{Building, Catalog, Developer, Object, Project};
use crate::{list, text};

/// So many developers whose names have `word` in them; the first has as many projects, the first of these as many buildings, and
/// the first of these as many objects.
fn many(word: &str, count: usize) -> Catalog {
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

/// Every read of the catalog, of what is first in it: the path, and where the answer has what there is so much of.
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

/// Section 10: the number of statements of a request does not grow with the rows that it shows; it is three at most.
#[tokio::test]
async fn a_hundred_rows_take_as_many_statements_as_one() {
    let url = database::create().await.unwrap();
    let statements = Statements::before(&url).await;
    let settings = [("DATABASE_URL", statements.url()), ("GUEST_READS_PER_MINUTE", "0")];
    let serve = Deployed::start(env!("CARGO_BIN_EXE_chessboard"), &["serve"], &settings).await;
    let (sql, guest) = (database::connect(&url).await.unwrap(), serve.guest());
    sql.batch_execute("set search_path = chessboard").await.unwrap();
    let counted = [("Один", 1), ("Сотня", 100)].map(|(word, count)| (word, count, many(word, count)));
    let mut asked = Vec::new();
    for (word, count, catalog) in &counted {
        catalog.add(&sql).await;
        let prices = format!(
            "insert into price_history select '{}', n, n, 'RUB', '2026-02-01' from generate_series(1, {count}) as n",
            catalog.objects[0].id
        );
        sql.batch_execute(&prices).await.unwrap();
        for (path, shown) in reads(word, catalog) {
            let mut least = usize::MAX;
            // Connections that are made meanwhile ask for their settings.
            for _ in 0..4 {
                let before = statements.executed();
                let answer = guest.get(&path).await.expect(200);
                least = least.min(statements.executed() - before);
                if !shown.is_empty() {
                    assert_eq!(list(answer.pointer(shown).unwrap_or(&Value::Null)).len(), *count, "{path}");
                }
            }
            asked.push(least);
        }
    }
    let (one, hundred) = asked.split_at(asked.len() / 2);
    assert_eq!(one, hundred);
    assert!(one.iter().all(|asked| (1..=3).contains(asked)), "{one:?}");
}

/// Section 10: a page of the search takes as long at any depth. What is planned anew takes longer than it is read.
#[tokio::test]
async fn pages_of_the_search_that_follow_are_not_prepared_again() {
    let url = database::create().await.unwrap();
    let statements = Statements::before(&url).await;
    let settings = [("DATABASE_URL", statements.url()), ("GUEST_READS_PER_MINUTE", "0")];
    let serve = Deployed::start(env!("CARGO_BIN_EXE_chessboard"), &["serve"], &settings).await;
    let (sql, guest) = (database::connect(&url).await.unwrap(), serve.guest());
    sql.batch_execute("set search_path = chessboard").await.unwrap();
    let catalog = many("Глубоко", 200);
    catalog.add(&sql).await;
    let found = format!("{OBJECTS}?DeveloperId={}&Sort=AreaTotal", catalog.developers[0].id);
    let (mut path, mut seen, mut prepared) = (found.clone(), 0, Vec::new());
    loop {
        // Each thread has a connection of its own, which prepares it once.
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
    // The first has no cursor, and thus SQL of its own.
    assert!(prepared[1..].windows(2).all(|pages| pages[0] == pages[1]), "{prepared:?}");
}
