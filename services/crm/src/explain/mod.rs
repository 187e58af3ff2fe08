//! Everything that is known about one mail, in order.

mod store;

use crate::{CrmError, artifacts::check_artifact, emails, state::CrmState};
use onceward::Tx;
use onceward_audit::EntryFilter;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

const MAX_ENTRIES: u32 = 1_000;

/// Returns the mail with its recipients, audit entries, provider calls, feedback and artifact, or `None` if it does not exist.
pub(crate) async fn explain(tx: &Tx, state: &CrmState, email_id: Uuid) -> Result<Option<Value>, CrmError> {
    let Some(email) = emails::store::show(tx, email_id).await? else { return Ok(None) };
    let filter = EntryFilter {
        object_type: Some("email".to_owned()),
        object_id: Some(email_id.to_string()),
        ..EntryFilter::default()
    };
    let mut entries = onceward_audit::list(tx, &filter, None, MAX_ENTRIES).await?;
    entries.reverse();
    let entries: Vec<Value> = entries
        .iter()
        .map(|entry| {
            let detail = entry.document()["payload"]["detail"].clone();
            json!({ "at": entry.occurred_at, "event_type": entry.event_type, "actor": entry.actor, "detail": detail })
        })
        .collect();
    Ok(Some(json!({
        "email": email,
        "entries": entries,
        "attempts": store::provider_calls(tx, email_id).await?,
        "feedback": store::feedback(tx, email_id).await?,
        "artifact": check_artifact(tx, state, email_id).await?,
    })))
}

/// Returns the explanation as lines for people, in the order of events.
pub(crate) fn lines(explained: &Value) -> Vec<String> {
    let email = &explained["email"];
    let mut lines = vec![
        format!("mail {}: {}", text(&email["email_id"]), text(&email["status"])),
        format!(
            "  template {} version {}, class {}, {}",
            text(&email["template_id"]),
            email["template_version"],
            text(&email["class"]),
            text(&email["delivery"]).replace('_', " "),
        ),
        format!("  requested at {} by {}", text(&email["requested_at"]), text(&email["user_id"])),
    ];
    let mut events: Vec<(String, Vec<String>)> = Vec::new();
    for entry in array(&explained["entries"]) {
        let line = format!(
            "{} {} by {}: {}",
            text(&entry["at"]),
            text(&entry["event_type"]),
            text(&entry["actor"]),
            entry["detail"]
        );
        events.push((text(&entry["at"]), vec![line]));
    }
    for attempt in array(&explained["attempts"]) {
        events.push((text(&attempt["started_at"]), attempt_lines(attempt)));
    }
    for feedback in array(&explained["feedback"]) {
        let hard = if feedback["is_hard"] == true { " (hard)" } else { "" };
        let line = format!(
            "{} recipient {} {}{hard}, reported by {}: {} {}",
            text(&feedback["occurred_at"]),
            feedback["position"],
            text(&feedback["kind"]),
            text(&feedback["source"]),
            text(&feedback["status_code"]),
            text(&feedback["class"]),
        );
        events.push((text(&feedback["occurred_at"]), vec![line]));
    }
    events.sort_by(|(a, _), (b, _)| a.cmp(b));
    lines.extend(events.into_iter().flat_map(|(_, lines)| lines).map(|line| format!("  {line}")));
    lines.extend(array(&email["recipients"]).iter().map(recipient_line));
    lines.push(artifact_line(&explained["artifact"]));
    lines
}

fn attempt_lines(attempt: &Value) -> Vec<String> {
    let head = format!(
        "{} recipient {} by {}: {} after {} ms",
        text(&attempt["started_at"]),
        attempt["position"],
        text(&attempt["provider"]),
        text(&attempt["outcome"]),
        attempt["duration_ms"],
    );
    let step = |step: &Value| {
        format!(
            "    {} {} {} ({} ms)",
            text(&step["step"]),
            text(&step["code"]),
            text(&step["text"]),
            text(&step["elapsed_ms"])
        )
    };
    std::iter::once(head).chain(array(&attempt["steps"]).iter().map(step)).collect()
}

fn recipient_line(recipient: &Value) -> String {
    let reason = recipient["reason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default();
    let feedback = recipient["feedback"].as_str().map(|feedback| format!(", {feedback}")).unwrap_or_default();
    let hash: String = text(&recipient["address_hash"]).chars().take(12).collect();
    format!(
        "  recipient {} ({}, {hash}…): {}{feedback}{reason}",
        recipient["position"],
        text(&recipient["field"]),
        text(&recipient["state"])
    )
}

fn artifact_line(artifact: &Value) -> String {
    if artifact.is_null() {
        return "  not rendered yet".to_owned();
    }
    let verdict = match (artifact["is_verified"] == true, artifact["is_erased"] == true) {
        (true, true) => "the contact was erased; its hash is in the audit chain".to_owned(),
        (true, false) => "matches its objects and the audit chain".to_owned(),
        (false, _) if array(&artifact["differences"]).is_empty() => "being sent; its audit entry follows".to_owned(),
        (false, _) => format!("DIFFERS: {}", artifact["differences"]),
    };
    let sha256 = text(&artifact["message_sha256"]);
    format!("  message of {} bytes, SHA-256 {sha256}: {verdict}", artifact["message_bytes"])
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns a text or a number as text, and nothing for null.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns the SHA-256 of bytes in hexadecimal.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
