//! From bytes to a checked value: size, content type, JSON, schema, type. Each step has its own problem.

use crate::{FieldError, Problem, problem::codes};
use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, header},
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use onceward_envelope::{SchemaError, SchemaRegistry};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The whole body, if it is within `limit`. A declared length over it is refused before a byte is read.
pub(crate) async fn read(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Problem> {
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if declared.is_some_and(|length| length > limit as u64) {
        return Err(too_large(limit));
    }
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large(limit)),
        Err(error) => {
            Err(Problem::new(codes::INVALID_REQUEST).detail("The body could not be read to its end.").caused_by(error))
        }
    }
}

/// The body as the handler's type, valid under `schema_id`. An empty body is `null` where no schema is declared.
pub(super) fn checked<B: DeserializeOwned>(
    headers: &HeaderMap,
    bytes: &[u8],
    schema_id: Option<&str>,
    schemas: &SchemaRegistry,
) -> Result<B, Problem> {
    let value = if bytes.is_empty() && schema_id.is_none() { Value::Null } else { parse(headers, bytes)? };
    if let Some(schema_id) = schema_id {
        schemas.validate(schema_id, &value).map_err(invalid)?;
    }
    if let Some(path) = nul(&value, "") {
        return Err(Problem::new(codes::VALIDATION_FAILED)
            .detail("The body holds a NUL character, which cannot be stored.")
            .error(path, "must not contain the character U+0000"));
    }
    serde_json::from_value(value).map_err(|error| {
        Problem::new(codes::VALIDATION_FAILED)
            .detail("The body does not have the form this route expects.")
            .error("", error.to_string())
    })
}

/// Where in `value` a text holds U+0000, which PostgreSQL has no place for.
fn nul(value: &Value, path: &str) -> Option<String> {
    match value {
        Value::String(text) => text.contains('\0').then(|| path.to_owned()),
        Value::Array(items) => items.iter().enumerate().find_map(|(n, item)| nul(item, &format!("{path}/{n}"))),
        Value::Object(fields) => fields.iter().find_map(|(name, field)| nul(field, &format!("{path}/{name}"))),
        _ => None,
    }
}

fn parse(headers: &HeaderMap, bytes: &[u8]) -> Result<Value, Problem> {
    if !is_json(headers) {
        return Err(
            Problem::new(codes::UNSUPPORTED_MEDIA_TYPE).detail("Send JSON, with Content-Type: application/json.")
        );
    }
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::new(codes::INVALID_JSON).detail(format!("Reading stopped: {error}.")))
}

/// What the body is said to be, without parameters; empty if nothing is said.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    value.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

/// `application/json`, or any type with the `+json` suffix.
fn is_json(headers: &HeaderMap) -> bool {
    let essence = media_type(headers);
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn too_large(limit: usize) -> Problem {
    Problem::new(codes::BODY_TOO_LARGE).detail(format!("The limit is {limit} bytes."))
}

fn invalid(error: SchemaError) -> Problem {
    match error {
        SchemaError::Violations { violations, .. } => Problem::new(codes::VALIDATION_FAILED)
            .detail("The body breaks this route's schema; `errors` says where.")
            .errors(violations.into_iter().map(FieldError::from)),
        unknown => Problem::internal(unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_character_is_found_by_its_path() {
        let value = serde_json::json!({"note": "fine", "lines": [{"text": "a\0b"}]});
        assert_eq!(nul(&value, "").as_deref(), Some("/lines/0/text"));
        assert_eq!(nul(&serde_json::json!({"note": "\\u0000"}), ""), None);
    }
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

    #[test]
    fn a_parse_error_names_line_and_column() {
        let problem = parse(&with_type("application/json"), b"{\n  \"a\": }").unwrap_err();
        let document = String::from_utf8(problem.document(None, None)).unwrap();
        assert!(document.contains("line 2 column 8"), "{document}");
    }

    #[test]
    fn an_empty_body_is_fine_only_where_nothing_is_declared() {
        let schemas = SchemaRegistry::default();
        assert!(checked::<()>(&HeaderMap::new(), b"", None, &schemas).is_ok());
        assert!(checked::<()>(&with_type("application/json"), b"", Some("x.v1"), &schemas).is_err());
    }
}
