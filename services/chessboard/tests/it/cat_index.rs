//! The index of the catalog in the memory of a process: it shows each commit at once.

use serde_json::Value;
use testkit::client::Client;
use testkit::database;
use testkit::deployed::Deployed;
use testkit::eventually;
use uuid::Uuid;

use crate::cat_lists::{PROJECTS, start_with_catalog};
use crate::catalog_fill::{Catalog, Object, Project, single_building_catalog, single_object_catalog};

/// Returns the size of the index in bytes. 0 means that searches read tables.
pub async fn index_bytes(operator: &Client) -> u64 {
    let metrics = operator.get("/metrics").await;
    let size = metrics.text.lines().find_map(|line| line.strip_prefix("catalog_index_bytes "));
    size.and_then(|size| size.parse().ok()).expect("the size of the index")
}

/// Waits until a process has loaded its index.
pub async fn wait_for_index(operator: &Client) {
    eventually("the index", async || (index_bytes(operator).await > 0).then_some(())).await;
}

/// Returns the number of found projects in the list, which equals that of the facets.
async fn count_found(guest: &Client, filter: &str) -> i64 {
    let list = guest.get(&format!("{PROJECTS}?{filter}")).await.expect(200);
    let facets = guest.get(&format!("{PROJECTS}/facets?{filter}")).await.expect(200);
    assert_eq!(list["TotalCount"], facets["TotalCount"], "{filter}");
    list["TotalCount"].as_i64().unwrap()
}

fn set_price(building: Uuid, price: i64) -> String {
    format!(
        "update property_object set price = {price} where building_id = '{building}'; \
        select renew_building_figures('{building}')"
    )
}

/// RULE-CHS-080: a transaction begins before a refresh of the index and commits after it. The next
/// search finds its change, whether or not the job has removed the mark of the change.
#[tokio::test]
async fn late_commit_is_found() {
    let catalog = single_object_catalog();
    let own = start_with_catalog(&catalog).await;
    wait_for_index(&own.operator()).await;
    let (building, guest) = (catalog.buildings[0].id, own.guest());
    let (early, other) = (own.sql().await, own.sql().await);
    let found =
        async |price: i64| count_found(&guest, &format!("PriceFrom={price}&PriceTo={}", price + 1)).await;
    for (round, price) in [500_000_000, 600_000_000].into_iter().enumerate() {
        early.batch_execute(&format!("begin; {}", set_price(building, price))).await.unwrap();
        // A later transaction commits first, and the index applies it.
        let city = format!("update project set city = 'Пермь {round}', folded_city = 'пермь {round}'");
        other.batch_execute(&city).await.unwrap();
        assert_eq!(count_found(&guest, &format!("City=%D0%9F%D0%B5%D1%80%D0%BC%D1%8C%20{round}")).await, 1);
        assert_eq!(found(price).await, 0);
        early.batch_execute("commit").await.unwrap();
        if round == 1 {
            other.batch_execute("select renew_project_figures(10)").await.unwrap();
            let marks = "select count(*) from project_figures_change";
            assert_eq!(other.query_one(marks, &[]).await.unwrap().get::<_, i64>(0), 0);
        }
        assert_eq!(found(price).await, 1);
        assert!(index_bytes(&own.operator()).await > 0, "the searches read tables");
    }
}

