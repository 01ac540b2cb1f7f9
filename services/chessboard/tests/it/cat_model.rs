//! Compares the catalog with a plain model, for random catalogs and filters.
//!
//! Most catalogs are inserted into the database, because writing over HTTP is slower.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use chessboard::Service;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use testkit::dedicated::DedicatedService;
use testkit::service::Running;
use tokio::runtime::Runtime;

use crate::cat_figures::count_wrong_figures;
use crate::cat_index::wait_for_index;
use crate::cat_lists::{PROJECTS, encoded, start_with_catalog};
use crate::cat_written::WrittenCatalog;
use crate::catalog_fill::{Building, Catalog, Developer, Object, Project, single_object_catalog};
use crate::{each, list, text};

const CITIES: [&str; 4] = ["Казань", "КАЗАНЬ", "Пермь", "Straße"];
const CLASSES: [&str; 4] = ["Economy", "Comfort", "Business", "Elite"];
const KINDS: [&str; 5] = ["Flat", "Apartment", "Flat", "Parking", "Commercial"];
const STATUSES: [&str; 7] =
    ["Available", "Available", "Available", "Sold", "Booked", "Reserved", "Unavailable"];
const STATES: [&str; 3] = ["Planned", "UnderConstruction", "Commissioned"];
const NAMES: [&str; 4] = ["Сосны", "Сосновый бор", "River 50%", "river"];
/// Prices at and next to the bounds of the stored price steps, and outside all steps.
const PRICES: [i64; 14] = [
    1,
    2,
    2_097_151,
    2_097_152,
    2_097_153,
    2_228_223,
    2_228_224,
    2_300_000,
    2_359_296,
    2_490_368,
    128_849_018_879,
    128_849_018_880,
    128_849_018_881,
    1_000_000_000_000_000,
];
const PUBLICITY: [&str; 4] = ["Published", "Published", "Published", "Hidden"];

/// A random filter. Its numbers are indexes into the constants, and `None` means no filter.
#[derive(Clone, Debug)]
struct RandomFilter {
    city: Option<usize>,
    classes: Option<BTreeSet<usize>>,
    rooms: Option<BTreeSet<i16>>,
    prices: (Option<i64>, Option<i64>),
    ready_before: Option<(i16, u8)>,
    within: Option<(i32, i32)>,
    query: Option<usize>,
    developer: Option<usize>,
    sort: usize,
}

const QUERIES: [&str; 4] = ["сосн", "%", "RIVER", "ов"];
const SORTS: [&str; 6] = ["Name", "-Name", "PriceFrom", "-PriceFrom", "PublishedAt", "-PublishedAt"];

fn filter() -> impl Strategy<Value = RandomFilter> {
    let filters = (
        prop::option::of(0..CITIES.len()),
        prop::option::of(prop::collection::btree_set(0..4_usize, 1..3)),
        prop::option::of(prop::collection::btree_set(0..4_i16, 1..3)),
        (prop::option::of(0..PRICES.len()), prop::option::of(0..PRICES.len())),
        prop::option::of((2026..2029_i16, 1..5_u8)),
        prop::option::weighted(0.2, (0..4_i32, 0..4_i32)),
        prop::option::weighted(0.3, 0..QUERIES.len()),
        prop::option::weighted(0.3, 0..2_usize),
        0..SORTS.len(),
    );
    filters.prop_map(|(city, classes, rooms, (from, to), ready_before, within, query, developer, sort)| {
        let (from, to) = (from.map(|from| PRICES[from]), to.map(|to| PRICES[to]));
        let prices = (from, to.filter(|to| from.is_none_or(|from| from < *to)));
        RandomFilter { city, classes, rooms, prices, ready_before, within, query, developer, sort }
    })
}

