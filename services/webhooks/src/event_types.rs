//! The event types that endpoints may subscribe to.

use crate::{EventSource, error::WebhookError, events::EndpointDisabled};
use onceward::{Event, SchemaRegistry, closest_match};
use std::collections::BTreeSet;

/// The route that lists the event types.
pub(crate) const EVENT_TYPES_PATH: &str = "/api/webhooks/event-types";
/// The type of the test message, which an owner sends on request, regardless of an endpoint's filters.
pub(crate) const TEST_EVENT_TYPE: &str = "webhook.test.v1";

/// The event types that the sources publish.
#[derive(Clone, Debug)]
pub(crate) struct EventTypes {
    names: BTreeSet<&'static str>,
    /// True if some source does not declare its event types.
    accepts_any: bool,
}

impl EventTypes {
    pub(crate) fn of(sources: &[EventSource]) -> Self {
        let names =
            sources.iter().flat_map(|source| source.types).copied().chain([EndpointDisabled::TYPE, TEST_EVENT_TYPE]);
        Self { names: names.collect(), accepts_any: sources.iter().any(|source| source.types.is_empty()) }
    }

    /// Returns the known types, sorted by name.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.names.iter().copied()
    }

    /// Fails if a filter matches no known type: it is misspelt, and its endpoint would never receive anything. Every type
    /// that has a schema is known, too.
    pub(crate) fn check(&self, filters: &[String], schemas: &SchemaRegistry) -> Result<(), WebhookError> {
        let contracts = schemas.ids();
        let is_known = |filter: &str| {
            self.accepts_any
                || self.names().any(|event_type| matches(filter, event_type))
                || contracts.iter().any(|event_type| matches(filter, event_type))
        };
        let unknown: Vec<String> =
            filters.iter().filter(|filter| !is_known(filter)).map(|filter| self.describe_unknown(filter)).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let message = format!("{}; GET {EVENT_TYPES_PATH} lists all event types", unknown.join("; "));
        Err(WebhookError::Invalid { path: "/event_types", message })
    }

    fn describe_unknown(&self, filter: &str) -> String {
        let filters: BTreeSet<String> = self.names().flat_map(matching_filters).collect();
        match closest_match(filter, filters.iter().map(String::as_str)) {
            Some(meant) => format!("\"{filter}\" matches no event type, did you mean \"{meant}\"?"),
            None => format!("\"{filter}\" matches no event type"),
        }
    }
}

/// Decides whether a filter selects a type, by the same rules as `webhooks.wants` in the database.
fn matches(filter: &str, event_type: &str) -> bool {
    match filter.strip_suffix('*') {
        Some("") => true,
        Some(prefix) if prefix.ends_with('.') => event_type.starts_with(prefix),
        _ => filter == event_type || filter == unversioned(event_type),
    }
}

/// Returns `payment.posted` for `payment.posted.v1`.
fn unversioned(event_type: &str) -> &str {
    match event_type.rsplit_once(".v") {
        Some((name, version)) if !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => event_type,
    }
}

/// Returns the filters that match this type.
fn matching_filters(event_type: &'static str) -> Vec<String> {
    let name = unversioned(event_type);
    let prefixes = name.match_indices('.').map(|(at, _)| format!("{}.*", &name[..at]));
    prefixes.chain([name.to_owned(), event_type.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: &[&str] = &["payment.posted.v1", "payment.failed.v1"];

    fn check(sources: &[EventSource], filter: &str) -> Result<(), String> {
        let schemas = SchemaRegistry::builder().add_json(r#"{"$id": "other.thing.v2"}"#).unwrap().build().unwrap();
        EventTypes::of(sources).check(&[filter.to_owned()], &schemas).map_err(|error| error.to_string())
    }

    #[test]
    fn a_misspelt_filter_is_rejected_with_a_suggestion() {
        let sources = [EventSource::new("payments.events", "payment.#").types(TYPES)];
        for known in ["*", "payment.*", "payment.posted", "payment.posted.v1", "webhook.*", "other.thing", "other.*"] {
            assert_eq!(check(&sources, known), Ok(()), "{known}");
        }
        for (wrong, meant) in [("paymnt.*", "payment.*"), ("payment.postd", "payment.posted")] {
            let error = check(&sources, wrong).expect_err("the filter is misspelt");
            assert!(
                error.contains(&format!("did you mean \"{meant}\"?")) && error.contains(EVENT_TYPES_PATH),
                "{error}"
            );
        }
        assert!(check(&sources, "payment.posted.v2").is_err(), "this version does not exist");
        assert!(check(&sources, "nonsense").is_err_and(|error| !error.contains("did you mean")));
    }

    #[test]
    fn any_filter_is_accepted_if_a_source_does_not_declare_its_types() {
        let sources = [EventSource::new("payments.events", "#").types(TYPES), EventSource::new("shop.events", "#")];
        assert_eq!(check(&sources, "shop.anything.v9"), Ok(()));
    }
}
