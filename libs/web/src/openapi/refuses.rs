//! What an operation may refuse, declared where it is routed:
//! `routes.service(update_selection.refuses([NOT_FOUND, CONFLICT]))`.

use actix_web::dev::{AppService, HttpServiceFactory};
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::path::Paths;
use utoipa::openapi::{RefOr, Schema};
use utoipa_actix_web::OpenApiFactory;
use values::Code;

use crate::openapi::operations::operations;
use crate::response::problem::Problem;
use crate::response::refusal::Refusal;

/// Carries the refusals from here to the document, which has the words for them and leaves it out.
const TRANSIT: &str = "x-refusals";

/// The refusals that an operation was routed with.
pub(crate) fn take(extensions: &mut Option<Extensions>) -> Vec<Refusal> {
    let Some(found) = extensions.as_mut().and_then(|extensions| extensions.remove(TRANSIT)) else {
        return Vec::new();
    };
    extensions.take_if(|extensions| extensions.is_empty());
    serde_json::from_value(found).unwrap_or_default()
}

/// An operation with what it may refuse, beside what follows from its shape.
pub struct Refusing<T> {
    operation: T,
    refusals: Vec<Refusal>,
}

/// Every operation of a service.
pub trait Refuses: HttpServiceFactory + OpenApiFactory + Sized {
    /// Documents the codes: each with its status and its words.
    fn refuses(self, codes: impl IntoIterator<Item = Code>) -> Refusing<Self> {
        let refusals = codes.into_iter().map(|code| Refusal::from(Problem::from(code).details()));
        Refusing { operation: self, refusals: refusals.collect() }
    }
}

impl<T: HttpServiceFactory + OpenApiFactory> Refuses for T {}

impl<T: HttpServiceFactory> HttpServiceFactory for Refusing<T> {
    fn register(self, config: &mut AppService) {
        self.operation.register(config);
    }
}

impl<T: OpenApiFactory> OpenApiFactory for Refusing<T> {
    fn paths(&self) -> Paths {
        let mut paths = self.operation.paths();
        for (_, operation) in paths.paths.values_mut().flat_map(operations) {
            let inner = take(&mut operation.extensions);
            let refusals: Vec<_> = inner.iter().chain(&self.refusals).collect();
            let refusals = serde_json::to_value(refusals).unwrap_or_default();
            operation.extensions.get_or_insert_default().insert(TRANSIT.to_owned(), refusals);
        }
        paths
    }

    fn schemas(&self, schemas: &mut Vec<(String, RefOr<Schema>)>) {
        self.operation.schemas(schemas);
    }
}