/// Generates two developers with projects, buildings and objects.
fn catalog() -> impl Strategy<Value = Catalog> {
    let object = (
        0..KINDS.len(),
        0..STATUSES.len(),
        0..4_i16,
        any::<bool>(),
        0..PRICES.len(),
        prop::bool::weighted(0.1),
    );
    let building =
        (0..3_usize, prop::option::of(2026..2029_i16), prop::option::of(1..5_i16), prop::bool::weighted(0.1));
    let building = (building, prop::collection::vec(object, 0..6));
    let project =
        (0..4_usize, 0..4_usize, 0..4_usize, 0..4_usize, 0..2_usize, prop::option::of((0..4_i32, 0..4_i32)));
    let project = (project, prop::bool::weighted(0.1), prop::collection::vec(building, 0..4));
    (prop::collection::vec(project, 0..8), 0..4_usize).prop_map(|(projects, publicity)| {
        let mut catalog = Catalog {
            developers: vec![
                Developer::new("A"),
                Developer { status: PUBLICITY[publicity], ..Developer::new("B") },
            ],
            ..Catalog::default()
        };
        for (at, ((name, city, class, status, developer, place), is_deleted, buildings)) in
            projects.into_iter().enumerate()
        {
            let project = Project {
                city: CITIES[city].to_owned(),
                class: CLASSES[class],
                status: PUBLICITY[status],
                place: place.map(|(latitude, longitude)| (latitude.into(), longitude.into())),
                is_deleted,
                published_at: i32::try_from(at).unwrap(),
                ..Project::new(&catalog.developers[developer], NAMES[name])
            };
            for (at, ((state, ready_year, ready_quarter, is_deleted), objects)) in
                buildings.into_iter().enumerate()
            {
                let building = Building {
                    state: STATES[state],
                    ready_year,
                    ready_quarter: ready_year.and(ready_quarter),
                    is_deleted,
                    ..Building::new(&project, &at.to_string())
                };
                for (at, (kind, status, rooms, is_studio, price, is_removed)) in
                    objects.into_iter().enumerate()
                {
                    let kind = KINDS[kind];
                    catalog.objects.push(Object {
                        kind,
                        status: if is_removed { "Available" } else { STATUSES[status] },
                        rooms: Some(rooms).filter(|rooms| *rooms > 0),
                        is_studio: is_studio && matches!(kind, "Flat" | "Apartment"),
                        is_removed,
                        ..Object::new(&building, &at.to_string()).at(PRICES[price])
                    });
                }
                catalog.buildings.push(building);
            }
            catalog.projects.push(project);
        }
        catalog
    })
}

impl Building {
    /// Returns the quarter of readiness as a number that increases with time, if there is one.
    fn ready_on(&self) -> Option<i32> {
        if self.state == "Commissioned" {
            return Some(i32::MIN);
        }
        let (year, quarter) = (i32::from(self.ready_year?), i32::from(self.ready_quarter.unwrap_or(4)));
        Some(year * 4 + quarter)
    }
}

impl Object {
    fn is_free(&self) -> bool {
        self.status == "Available" && !self.is_removed
    }

    fn is_free_home(&self) -> bool {
        self.is_free() && matches!(self.kind, "Flat" | "Apartment")
    }

    fn room_category(&self) -> i16 {
        if self.is_studio { 0 } else { self.rooms.unwrap_or(-1) }
    }
}

/// The filter that a list of facets ignores.
#[derive(Clone, Copy, PartialEq)]
enum IgnoredFilter {
    None,
    City,
    Class,
}

impl RandomFilter {
    /// Compares quarters, because `ReadyBefore` of the test is the first day of a quarter.
    fn is_ready(&self, building: &Building) -> bool {
        let before = self.ready_before.map(|(year, quarter)| i32::from(year) * 4 + i32::from(quarter));
        before.is_none_or(|before| building.ready_on().is_some_and(|ready| ready < before))
    }

