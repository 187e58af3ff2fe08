//! Checks the declared routes of all services before anything is served.

use super::Routes;
use crate::{ProblemCode, app::PLATFORM_PATHS, problem::codes};
use onceward_envelope::SchemaRegistry;
use std::collections::{BTreeMap, BTreeSet};

/// A declaration that cannot be served. It is reported when services are assembled, not to a caller.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// Two routes are the same.
    #[error("service {service} declares {method} {path}, which is already declared; choose another path")]
    DuplicateRoute {
        /// The service that declares it second.
        service: String,
        /// The method.
        method: String,
        /// The path.
        path: String,
    },
    /// Two paths differ only in the names of their parameters.
    #[error(
        "service {service} declares {path}, but the same path is declared as {first}; use the same parameter names"
    )]
    ConflictingPath {
        /// The service that declares it second.
        service: String,
        /// The path.
        path: String,
        /// The path that was declared first.
        first: String,
    },
    /// A path is not absolute.
    #[error("service {service} declares the path {path:?}; begin it with a slash")]
    RelativePath {
        /// The service.
        service: String,
        /// The path.
        path: String,
    },
    /// A route names a schema that is not registered.
    #[error(
        "service {service}: {method} {path} names the schema {schema_id}, which is not registered; add it to the service's schemas"
    )]
    UnknownSchema {
        /// The service.
        service: String,
        /// The method.
        method: String,
        /// The path.
        path: String,
        /// The schema's `$id`.
        schema_id: String,
    },
    /// Two problem codes have the same name.
    #[error("service {service} declares the problem code {code}, which is already declared; choose another name")]
    DuplicateProblem {
        /// The service that declares it second.
        service: String,
        /// The code.
        code: &'static str,
    },
    /// The page of a problem code has another heading than the code.
    #[error("{owner}: the page of the problem code {code} must begin with the line {heading:?}")]
    ProblemHeading {
        /// The service, or `the platform`.
        owner: String,
        /// The code.
        code: &'static str,
        /// The expected first line.
        heading: String,
    },
}

/// Returns every mistake in the routes of `services`. [`crate::build_router`] serves only routes without any.
pub fn check(services: &[(&'static str, Routes)], schemas: &SchemaRegistry) -> Vec<RouteError> {
    let mut errors = Vec::new();
    check_paths(services, &mut errors);
    check_schemas(services, schemas, &mut errors);
    check_problems(services, &mut errors);
    errors
}

fn check_paths(services: &[(&'static str, Routes)], errors: &mut Vec<RouteError>) {
    let mut declared: BTreeSet<(String, String)> =
        PLATFORM_PATHS.iter().map(|path| ("GET".to_owned(), (*path).to_owned())).collect();
    let mut paths: BTreeMap<String, String> =
        PLATFORM_PATHS.iter().map(|path| (without_names(path), (*path).to_owned())).collect();
    for (service, routes) in services {
        for spec in routes.specs() {
            let (service, method, path) = ((*service).to_owned(), spec.method.to_string(), spec.path.clone());
            let first = paths.entry(without_names(&path)).or_insert_with(|| path.clone());
            if !path.starts_with('/') {
                errors.push(RouteError::RelativePath { service, path });
            } else if *first != path {
                errors.push(RouteError::ConflictingPath { service, path, first: first.clone() });
            } else if !declared.insert((method.clone(), path.clone())) {
                errors.push(RouteError::DuplicateRoute { service, method, path });
            }
        }
    }
}

/// Removes the names of parameters, which do not distinguish paths: `/a/{id}` becomes `/a/{}`.
fn without_names(path: &str) -> String {
    let segments = path.split('/').map(|segment| match segment.strip_prefix('{') {
        Some(name) if name.starts_with('*') => "{*}",
        Some(_) => "{}",
        None => segment,
    });
    segments.collect::<Vec<_>>().join("/")
}

fn check_schemas(services: &[(&'static str, Routes)], schemas: &SchemaRegistry, errors: &mut Vec<RouteError>) {
    for (service, routes) in services {
        for spec in routes.specs() {
            let unknown = spec.schema_ids().filter(|schema_id| !schemas.contains(schema_id));
            errors.extend(unknown.map(|schema_id| RouteError::UnknownSchema {
                service: (*service).to_owned(),
                method: spec.method.to_string(),
                path: spec.path.clone(),
                schema_id: schema_id.to_owned(),
            }));
        }
    }
}

fn check_problems(services: &[(&'static str, Routes)], errors: &mut Vec<RouteError>) {
    errors.extend(codes::ALL.iter().filter_map(|code| wrong_heading("the platform", code)));
    let mut declared: BTreeSet<&str> = codes::ALL.iter().map(|code| code.code).collect();
    for (service, routes) in services {
        for code in &routes.problems {
            if !declared.insert(code.code) {
                errors.push(RouteError::DuplicateProblem { service: (*service).to_owned(), code: code.code });
            }
            errors.extend(wrong_heading(&format!("service {service}"), code));
        }
    }
}

fn wrong_heading(owner: &str, code: &ProblemCode) -> Option<RouteError> {
    let heading = format!("# {} ({})", code.title, code.status);
    let is_right = code.page.lines().next() == Some(heading.as_str());
    (!is_right).then(|| RouteError::ProblemHeading { owner: owner.to_owned(), code: code.code, heading })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Problem};

    async fn handler() -> Problem {
        Problem::new(codes::NOT_FOUND)
    }

    fn errors(services: Vec<(&'static str, Routes)>) -> Vec<String> {
        check(&services, &SchemaRegistry::default()).iter().map(ToString::to_string).collect()
    }

    fn route(path: &str) -> Routes {
        Routes::new().get(path, Access::public(), handler)
    }

    #[test]
    fn platform_itself_has_no_mistakes() {
        assert_eq!(errors(Vec::new()), Vec::<String>::new());
    }

    #[test]
    fn every_mistake_of_every_service_is_reported() {
        let ours = ProblemCode::new("internal", 500, "Ours", "# Theirs (500)");
        let found = errors(vec![
            ("a", route("/api/x").responds(200, "nothing.v1").problems(&[ours])),
            ("b", route("/api/x").get("/metrics", Access::public(), handler).get("api", Access::public(), handler)),
        ]);
        for expected in [
            "service a: GET /api/x names the schema nothing.v1",
            "service a declares the problem code internal, which is already declared",
            "service a: the page of the problem code internal must begin with the line \"# Ours (500)\"",
            "service b declares GET /api/x, which is already declared",
            "service b declares GET /metrics, which is already declared",
            "service b declares the path \"api\"; begin it with a slash",
        ] {
            assert!(found.iter().any(|error| error.starts_with(expected)), "{expected} is not in {found:#?}");
        }
        assert_eq!(found.len(), 6, "{found:#?}");
    }

    #[test]
    fn parameters_of_one_path_have_one_name() {
        let found = errors(vec![("a", route("/api/{id}/lines")), ("b", route("/api/{order}/lines"))]);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].contains("is declared as /api/{id}/lines"), "{found:#?}");
        assert!(errors(vec![("a", route("/api/{id}").get("/api/{*rest}", Access::public(), handler))]).is_empty());
    }
}