/// RULE-CHS-080: each change of a project, its developer, its buildings and its homes is found at
/// once, also after the job has removed its mark.
#[tokio::test]
async fn each_change_is_found_at_once() {
    let mut catalog = single_object_catalog();
    catalog.projects[0].place = Some((10.0, 10.0));
    let own = start_with_catalog(&catalog).await;
    wait_for_index(&own.operator()).await;
    let (guest, sql) = (own.guest(), own.sql().await);
    let building = catalog.buildings[0].id;
    assert_eq!(count_found(&guest, "").await, 1);
    let bytes_before = index_bytes(&own.operator()).await;
    for (change, filter, found) in [
        ("update project set class = 'Elite'".to_owned(), "Class=Elite", 1),
        ("update project set folded_name = 'renamed'".to_owned(), "Query=renamed", 1),
        ("update project set folded_city = 'moved'".to_owned(), "City=moved", 1),
        ("update project set latitude = 20, longitude = 30".to_owned(), "Box=15,15,25,35", 1),
        (set_price(building, 777_000_000), "PriceFrom=777000000&PriceTo=777000001", 1),
        (format!("{}; {}", "update property_object set rooms = 7", set_price(building, 5)), "Rooms=7", 1),
        ("update building set state = 'Planned', ready_year = 2031".to_owned(), "ReadyBefore=2031-01-01", 0),
        ("update building set ready_year = 2030".to_owned(), "ReadyBefore=2031-01-01", 1),
        ("update building set deleted_at = now()".to_owned(), "ReadyBefore=2031-01-01", 0),
        ("update building set deleted_at = null".to_owned(), "Rooms=7", 1),
        ("update developer set status = 'Hidden'".to_owned(), "", 0),
        ("update developer set status = 'Published'".to_owned(), "", 1),
        ("update project set status = 'Hidden'".to_owned(), "", 0),
        ("update project set status = 'Published'".to_owned(), "", 1),
        ("update project set deleted_at = now()".to_owned(), "", 0),
    ] {
        sql.batch_execute(&change).await.unwrap();
        assert_eq!(count_found(&guest, filter).await, found, "{change}");
        sql.batch_execute("select renew_project_figures(10)").await.unwrap();
        assert_eq!(count_found(&guest, filter).await, found, "{change}, added up");
        let is_empty = change.ends_with("update project set deleted_at = now()");
        assert!(is_empty || index_bytes(&own.operator()).await > 0, "{change}: the searches read tables");
    }
    assert!(index_bytes(&own.operator()).await < bytes_before);
}

/// RULE-CHS-080: all replicas show a commit at once.
#[tokio::test]
async fn replicas_show_a_commit_at_once() {
    let url = database::create().await.unwrap();
    let settings = [("DATABASE_URL", url.as_str()), ("GUEST_READS_PER_MINUTE", "0")];
    let binary = env!("CARGO_BIN_EXE_chessboard");
    let replicas = [
        Deployed::start(binary, &["serve"], &settings).await,
        Deployed::start(binary, &["serve"], &settings).await,
    ];
    let sql = database::connect(&url).await.unwrap();
    sql.batch_execute("set search_path = chessboard").await.unwrap();
    let catalog = single_object_catalog();
    catalog.insert(&sql).await;
    for replica in &replicas {
        wait_for_index(&replica.operator()).await;
    }
    for turn in 0..20_i64 {
        let price = 100_000_000 + turn;
        sql.batch_execute(&set_price(catalog.buildings[0].id, price)).await.unwrap();
        for replica in &replicas {
            let filter = format!("PriceFrom={price}&PriceTo={}", price + 1);
            assert_eq!(count_found(&replica.guest(), &filter).await, 1);
            assert!(index_bytes(&replica.operator()).await > 0, "the searches read tables");
        }
    }
}

/// Makes the project Elite without a mark, as if the mark was lost, so that the index does not show
/// the change.
async fn change_without_mark(guest: &Client, operator: &Client, sql: &tokio_postgres::Client) {
    wait_for_index(operator).await;
    // The job must not add up the marks of earlier changes later, since the index would then read
    // the project again.
    let marks = "select count(*) from project_figures_change";
    eventually("the job", async || {
        (sql.query_one(marks, &[]).await.unwrap().get::<_, i64>(0) == 0).then_some(())
    })
    .await;
    assert_eq!(count_found(guest, "").await, 1);
    // Triggers do not run, and they write the marks.
    let unmarked = "set session_replication_role = replica; update project set class = 'Elite'; \
        set session_replication_role = origin";
    sql.batch_execute(unmarked).await.unwrap();
    // A search on a busy machine may read the tables.
    eventually("the index", async || (count_found(guest, "Class=Elite").await == 0).then_some(())).await;
}

/// RULE-CHS-080: another history of the database drops the index, which is then loaded again.
#[tokio::test]
async fn other_history_drops_the_index() {
    let own = start_with_catalog(&single_object_catalog()).await;
    let (guest, operator, sql) = (own.guest(), own.operator(), own.sql().await);
    change_without_mark(&guest, &operator, &sql).await;
    let promote = "create or replace function database_history() returns text language sql volatile \
        as $$ select 'another history' $$";
    sql.batch_execute(promote).await.unwrap();
    assert_eq!(count_found(&guest, "Class=Elite").await, 1);
    wait_for_index(&operator).await;
    assert_eq!(count_found(&guest, "Class=Elite").await, 1);
}