    fn query(&self, developers: &[Developer]) -> String {
        let mut query = Vec::new();
        query.extend(self.city.map(|city| format!("City={}", encoded(&CITIES[city].to_lowercase()))));
        query.extend(self.classes.as_ref().map(|classes| {
            format!("Class={}", classes.iter().map(|class| CLASSES[*class]).collect::<Vec<_>>().join(","))
        }));
        query.extend(self.rooms.as_ref().map(|rooms| {
            format!("Rooms={}", rooms.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
        }));
        query.extend(self.prices.0.map(|from| format!("PriceFrom={from}")));
        query.extend(self.prices.1.map(|to| format!("PriceTo={to}")));
        query.extend(
            self.ready_before.map(|(year, quarter)| format!("ReadyBefore={year}-{:02}-01", quarter * 3 - 2)),
        );
        query.extend(self.within.map(|(latitude, longitude)| format!("Box=0,0,{latitude},{longitude}")));
        query.extend(self.query.map(|query| format!("Query={}", encoded(QUERIES[query]))));
        query.extend(self.developer.map(|developer| format!("DeveloperId={}", developers[developer].id)));
        query.join("&")
    }
}

struct Model<'c>(&'c Catalog);

impl<'c> Model<'c> {
    fn buildings(&self, project: &Project) -> impl Iterator<Item = &'c Building> {
        let id = project.id;
        self.0.buildings.iter().filter(move |building| building.project == id && !building.is_deleted)
    }

    fn objects(&self, building: &Building) -> impl Iterator<Item = &'c Object> {
        let id = building.id;
        self.0.objects.iter().filter(move |object| object.building == id)
    }

    fn homes(&self, project: &Project) -> Vec<(&'c Building, &'c Object)> {
        let buildings = self.buildings(project);
        let homes =
            buildings.flat_map(|building| self.objects(building).map(move |object| (building, object)));
        homes.filter(|(_, object)| object.is_free_home()).collect()
    }

    /// Returns the room categories of the homes that match by price and readiness.
    fn matching_categories(&self, project: &Project, filter: &RandomFilter) -> BTreeSet<i16> {
        let (from, to) = filter.prices;
        let homes = self.homes(project).into_iter().filter(|(building, home)| {
            filter.is_ready(building)
                && from.is_none_or(|from| home.price >= from)
                && to.is_none_or(|to| home.price < to)
        });
        homes.map(|(_, home)| home.room_category()).collect()
    }

    fn found(&self, filter: &RandomFilter, ignored: IgnoredFilter) -> Vec<&'c Project> {
        let has_home_filter = filter.rooms.is_some() || filter.prices != (None, None);
        let found = self.candidates(filter, ignored).into_iter().filter(|project| {
            if has_home_filter {
                let categories = self.matching_categories(project, filter);
                filter.rooms.as_ref().map_or(!categories.is_empty(), |rooms| !rooms.is_disjoint(&categories))
            } else {
                filter.ready_before.is_none()
                    || self.buildings(project).any(|building| filter.is_ready(building))
            }
        });
        found.collect()
    }

    /// Returns the visible projects that match by all filters except those of homes and readiness.
    fn candidates(&self, filter: &RandomFilter, ignored: IgnoredFilter) -> Vec<&'c Project> {
        let found = self.0.projects.iter().filter(|project| {
            let developer =
                self.0.developers.iter().find(|developer| developer.id == project.developer).unwrap();
            let city = |city: &str| values::fold(city) == values::fold(&project.city);
            let class = |class: &usize| CLASSES[*class] == project.class;
            let edge = |(latitude, longitude): (f64, f64), (north, east): (i32, i32)| {
                latitude <= f64::from(north) && longitude <= f64::from(east)
            };
            project.status == "Published"
                && !project.is_deleted
                && developer.status == "Published"
                && filter
                    .developer
                    .is_none_or(|developer| self.0.developers[developer].id == project.developer)
                && filter
                    .query
                    .is_none_or(|query| values::fold(&project.name).contains(&values::fold(QUERIES[query])))
                && filter.within.is_none_or(|within| project.place.is_some_and(|place| edge(place, within)))
                && (ignored == IgnoredFilter::City || filter.city.is_none_or(|at| city(CITIES[at])))
                && (ignored == IgnoredFilter::Class
                    || filter.classes.as_ref().is_none_or(|classes| classes.iter().any(class)))
        });
        found.collect()
    }

    fn price_from(&self, project: &Project) -> Option<i64> {
        self.homes(project).iter().map(|(_, home)| home.price).min()
    }

    /// Returns the numbers of a project in the list.
    fn numbers(&self, project: &Project) -> Value {
        let homes = self.homes(project);
        let rub = |amount: i64| json!({"AmountMinor": amount, "Currency": "RUB"});
        let mut offers: BTreeMap<i16, Vec<i64>> = BTreeMap::new();
        for (_, home) in &homes {
            // Homes without a number of rooms are last.
            let rooms = if home.room_category() < 0 { i16::MAX } else { home.room_category() };
            offers.entry(rooms).or_default().push(home.price);
        }
        let offers = offers.into_iter().map(|(rooms, prices)| {
            let rooms = (rooms < i16::MAX).then_some(rooms);
            json!({"Rooms": rooms, "FreeCount": prices.len(), "PriceFrom": rub(*prices.iter().min().unwrap())})
        });
        let all: Vec<_> = self.buildings(project).flat_map(|building| self.objects(building)).collect();
        let free = |kind: &str| all.iter().filter(|object| object.is_free() && object.kind == kind).count();
        json!({
            "PriceFrom": self.price_from(project).map(rub), "FreeCount": homes.len(), "Offers": offers.collect::<Vec<_>>(),
            "FreeByKind": {
                "Flat": free("Flat"), "Apartment": free("Apartment"), "Parking": free("Parking"),
                "Storage": free("Storage"), "Commercial": free("Commercial"),
            },
        })
    }

    fn sorted(&self, filter: &RandomFilter) -> Vec<&'c Project> {
        let mut found = self.found(filter, IgnoredFilter::None);
        found.sort_by_key(|project| project.id);
        match SORTS[filter.sort] {
            "Name" => found.sort_by_key(|project| values::fold(&project.name)),
            "-Name" => found.sort_by_key(|project| Reverse(values::fold(&project.name))),
            "PublishedAt" => found.sort_by_key(|project| project.published_at),
            "-PublishedAt" => found.sort_by_key(|project| -project.published_at),
            "PriceFrom" => found.sort_by_key(|project| self.price_from(project).unwrap_or(i64::MAX)),
            _ => found.sort_by_key(|project| self.price_from(project).map_or(i64::MAX, |price| -price)),
        }
        found
    }

    fn facets(&self, filter: &RandomFilter) -> Value {
        let found = self.found(filter, IgnoredFilter::None);
        let prices: Vec<_> =
            found.iter().flat_map(|project| self.homes(project)).map(|(_, home)| home.price).collect();
        let rub = |amount: &i64| json!({"AmountMinor": amount, "Currency": "RUB"});
        let mut cities: BTreeMap<String, BTreeMap<&str, usize>> = BTreeMap::new();
        for project in self.found(filter, IgnoredFilter::City) {
            *cities.entry(values::fold(&project.city)).or_default().entry(&project.city).or_default() += 1;
        }
        let mut cities: Vec<_> = cities
            .into_values()
            .map(|spellings| {
                let most = spellings.values().max().unwrap();
                let first = spellings.iter().find(|(_, count)| *count == most).unwrap().0.to_string();
                (spellings.values().sum::<usize>(), first)
            })
            .collect();
        cities.sort_by_key(|(count, _)| usize::MAX - count);
        let classes = self.found(filter, IgnoredFilter::Class);
        let classes = CLASSES.iter().filter_map(|class| {
            let count = classes.iter().filter(|project| project.class == *class).count();
            (count > 0).then(|| json!({"Class": class, "ProjectsCount": count}))
        });
        let candidates = self.candidates(filter, IgnoredFilter::None);
        let rooms = (0..=20_i16).filter_map(|rooms| {
            let count = candidates
                .iter()
                .filter(|project| self.matching_categories(project, filter).contains(&rooms))
                .count();
            (count > 0).then(|| json!({"Rooms": rooms, "ProjectsCount": count}))
        });
        let cities = cities.into_iter().map(|(count, city)| json!({"City": city, "ProjectsCount": count}));
        json!({
            "TotalCount": found.len(), "PriceMin": prices.iter().min().map(rub), "PriceMax": prices.iter().max().map(rub),
            "Cities": cities.collect::<Vec<_>>(), "Classes": classes.collect::<Vec<_>>(), "Rooms": rooms.collect::<Vec<_>>(),
        })
    }
}

