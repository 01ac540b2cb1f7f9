//! The refusals and the callers of an operation, declared at its route:
//! `routes.service(update_post.requires::<Permitted<EditPosts>>().refuses([NOT_FOUND, CONFLICT]))`.

use actix_web::dev::{AppService, HttpServiceFactory};
use serde_json::Value;
use utoipa::openapi::extensions::Extensions;
use utoipa::openapi::path::Paths;
use utoipa::openapi::{RefOr, Schema};
use utoipa_actix_web::OpenApiFactory;
use values::Code;

use crate::openapi::operations::operations;
use crate::response::problem::Problem;
use crate::response::refusal::Refusal;

/// The extension that carries refusals to the document. The document replaces it with responses.
const REFUSALS_EXTENSION: &str = "x-refusals";

/// The extension with the permissions of an operation. One of them is enough.
pub(crate) const PERMISSION_EXTENSION: &str = "x-permission";

/// The extension that says in words who may call an operation.
pub(crate) const CALLERS_EXTENSION: &str = "x-callers";

/// Removes the refusals that a route declares from its extensions, and returns them.
pub(crate) fn take_refusals(extensions: &mut Option<Extensions>) -> Vec<Refusal> {
    let Some(refusals) = extensions.as_mut().and_then(|extensions| extensions.remove(REFUSALS_EXTENSION))
    else {
        return Vec::new();
    };
    extensions.take_if(|extensions| extensions.is_empty());
    serde_json::from_value(refusals).unwrap_or_default()
}

/// An operation with the refusals that its route declares.
pub struct WithRefusals<T> {
    operation: T,
    refusals: Vec<Refusal>,
}

/// A requirement on the permissions of a caller.
pub trait Requirement {
    /// Returns the permissions in the notation of tokens. One of them is enough.
    fn any_of() -> Vec<String>;
}

/// An operation with the callers that its route declares.
pub struct WithCallers<T> {
    operation: T,
    extension: &'static str,
    callers: Value,
}

/// Declares the callers and the refusals of an operation.
pub trait OperationExt: HttpServiceFactory + OpenApiFactory + Sized {
    /// Declares the requirement of the handler, for the document.
    fn requires<P: Requirement>(self) -> WithCallers<Self> {
        WithCallers { operation: self, extension: PERMISSION_EXTENSION, callers: P::any_of().into() }
    }

    /// Declares who may call an operation, if that depends on its data. An example is
    /// `"members of the chat"`.
    fn admits(self, callers: &'static str) -> WithCallers<Self> {
        WithCallers { operation: self, extension: CALLERS_EXTENSION, callers: callers.into() }
    }

    /// Declares `codes`, each with its status and its messages.
    fn refuses(self, codes: impl IntoIterator<Item = Code>) -> WithRefusals<Self> {
        let refusals = codes.into_iter().map(|code| Refusal::from(Problem::from(code).details()));
        WithRefusals { operation: self, refusals: refusals.collect() }
    }
}

impl<T: HttpServiceFactory + OpenApiFactory> OperationExt for T {}

impl<T: HttpServiceFactory> HttpServiceFactory for WithRefusals<T> {
    fn register(self, config: &mut AppService) {
        self.operation.register(config);
    }
}

impl<T: OpenApiFactory> OpenApiFactory for WithRefusals<T> {
    fn paths(&self) -> Paths {
        let mut paths = self.operation.paths();
        for (_, operation) in paths.paths.values_mut().flat_map(operations) {
            let declared = take_refusals(&mut operation.extensions);
            let refusals: Vec<_> = declared.iter().chain(&self.refusals).collect();
            let refusals = serde_json::to_value(refusals).unwrap_or_default();
            operation.extensions.get_or_insert_default().insert(REFUSALS_EXTENSION.to_owned(), refusals);
        }
        paths
    }

    fn schemas(&self, schemas: &mut Vec<(String, RefOr<Schema>)>) {
        self.operation.schemas(schemas);
    }
}

impl<T: HttpServiceFactory> HttpServiceFactory for WithCallers<T> {
    fn register(self, config: &mut AppService) {
        self.operation.register(config);
    }
}

impl<T: OpenApiFactory> OpenApiFactory for WithCallers<T> {
    fn paths(&self) -> Paths {
        let mut paths = self.operation.paths();
        for (_, operation) in paths.paths.values_mut().flat_map(operations) {
            let extensions = operation.extensions.get_or_insert_default();
            extensions.insert(self.extension.to_owned(), self.callers.clone());
        }
        paths
    }

    fn schemas(&self, schemas: &mut Vec<(String, RefOr<Schema>)>) {
        self.operation.schemas(schemas);
    }
}
