//! What is written down is what is served: the contracts, and the table of the README.

use std::fs;
use std::path::Path;

use news::Service;
use runtime::{Env, Service as _, telemetry};
use testkit::breaking;

use crate::service;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_openapi_document_is_the_one_that_is_served() {
    assert!(
        read("../../contracts/openapi/news.yaml") == Service::contracts().unwrap().openapi,
        "run `cargo dev contracts`"
    );
}

#[test]
fn the_asyncapi_document_is_the_one_that_is_published() {
    assert!(
        read("../../contracts/asyncapi/news.yaml") == Service::contracts().unwrap().asyncapi,
        "run `cargo dev contracts`"
    );
}

/// Contracts grow by addition: what was released holds as long as there is anybody who relies on it.
#[test]
fn nothing_that_was_released_has_been_taken_back() {
    let present = Service::contracts().unwrap();
    for (kind, present) in [("openapi", present.openapi), ("asyncapi", present.asyncapi)] {
        let released = read(&format!("../../contracts/released/{kind}/news.yaml"));
        assert_eq!(breaking::changes(&released, &present), [""; 0], "{kind}");
    }
}

/// Conventions, API page: it comes from the service alone, and the local stack's sign-in does not.
#[tokio::test]
async fn the_api_page_loads_nothing_from_elsewhere() {
    testkit::page::check(service()).await;
}

/// Every variable that the service reads, with its default, has its row in the README.
#[test]
fn the_readme_tells_every_setting() {
    let mut env = Env::new(|_| None);
    telemetry::Config::read(&mut env);
    Service::configure(&mut env);
    let readme = read("README.md");
    for variable in env.variables() {
        let default = match variable.default.as_deref() {
            None => "required".to_owned(),
            Some("") => "none".to_owned(),
            Some(default) => format!("`{default}`"),
        };
        let row = format!("| `{}` | {default} | {} |", variable.name, variable.about);
        assert!(readme.contains(&row), "the README lacks\n{row}");
    }
}