async fn insert_and_compare(service: &Running, catalog: &Catalog, filters: &[RandomFilter]) {
    let sql = service.sql().await;
    sql.batch_execute(
        "delete from property_object; delete from building_figures; delete from project_figures; delete from building; \
        delete from project_figures_change; delete from project; \
        delete from developer where id not in (select developer_id from developer_log)",
    )
    .await
    .unwrap();
    catalog.insert(&sql).await;
    compare(service, catalog, filters).await;
}

/// Compares the responses of the service with the model.
async fn compare(service: &Running, catalog: &Catalog, filters: &[RandomFilter]) {
    let sql = service.sql().await;
    let (model, guest) = (Model(catalog), service.guest());
    for (at, filter) in filters.iter().enumerate() {
        // The job adds up one more project with each query, so reads use stored and pending
        // figures.
        let renew = "select renew_project_figures($1)";
        sql.execute(renew, &[&i64::try_from(at).unwrap()]).await.unwrap();
        let query = filter.query(&catalog.developers);
        let page = guest
            .get(&format!("{PROJECTS}?PageSize=100&Sort={}&{query}", SORTS[filter.sort]))
            .await
            .expect(200);
        let sorted = model.sorted(filter);
        let ids: Vec<_> = sorted.iter().map(|project| project.id.to_string()).collect();
        assert_eq!(each(&page["Items"], "Id").into_iter().map(text).collect::<Vec<_>>(), ids, "{query}");
        assert_eq!(page["TotalCount"], ids.len(), "{query}");
        for (item, project) in list(&page["Items"]).iter().zip(sorted) {
            for (member, value) in model.numbers(project).as_object().unwrap() {
                assert_eq!(&item[member], value, "{member} of {project:?}");
            }
        }
        let facets = guest.get(&format!("{PROJECTS}/facets?{query}")).await.expect(200);
        assert_eq!(facets, model.facets(filter), "{query}");
    }
    assert_eq!(count_wrong_figures(&sql).await, 0);
}

