//! Requests that no route matches.

use actix_router::ResourceDef;
use actix_web::http::Method;
use actix_web::{HttpRequest, HttpResponse, web};
use utoipa::openapi::Paths;
use utoipa::openapi::path::PathItem;

use crate::openapi::operations::operations;
use crate::response::problem::Problem;

/// Every documented path with its methods, to tell an unknown route from a wrong method.
pub(super) struct KnownRoutes(Vec<(ResourceDef, Vec<Method>)>);

impl KnownRoutes {
    pub(super) fn of(paths: &Paths) -> Self {
        let methods = |item: &PathItem| operations(&mut item.clone()).map(|(method, _)| method).collect();
        let known = paths.paths.iter().map(|(path, item)| (ResourceDef::new(path.as_str()), methods(item)));
        Self(known.collect())
    }

    /// Each method once: a path may be an operation's own, and fit another's parameter.
    fn allowed(&self, path: &str) -> Vec<Method> {
        let fitting = self.0.iter().filter(|(route, _)| route.is_match(path));
        fitting.flat_map(|(_, methods)| methods).fold(Vec::new(), |mut allowed, method| {
            if !allowed.contains(method) {
                allowed.push(method.clone());
            }
            allowed
        })
    }
}

pub(super) async fn unmatched(
    request: HttpRequest,
    routes: web::Data<KnownRoutes>,
) -> Result<HttpResponse, Problem> {
    let allowed = routes.allowed(request.path());
    Err(if allowed.is_empty() { Problem::not_found() } else { Problem::method_not_allowed(allowed) })
}
