//! The rejection of requests that match no route, or only a route with another method.

use actix_router::ResourceDef;
use actix_web::http::Method;
use actix_web::{HttpRequest, HttpResponse, web};
use utoipa::openapi::Paths;
use utoipa::openapi::path::PathItem;

use crate::openapi::operations::operations;
use crate::response::problem::Problem;

/// The documented paths with their methods, which distinguish 404 from 405.
pub(super) struct KnownRoutes(Vec<(ResourceDef, Vec<Method>)>);

impl KnownRoutes {
    pub(super) fn from_paths(paths: &Paths) -> Self {
        let methods = |item: &PathItem| operations(&mut item.clone()).map(|(method, _)| method).collect();
        let known = paths.paths.iter().map(|(path, item)| (ResourceDef::new(path.as_str()), methods(item)));
        Self(known.collect())
    }

    /// Returns the methods of all routes that match `path`, each once.
    ///
    /// A path can match several routes: `/posts/mine` also matches `/posts/{id}`.
    fn allowed_methods(&self, path: &str) -> Vec<Method> {
        let matching = self.0.iter().filter(|(route, _)| route.is_match(path));
        matching.flat_map(|(_, methods)| methods).fold(Vec::new(), |mut allowed, method| {
            if !allowed.contains(method) {
                allowed.push(method.clone());
            }
            allowed
        })
    }
}

pub(super) async fn reject_unmatched(
    request: HttpRequest,
    routes: web::Data<KnownRoutes>,
) -> Result<HttpResponse, Problem> {
    let allowed = routes.allowed_methods(request.path());
    Err(if allowed.is_empty() { Problem::not_found() } else { Problem::method_not_allowed(allowed) })
}