/// RULE-CHS-048: lists and facets equal those of a plain model, over random catalogs and filters.
#[test]
fn lists_and_facets_match_model() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let service = tokio.block_on(async {
        let service = start_with_catalog(&single_object_catalog()).await;
        wait_for_index(&service.operator()).await;
        service
    });
    match_model(&tokio, &service, 60);
}

/// RULE-CHS-048: lists and facets equal those of a plain model without the catalog index, too.
#[test]
fn lists_and_facets_without_index_match_model() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let service = tokio.block_on(async {
        let settings = [("GUEST_READS_PER_MINUTE", "0"), ("CATALOG_INDEX_MIB", "0")];
        let service = DedicatedService::start::<Service>(&settings);
        single_object_catalog().fill(&service).await;
        service
    });
    match_model(&tokio, &service, 30);
}

fn match_model(tokio: &Runtime, service: &Running, cases: u32) {
    let cases = Config { cases, failure_persistence: None, ..Config::default() };
    let inputs = (catalog(), prop::collection::vec(filter(), 8));
    let result = TestRunner::new(cases).run(&inputs, |(catalog, filters)| {
        tokio.block_on(insert_and_compare(service, &catalog, &filters));
        Ok(())
    });
    result.unwrap();
}

/// RULE-CHS-048: lists and facets equal the model for a catalog that a manager writes over HTTP,
/// with objects that deals hold.
#[test]
fn lists_and_facets_of_written_catalog_match_model() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let service = tokio.block_on(start_with_catalog(&Catalog::default()));
    // A failed case leaves its rows in the database. Shrinking is off, because it would find
    // failures with other causes.
    let cases = Config { cases: 8, max_shrink_iters: 0, failure_persistence: None, ..Config::default() };
    let inputs = (catalog(), prop::collection::vec(filter(), 8));
    let result = TestRunner::new(cases).run(&inputs, |(mut catalog, filters)| {
        tokio.block_on(async {
            let written = WrittenCatalog::write(&service, &mut catalog).await;
            compare(&service, &catalog, &filters).await;
            written.hide().await;
        });
        Ok(())
    });
    result.unwrap();
}
