//! Compares responses with their declarations, in debug builds only, so that the API's description stays true.

use super::{ResponseBody, RouteSpec};
use crate::{Problem, body};
use axum::{
    body::{Body, HttpBody, to_bytes},
    response::Response,
};
use onceward_envelope::SchemaRegistry;

/// Returns the response unchanged.
///
/// # Panics
/// If the route declares its responses and this one is not among them or violates its schema. Problems and rejections
/// by extractors are not declared.
pub(crate) async fn assert_declared(spec: &RouteSpec, schemas: &SchemaRegistry, response: Response) -> Response {
    let status = response.status();
    let with_status = spec.responses.iter().filter(|response| response.status == status.as_u16());
    let declared: Vec<&ResponseBody> = with_status.map(|response| &response.body).collect();
    let is_error = status.is_client_error() || status.is_server_error();
    if spec.responses.is_empty() || response.extensions().get::<Problem>().is_some() || is_error && declared.is_empty()
    {
        return response;
    }
    let media_type = body::media_type(response.headers());
    let route = format!("{} {}", spec.method, spec.path);
    let matching = declared.iter().find(|body| match body {
        ResponseBody::Empty => response.body().size_hint().exact() == Some(0),
        ResponseBody::Json(_) => media_type == "application/json",
        ResponseBody::Media(declared) => media_type == *declared,
    });
    match matching {
        None => {
            panic!("{route} responded with {status} and {media_type:?}; declare this response, or correct the handler")
        }
        Some(ResponseBody::Json(schema_id)) => assert_valid(&route, schema_id, schemas, response).await,
        Some(ResponseBody::Empty | ResponseBody::Media(_)) => response,
    }
}

async fn assert_valid(route: &str, schema_id: &str, schemas: &SchemaRegistry, response: Response) -> Response {
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.expect("a JSON response is in memory");
    let value =
        serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{route} responded with no JSON: {error}"));
    if let Err(error) = schemas.validate(schema_id, &value) {
        panic!(
            "{route} responded with {} and an undeclared body: {error}; correct the schema or the handler",
            parts.status
        );
    }
    Response::from_parts(parts, Body::from(bytes))
}