/// RULE-CHS-080: a crash of the database server, which reuses numbers of lost transactions, drops
/// the index.
#[tokio::test]
async fn crash_of_the_server_drops_the_index() {
    let own = start_with_catalog(&single_object_catalog()).await;
    let (guest, operator, sql) = (own.guest(), own.operator(), own.sql().await);
    change_without_mark(&guest, &operator, &sql).await;
    // A crash empties unlogged tables.
    sql.batch_execute("truncate catalog_index_life").await.unwrap();
    assert_eq!(count_found(&guest, "Class=Elite").await, 1);
    wait_for_index(&operator).await;
    assert_eq!(count_found(&guest, "Class=Elite").await, 1);
}

/// RULE-CHS-080: while the index cannot be refreshed, searches read tables and do not wait for each
/// other.
#[tokio::test]
async fn searches_read_tables_while_no_refresh_succeeds() {
    let own = start_with_catalog(&single_object_catalog()).await;
    let (operator, sql) = (own.operator(), own.sql().await);
    wait_for_index(&operator).await;
    // Only the refresh reads this table.
    sql.batch_execute("begin; lock table catalog_index_life").await.unwrap();
    let search = async || count_found(&own.guest(), "").await;
    assert_eq!(futures_util::future::join_all((0..5).map(|_| search())).await, [1; 5]);
    sql.batch_execute("commit").await.unwrap();
    assert_eq!(search().await, 1);
}

/// RULE-CHS-081: an index that exceeds its maximum size is dropped, and searches read tables.
#[tokio::test]
async fn index_beyond_its_maximum_is_dropped() {
    let url = database::create().await.unwrap();
    let settings =
        [("DATABASE_URL", url.as_str()), ("GUEST_READS_PER_MINUTE", "0"), ("CATALOG_INDEX_MIB", "1")];
    let serve = Deployed::start(env!("CARGO_BIN_EXE_chessboard"), &["serve"], &settings).await;
    let sql = database::connect(&url).await.unwrap();
    sql.batch_execute("set search_path = chessboard").await.unwrap();
    let mut catalog = single_object_catalog();
    catalog.insert(&sql).await;
    let (guest, operator) = (serve.guest(), serve.operator());
    wait_for_index(&operator).await;
    // A project takes more than 500 bytes.
    let long = "ы".repeat(256);
    let project = |_| Project::new(&catalog.developers[0], &long);
    let many = Catalog { projects: (0..2_100).map(project).collect(), ..Catalog::default() };
    many.insert(&sql).await;
    assert_eq!(count_found(&guest, "").await, 2_101);
    assert_eq!(index_bytes(&operator).await, 0);
    sql.batch_execute(&set_price(catalog.buildings.remove(0).id, 55)).await.unwrap();
    assert_eq!(count_found(&guest, "PriceTo=56").await, 1);
}

/// RULE-CHS-041: the pages of a list contain each project once, in every order.
#[tokio::test]
async fn pages_of_the_index_are_complete() {
    let mut catalog = single_building_catalog();
    let developer = catalog.developers[0].clone();
    catalog.projects.extend((0..25).map(|n: i32| Project::new(&developer, &format!("{}", n % 7))));
    catalog.objects.push(Object::new(&catalog.buildings[0], "1"));
    let own = start_with_catalog(&catalog).await;
    wait_for_index(&own.operator()).await;
    let guest = own.guest();
    for sort in ["Name", "-Name", "PriceFrom", "-PriceFrom", "PublishedAt", "-PublishedAt"] {
        let ids = |page: &Value| -> Vec<Value> {
            page["Items"].as_array().unwrap().iter().map(|item| item["Id"].clone()).collect()
        };
        let all = ids(&guest.get(&format!("{PROJECTS}?PageSize=100&Sort={sort}")).await.expect(200));
        assert_eq!(all.len(), 26);
        let mut paged = Vec::new();
        for page in 1..=4 {
            paged.extend(ids(&guest
                .get(&format!("{PROJECTS}?PageSize=9&Page={page}&Sort={sort}"))
                .await
                .expect(200)));
        }
        assert_eq!(paged, all, "{sort}");
    }
}
