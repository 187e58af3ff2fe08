//! Shared support for the surveys tests.

mod author;
mod respondent;
mod server;

pub use author::AuthorClient;
pub use onceward_testkit::HttpResponse;
pub use respondent::RespondentClient;
pub use server::{ProblemResponse, TestServer, settings};

use serde_json::{Value, json};

/// Three pages: who you are, what you drink, and why. Respondents under 18 are screened out; those who drink nothing
/// skip the last page.
pub fn definition() -> Value {
    json!({"pages": [
        {"id": "who", "questions": [
            {"id": "age", "text": "How old are you?", "type": "number", "min": 0, "max": 120, "integer": true, "required": true},
            {"id": "sex", "text": "And?", "type": "single", "required": true,
             "options": [{"id": "f", "label": "Woman"}, {"id": "m", "label": "Man"}, {"id": "x", "label": "Neither"}]}],
         "routes": [{"when": {"at_most": {"question": "age", "value": 17}}, "then": "screen_out"}]},
        {"id": "what", "questions": [
            {"id": "drink", "text": "What do you drink?", "type": "multiple", "max_choices": 2,
             "options": [{"id": "tea", "label": "Tea"}, {"id": "coffee", "label": "Coffee"}, {"id": "water", "label": "Water"}]}],
         "routes": [{"when": {"not": {"answered": {"question": "drink"}}}, "then": "complete"}]},
        {"id": "why", "questions": [
            {"id": "reason", "text": "Why?", "type": "text", "max_length": 100}]},
    ]})
}

/// A definition with one page and one choice, for tests that are about something else.
pub fn short_definition() -> Value {
    json!({"pages": [{"id": "only", "questions": [
        {"id": "sex", "text": "And?", "type": "single", "required": true,
         "options": [{"id": "f", "label": "Woman"}, {"id": "m", "label": "Man"}]},
        {"id": "region", "text": "Where?", "type": "single", "required": true,
         "options": [{"id": "north", "label": "North"}, {"id": "south", "label": "South"}]}]}]})
}
