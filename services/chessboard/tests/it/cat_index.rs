//! The index of the catalog in the memory of a process: it shows each commit at once.

use futures_util::future::join;
use serde_json::{Value, json};
use testkit::client::Client;
use testkit::database;
use testkit::deployed::Deployed;
use testkit::eventually;
use testkit::held::HeldLocks;
use testkit::service::Running;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use uuid::Uuid;

use crate::cat_lists::{PROJECTS, start_with_catalog};
use crate::catalog_fill::{
    Building, Catalog, Object, Project, single_building_catalog, single_object_catalog,
};
use crate::restored::restore;

const CHESSBOARD: &str = env!("CARGO_BIN_EXE_chessboard");
/// The pattern of the statement that reads projects into the index.
const READ_PROJECTS: &str = "%from unnest($1) as requested (id)%";
/// Number of marks of a large table.
const MARKS: i64 = 20_000;

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

/// RULE-CHS-080: a change that is rolled back is not found, and no other change is missed. This
/// includes a change that began with it and is committed later.
#[tokio::test]
async fn rolled_back_change_is_not_found_and_hides_no_other() {
    let mut catalog = single_object_catalog();
    catalog.projects.push(Project::new(&catalog.developers[0], "Берёзы"));
    let own = start_with_catalog(&catalog).await;
    wait_for_index(&own.operator()).await;
    let (building, guest) = (catalog.buildings[0].id, own.guest());
    let [changed, renamed] = [0, 1].map(|at: usize| catalog.projects[at].id);
    let (undone, late, other) = (own.sql().await, own.sql().await, own.sql().await);
    let found =
        async |price: i64| count_found(&guest, &format!("PriceFrom={price}&PriceTo={}", price + 1)).await;
    undone.batch_execute(&format!("begin; {}", set_price(building, 500_000_000))).await.unwrap();
    let elite = format!("begin; update project set class = 'Elite' where id = '{changed}'");
    late.batch_execute(&elite).await.unwrap();
    // The index applies this change while the other two transactions are in progress.
    let rename = format!("update project set folded_name = 'renamed' where id = '{renamed}'");
    other.batch_execute(&rename).await.unwrap();
    assert_eq!(count_found(&guest, "Query=renamed").await, 1);
    undone.batch_execute("rollback").await.unwrap();
    assert_eq!((found(500_000_000).await, count_found(&guest, "Class=Elite").await), (0, 0));
    late.batch_execute("commit").await.unwrap();
    assert_eq!((found(500_000_000).await, count_found(&guest, "Class=Elite").await), (0, 1));
    // A transaction that rolls back a part of its changes.
    let [part, rest] = [600_000_000, 700_000_000].map(|price| set_price(building, price));
    let partial = format!("begin; savepoint part; {part}; rollback to part; {rest}; commit");
    undone.batch_execute(&partial).await.unwrap();
    assert_eq!((found(600_000_000).await, found(700_000_000).await), (0, 1));
    assert!(index_bytes(&own.operator()).await > 0, "the searches read tables");
}

