//! From the bytes of a request body to a checked value: size, content type, JSON, NUL, schema, type. Each check has its
//! own problem.

use crate::{FieldError, Problem, problem::codes};
use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, header},
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use onceward_envelope::{SchemaError, SchemaRegistry, nul};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Returns the whole body if it is within `limit`. A larger declared length is rejected before a byte is read.
pub(crate) async fn read(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Problem> {
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| length > limit as u64) {
        return Err(too_large(limit));
    }
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large(limit)),
        Err(error) => {
            Err(Problem::new(codes::INVALID_REQUEST).detail("The body ended early. Send it again.").caused_by(error))
        }
    }
}

/// Parses a JSON body as `B`. Fails with a problem if the bytes are not JSON, contain the character U+0000, which
/// PostgreSQL cannot store, or do not have the form of `B`.
pub fn parse_json<B: DeserializeOwned>(bytes: &[u8]) -> Result<B, Problem> {
    deserialize(parse(bytes)?)
}

/// Like [`parse_json`], for a body that must also be valid under `schema_id`.
pub fn parse_valid_json<B: DeserializeOwned>(
    bytes: &[u8],
    schema_id: &str,
    schemas: &SchemaRegistry,
) -> Result<B, Problem> {
    let value = parse(bytes)?;
    schemas.validate(schema_id, &value).map_err(invalid)?;
    deserialize(value)
}

/// Returns a command's body as the handler's type. Without a declared schema, an empty body is `null`.
pub(crate) fn parse_command<B: DeserializeOwned>(
    headers: &HeaderMap,
    bytes: &[u8],
    schema_id: Option<&str>,
    schemas: &SchemaRegistry,
) -> Result<B, Problem> {
    if bytes.is_empty() && schema_id.is_none() {
        return deserialize(Value::Null);
    }
    if !is_json(headers) {
        return Err(
            Problem::new(codes::UNSUPPORTED_MEDIA_TYPE).detail("Send JSON, with `Content-Type: application/json`.")
        );
    }
    match schema_id {
        Some(schema_id) => parse_valid_json(bytes, schema_id, schemas),
        None => parse_json(bytes),
    }
}

fn parse(bytes: &[u8]) -> Result<Value, Problem> {
    let value = serde_json::from_slice(bytes).map_err(|error| {
        Problem::new(codes::INVALID_JSON).detail(format!("The body could not be parsed as JSON: {error}."))
    })?;
    match nul::path_in_value(&value) {
        None => Ok(value),
        Some(path) => Err(Problem::new(codes::VALIDATION_FAILED)
            .detail("The body contains the NUL character, which cannot be stored.")
            .error(path, "must not contain the character U+0000")),
    }
}

fn deserialize<B: DeserializeOwned>(value: Value) -> Result<B, Problem> {
    serde_json::from_value(value).map_err(|error| {
        Problem::new(codes::VALIDATION_FAILED)
            .detail("The body does not have the form that this route expects.")
            .error("", error.to_string())
    })
}

/// Returns the declared media type without parameters; empty if none is declared.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    value.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

/// Returns whether the content type is `application/json` or has the `+json` suffix.
fn is_json(headers: &HeaderMap) -> bool {
    let essence = media_type(headers);
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn too_large(limit: usize) -> Problem {
    Problem::new(codes::BODY_TOO_LARGE).detail(format!("The limit is {limit} bytes. Send less."))
}

fn invalid(error: SchemaError) -> Problem {
    match error {
        SchemaError::Violations { violations, .. } => Problem::new(codes::VALIDATION_FAILED)
            .detail("The body violates this route's schema; `errors` lists the violations.")
            .errors(violations.into_iter().map(FieldError::from)),
        unknown => Problem::internal(unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn with_type(content_type: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers
    }

    #[test]
    fn json_is_known_by_its_media_type() {
        assert!(is_json(&with_type("application/json")));
        assert!(is_json(&with_type("Application/JSON; charset=utf-8")));
        assert!(is_json(&with_type("application/cloudevents+json")));
        assert!(!is_json(&with_type("text/plain")));
        assert!(!is_json(&with_type("application/jsonp")));
        assert!(!is_json(&HeaderMap::new()));
    }

    fn document(problem: &Problem) -> String {
        String::from_utf8(problem.document(None, None)).unwrap()
    }

    #[test]
    fn a_parse_error_names_line_and_column() {
        let problem = parse_json::<Value>(b"{\n  \"a\": }").unwrap_err();
        assert!(document(&problem).contains("line 2 column 8"), "{}", document(&problem));
    }

    #[test]
    fn a_nul_character_is_refused_by_its_path_and_text_that_looks_like_one_is_not() {
        let problem = parse_json::<Value>(br#"{"lines": [{"text": "a\u0000b"}]}"#).unwrap_err();
        assert!(document(&problem).contains(r#""path":"/lines/0/text""#), "{}", document(&problem));
        assert!(parse_json::<Value>(br#"{"a\u0000b": 1}"#).is_err());
        assert!(parse_json::<Value>(br#"{"text": "\\u0000"}"#).is_ok());
    }

    #[test]
    fn an_empty_body_is_accepted_only_without_a_schema() {
        let schemas = SchemaRegistry::default();
        assert!(parse_command::<()>(&HeaderMap::new(), b"", None, &schemas).is_ok());
        assert!(parse_command::<()>(&with_type("application/json"), b"", Some("x.v1"), &schemas).is_err());
    }
}
