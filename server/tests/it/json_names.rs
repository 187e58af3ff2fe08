//! Every service spells its JSON members in one way, as `docs/json-names.md` defines.

use crate::{cli_fixture::CliFixture, support::services};
use onceward::Platform;
use serde_json::Value;

/// Members that the platform adds for every service.
const PLATFORM_MEMBERS: &[&str] = &["correlationId", "statusUrl", "scheduledFor"];
/// Names fixed for compatibility with existing consumers: (the beginning of the schema's `$id`, members).
const FIXED: &[(&str, &[&str])] = &[
    ("escrow.accepted.", &["loanId", "disbursementId"]),
    ("escrow.disburse.", &["loanId", "disbursementId"]),
    ("etl.", &["windowStart", "windowEnd", "completedAt", "openedAt", "doneAt"]),
    ("loan.", &["loanId", "loanData", "updatedAt"]),
    ("document.", &["documentId", "fromPage"]),
];
/// The schemas of the example, which uses camelCase.
const CAMEL_CASE_PREFIX: &str = "order.";

/// Collects the names of all properties in a schema.
fn members<'s>(schema: &'s Value, found: &mut Vec<&'s str>) {
    match schema {
        Value::Object(keywords) => {
            found.extend(
                schema["properties"].as_object().into_iter().flat_map(|named| named.keys()).map(String::as_str),
            );
            keywords.values().for_each(|value| members(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| members(value, found)),
        _ => {}
    }
}

#[test]
fn members_are_spelt_according_to_the_rules_of_their_service() {
    let platform = Platform::assemble(services()).expect("the services are valid");
    let mut wrong = Vec::new();
    for id in platform.schemas().ids() {
        let mut found = Vec::new();
        members(platform.schemas().get(id).expect("it is registered"), &mut found);
        let fixed: Vec<&str> =
            FIXED.iter().filter(|(begin, _)| id.starts_with(begin)).flat_map(|(_, names)| *names).copied().collect();
        let is_wrong = |name: &&str| match id.starts_with(CAMEL_CASE_PREFIX) {
            true => name.contains('_'),
            false => {
                let is_camel = name.chars().any(char::is_uppercase);
                is_camel && !PLATFORM_MEMBERS.contains(name) && !fixed.contains(name)
            }
        };
        wrong.extend(found.into_iter().filter(is_wrong).map(|name| format!("{id}: {name}")));
    }
    assert!(wrong.is_empty(), "docs/json-names.md defines how members are spelt: {wrong:#?}");
}

#[tokio::test]
async fn commands_print_members_in_the_order_of_their_code() {
    let cli = CliFixture::new().await;
    cli.insert_dead_letter("acme", "cup").await;
    cli.publish("acme", "pot").await;
    for (args, names) in [
        (&["slo", "list"][..], &["service", "slo", "figures"][..]),
        (&["queues"], &["queue", "waiting", "oldestSeconds", "putAside", "unknown", "heldKeys", "dead", "deadIsMore"]),
        (&["dlq", "list"], &["id", "deadAt", "queue", "tenant", "eventId", "eventType", "reason", "status", "tag"]),
        (&["trace", "story-cup"], &["correlationId", "linked", "answers", "messages", "notes"]),
        (&["doctor"], &["checks", "findings"]),
        (&["outbox", "status"], &["bus", "unpublished", "dead", "trouble", "onTheBus", "busError"]),
    ] {
        let printed = cli.run(&[args, &["--json"]].concat()).await.stdout;
        let line = printed.lines().next().unwrap_or_default();
        let members = top_level(line);
        let places: Vec<usize> = names
            .iter()
            .map(|name| members.iter().position(|member| member == name).unwrap_or_else(|| panic!("{name}: {line}")))
            .collect();
        assert!(places.is_sorted(), "{args:?}: {names:?} in {members:?}");
    }
}

/// Returns the names of an object's members in the order of the text.
fn top_level(text: &str) -> Vec<String> {
    let (mut names, mut depth, mut rest) = (Vec::new(), 0, text);
    while let Some(first) = rest.chars().next() {
        let mut taken = first.len_utf8();
        match first {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            '"' => {
                let mut values = serde_json::Deserializer::from_str(rest).into_iter::<String>();
                let word = values.next().expect("a string").expect("valid JSON");
                taken = values.byte_offset();
                if depth == 1 && rest[taken..].starts_with(':') {
                    names.push(word);
                }
            }
            _ => {}
        }
        rest = &rest[taken..];
    }
    names
}