/// RULE-CHS-080: an index that is loaded while projects change shows each committed change, whether
/// the load reads the project before or after it.
#[tokio::test]
async fn load_during_changes_misses_none() {
    let mut catalog = single_object_catalog();
    let developer = catalog.developers[0].clone();
    // The load reads 20 projects in a statement.
    catalog.projects.extend((0..30).map(|n: i32| Project::new(&developer, &n.to_string())));
    let own = start_with_catalog(&catalog).await;
    // Without the project that has an object.
    let mut ids: Vec<_> = catalog.projects[1..].iter().map(|project| project.id).collect();
    ids.sort_unstable();
    let [first, second, third, .., last] = ids[..] else { panic!("at least four projects") };
    let (early, later, other) = (own.sql().await, own.sql().await, own.sql().await);
    early
        .batch_execute(&format!("begin; update project set class = 'Elite' where id = '{first}'"))
        .await
        .unwrap();

    // The load waits for the lock, and a second transaction waits for it behind the first batch.
    let lock = "lock table property_object in access exclusive mode";
    let held = HeldLocks::lock(&own, lock).await;
    let settings = [("DATABASE_URL", own.database_url.as_str()), ("GUEST_READS_PER_MINUTE", "0")];
    let replica = Deployed::start(CHESSBOARD, &["serve"], &settings).await;
    held.wait_for(1, READ_PROJECTS).await;
    let lock_again = format!("begin; {lock}");
    let release = async {
        held.wait_for(1, &lock_again).await;
        held.release().await;
    };
    let (locked, ()) = join(later.batch_execute(&lock_again), release).await;
    locked.unwrap();

    // The load has read the first batch, and waits with the second one.
    early.batch_execute("commit").await.unwrap();
    let changes = format!(
        "update project set status = 'Hidden' where id = '{second}'; \
        update project set folded_city = 'moved' where id = '{third}'; \
        update project set folded_name = 'renamed' where id = '{last}'"
    );
    other.batch_execute(&changes).await.unwrap();
    let new = Project { id: Uuid::from_u128(1), class: "Business", ..Project::new(&developer, "New") };
    // Inserting a catalog also takes the lock, which `later` has.
    Catalog { projects: vec![new], ..Catalog::default() }.insert(&later).await;
    let price = set_price(catalog.buildings[0].id, 500_000_000);
    later.batch_execute(&format!("{price}; commit")).await.unwrap();

    wait_for_index(&replica.operator()).await;
    let guest = replica.guest();
    for filter in ["Class=Elite", "City=moved", "Query=renamed", "Class=Business", "PriceFrom=500000000"] {
        assert_eq!(count_found(&guest, filter).await, 1, "{filter}");
    }
    assert_eq!(count_found(&guest, "").await, 31);
    assert!(index_bytes(&replica.operator()).await > 0, "the searches read tables");
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
    let replicas = [
        Deployed::start(CHESSBOARD, &["serve"], &settings).await,
        Deployed::start(CHESSBOARD, &["serve"], &settings).await,
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

/// RULE-CHS-080: a restore of the database, which may keep its history, drops the index.
#[tokio::test]
async fn restore_of_the_database_drops_the_index() {
    let own = start_with_catalog(&single_object_catalog()).await;
    let (guest, operator, sql) = (own.guest(), own.operator(), own.sql().await);
    change_without_mark(&guest, &operator, &sql).await;
    restore(&own).await;
    assert_eq!(count_found(&guest, "Class=Elite").await, 1);
    wait_for_index(&operator).await;
    assert_eq!(count_found(&guest, "Class=Elite").await, 1);
}

/// Sends a request for the facets.
async fn send_request(service: &Running) -> TcpStream {
    let url = service.public_url();
    let mut connection = TcpStream::connect(url.trim_start_matches("http://")).await.unwrap();
    let request = format!("GET {PROJECTS}/facets HTTP/1.1\r\nHost: test\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    connection
}

/// RULE-CHS-080: a request whose client disconnects ends its refresh. The next search finds each
/// change, in the index.
#[tokio::test]
async fn cancelled_refresh_misses_no_change() {
    let catalog = single_object_catalog();
    let own = start_with_catalog(&catalog).await;
    let (guest, operator, sql) = (own.guest(), own.operator(), own.sql().await);
    wait_for_index(&operator).await;
    // The refresh reads the changes first, and then the changed projects.
    for (table, statement, price) in [
        ("catalog_index_life", "%catalog_index_life%", 500_000_000),
        ("building", READ_PROJECTS, 600_000_000),
    ] {
        sql.batch_execute(&set_price(catalog.buildings[0].id, price)).await.unwrap();
        let held = HeldLocks::lock(&own, &format!("lock table {table} in access exclusive mode")).await;
        let connection = send_request(&own).await;
        held.wait_for(1, statement).await;
        // A reset ends the request.
        connection.set_zero_linger().unwrap();
        drop(connection);
        eventually("the end of the request", async || {
            let metrics = operator.get("/metrics").await.text;
            metrics.contains("http_server_active_requests{listener=\"public\"} 0").then_some(())
        })
        .await;
        held.release().await;
        let filter = format!("PriceFrom={price}&PriceTo={}", price + 1);
        assert_eq!(count_found(&guest, &filter).await, 1, "{table}");
        assert!(index_bytes(&operator).await > 0, "the searches read tables");
    }
    // The index does not show a change without a mark, so the searches still use it.
    change_without_mark(&guest, &operator, &sql).await;
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
    let serve = Deployed::start(CHESSBOARD, &["serve"], &settings).await;
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

/// RULE-CHS-081: an index that exceeds its maximum size while it is loaded is dropped. Searches
/// then read tables and return the same as searches in the index. A process without an index has
/// no metric.
#[tokio::test]
async fn index_beyond_its_maximum_at_load_is_dropped() {
    let url = database::create().await.unwrap();
    let start = async |mib: &'static str| {
        let settings =
            [("DATABASE_URL", url.as_str()), ("GUEST_READS_PER_MINUTE", "0"), ("CATALOG_INDEX_MIB", mib)];
        Deployed::start(CHESSBOARD, &["serve"], &settings).await
    };
    let without = start("0").await;
    let sql = database::connect(&url).await.unwrap();
    sql.batch_execute("set search_path = chessboard").await.unwrap();
    let mut catalog = single_object_catalog();
    // A project takes more than 500 bytes.
    let project = |n: i32| Project::new(&catalog.developers[0], &format!("{n} {}", "ы".repeat(250)));
    let many: Vec<_> = (0..2_100).map(project).collect();
    catalog.projects.extend(many);
    catalog.insert(&sql).await;
    let (small, large) = (start("1").await, start("64").await);
    wait_for_index(&large.operator()).await;
    eventually("the end of the load", async || {
        let exceeded = "the catalog index exceeded its size, so searches read tables";
        small.log().iter().any(|line| line["message"] == exceeded).then_some(())
    })
    .await;
    for search in [
        "",
        "?Sort=Name&PageSize=100",
        "?Query=9&Sort=-PriceFrom",
        "?PriceTo=100000001",
        "/facets",
        "/facets?Query=9",
    ] {
        let path = format!("{PROJECTS}{search}");
        let read = async |replica: &Deployed| replica.guest().get(&path).await.expect(200);
        let found = read(&large).await;
        for replica in [&small, &without] {
            assert_eq!(read(replica).await, found, "{search}");
        }
    }
    assert_eq!(index_bytes(&small.operator()).await, 0);
    assert!(index_bytes(&large.operator()).await > 0, "the searches read tables");
    let metrics = without.operator().get("/metrics").await.text;
    assert!(!metrics.contains("catalog_index_bytes"), "{metrics}");
}

/// A load reads projects with many homes one by one. After changes of such projects, searches read
/// tables until a load has read the changes.
#[tokio::test]
async fn projects_with_many_homes_are_loaded_one_by_one() {
    let url = database::create().await.unwrap();
    let settings = [("DATABASE_URL", url.as_str()), ("GUEST_READS_PER_MINUTE", "0")];
    let first = Deployed::start(CHESSBOARD, &["serve"], &settings).await;
    let sql = database::connect(&url).await.unwrap();
    sql.batch_execute("set search_path = chessboard").await.unwrap();
    let mut catalog = single_object_catalog();
    for name in ["Берёзы", "Ели"] {
        let project = Project::new(&catalog.developers[0], name);
        let building = Building::new(&project, "1");
        let homes = (0..10_001).map(|number: i32| Object::new(&building, &number.to_string()).at(5));
        catalog.objects.extend(homes);
        catalog.buildings.push(building);
        catalog.projects.push(project);
    }
    catalog.insert(&sql).await;
    assert_eq!(count_found(&first.guest(), "").await, 3);
    let second = Deployed::start(CHESSBOARD, &["serve"], &settings).await;
    wait_for_index(&second.operator()).await;
    assert_eq!(count_found(&second.guest(), "PriceTo=6").await, 2);
    let logged = async |message: &str| {
        eventually(message, async || second.log().into_iter().find(|line| line["message"] == message)).await
    };
    let loaded = logged("loaded the catalog index").await;
    assert_eq!((&loaded["projects"], &loaded["batches"]), (&json!(3), &json!(3)));

    sql.batch_execute("update project set class = 'Elite'").await.unwrap();
    assert_eq!(count_found(&second.guest(), "Class=Elite").await, 3);
    let dropped = logged("projects with many homes changed since the last search").await;
    assert_eq!(dropped["homes"], 20_003);
    wait_for_index(&second.operator()).await;
    assert_eq!(count_found(&second.guest(), "Class=Elite").await, 3);
}

/// The refresh does not read all marks of a large table.
#[tokio::test]
async fn refresh_of_many_marks_reads_an_index() {
    let url = database::create().await.unwrap();
    let settings = [("DATABASE_URL", url.as_str()), ("GUEST_READS_PER_MINUTE", "0")];
    // Without the role `work`, no job removes the marks.
    let mut serve = Deployed::start(CHESSBOARD, &["serve"], &settings).await;
    let sql = database::connect(&url).await.unwrap();
    sql.batch_execute("set search_path = chessboard").await.unwrap();
    let catalog = single_object_catalog();
    catalog.insert(&sql).await;
    wait_for_index(&serve.operator()).await;
    // The statement is planned while the table is nearly empty.
    assert_eq!(count_found(&serve.guest(), "").await, 1);
    let marks = format!(
        "insert into project_figures_change (project_id) select '{}' from generate_series(1, {MARKS}); \
        analyze project_figures_change",
        catalog.projects[0].id
    );
    sql.batch_execute(&marks).await.unwrap();
    let read = async || {
        let rows = "select coalesce(sum(seq_tup_read), 0)::bigint from pg_stat_user_tables \
            where relname in ('project_figures_change', 'project_figures')";
        sql.query_one(rows, &[]).await.unwrap().get::<_, i64>(0)
    };
    let before = read().await;
    for _ in 0..10 {
        assert_eq!(count_found(&serve.guest(), "").await, 1);
    }
    assert!(index_bytes(&serve.operator()).await > 0, "the searches read tables");
    // A connection reports its statistics when it ends.
    serve.process.kill().await.unwrap();
    eventually("the end of the connections", async || {
        let others = "select count(*) from pg_stat_activity \
            where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()";
        (sql.query_one(others, &[]).await.unwrap().get::<_, i64>(0) == 0).then_some(())
    })
    .await;
    let read = read().await - before;
    assert!(read < MARKS, "{read} rows read by sequential scans");
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
