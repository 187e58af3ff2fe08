//! `POST /payments/intake/{provider}`: one payment, or a file of them.

use crate::Settings;
use crate::payments::{
    commands::receive_payment::{IncomingPayment, ReceiveOutcome, receive_payment, receive_payments},
    problems::{PAYMENT_CONFLICT, PROVIDER_UNKNOWN, invalid_payload},
    provider::{self, BANK, InvalidField, MOCK, ReportedPayment, bank},
};
use jiff::Timestamp;
use onceward::{
    RawBody,
    prelude::*,
    web::{axum::extract::State, body::parse_json},
};
use serde_json::Value;
use std::sync::Arc;
use uuid::Uuid;

pub(super) async fn receive(
    State(settings): State<Arc<Settings>>,
    Path(provider): Path<String>,
    command: Command<RawBody>,
) -> Result<Response, Problem> {
    let (body, command) = command.into_parts();
    if provider == BANK && body.content_type == "text/csv" {
        return receive_file(&body, command).await;
    }
    // Checked before the body, so that an unknown provider is reported for any body.
    if !provider::accepts_json(&provider, &settings) {
        return Err(provider_unknown(&provider, &settings));
    }
    let reported = provider::read(&provider, &json(&provider, &body)?, &settings)
        .ok_or_else(|| provider_unknown(&provider, &settings))?
        .map_err(invalid_payload)?;
    let Command { mut tx, .. } = command;
    let outcome = receive_payment(&mut tx, reported, Timestamp::now()).await?;
    tx.commit().await?;
    respond_to(outcome, &settings)
}

/// Returns the response to one payment after its commit: a conflict is an error for the gateway, and stays stored.
pub(super) fn respond_to(outcome: ReceiveOutcome, settings: &Settings) -> Result<Response, Problem> {
    let (status, body) = match outcome {
        ReceiveOutcome::Accepted { payment_id, key } => {
            (StatusCode::CREATED, json!({"payment_id": payment_id, "idempotency_key": key}))
        }
        ReceiveOutcome::Duplicate { payment_id, key } => {
            (StatusCode::OK, json!({"status": "duplicate", "payment_id": payment_id, "idempotency_key": key}))
        }
        ReceiveOutcome::Conflict { conflict_id, payment_id, differs } => {
            let fields: Vec<&str> = differs.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
            return Err(Problem::new(PAYMENT_CONFLICT).detail(format!(
                "The transaction was already received as payment {payment_id} with another {}. The difference is stored \
                 as conflict {conflict_id}.",
                fields.join(" and ")
            )));
        }
        ReceiveOutcome::LoanMissing { loan_id } => return Err(loan_missing(loan_id)),
        ReceiveOutcome::ProviderUnknown { provider } => return Err(provider_unknown(provider, settings)),
    };
    Ok(super::respond(status, &body))
}

fn loan_missing(loan_id: Uuid) -> Problem {
    let text = format!("there is no loan {loan_id}");
    Problem::new(codes::VALIDATION_FAILED).detail(&text).error("/loan_id", text)
}

/// Parses the body if its content type is supported.
fn json(provider: &str, body: &RawBody) -> Result<Value, Problem> {
    if body.content_type != "application/json" && !body.content_type.ends_with("+json") {
        let expected = if provider == BANK { "text/csv or application/json" } else { "application/json" };
        return Err(Problem::new(codes::UNSUPPORTED_MEDIA_TYPE).detail(format!("Send {expected}.")));
    }
    parse_json(&body.bytes)
}

fn provider_unknown(provider: &str, settings: &Settings) -> Problem {
    let detail = match (provider, settings.mock_provider) {
        (MOCK, false) => "The provider \"mock\" is disabled here. Use bank or stripe, or set \
                          lending.mock_provider = true on a server for tests."
            .to_owned(),
        (_, false) => format!("There is no provider {provider:?}. Use bank or stripe."),
        (_, true) => format!("There is no provider {provider:?}. Use mock, bank or stripe."),
    };
    Problem::new(PROVIDER_UNKNOWN).detail(detail)
}

/// Reports each line separately; in a repeated file all lines are duplicates.
async fn receive_file(file: &RawBody, command: Command) -> Result<Response, Problem> {
    let lines = bank::read_file(&file.bytes)
        .map_err(|error| Problem::new(codes::VALIDATION_FAILED).detail(format!("The file cannot be read: {error}.")))?;
    let Command { mut tx, .. } = command;
    let scope = &tx.scope().clone();
    let reported = lines.iter().filter_map(|line| line.payment.as_ref().ok().cloned());
    let payments = reported.map(|reported| IncomingPayment { payment_id: Uuid::now_v7(), reported, scope }).collect();
    let mut outcomes = receive_payments(&mut tx, payments, Timestamp::now()).await?.into_iter();
    tx.commit().await?;
    let results: Vec<Value> = lines
        .into_iter()
        .map(|line| match line.payment {
            Ok(reported) => line_result(line.number, &reported, outcomes.next()),
            Err(errors) => json!({"line": line.number, "result": "refused", "reason": describe(&errors)}),
        })
        .collect();
    let count = |result: &str| results.iter().filter(|line| line["result"] == result).count();
    let body = json!({
        "accepted": count("accepted"), "duplicate": count("duplicate"), "refused": count("refused"), "lines": results
    });
    Ok(super::respond(StatusCode::OK, &body))
}

fn line_result(line: u64, reported: &ReportedPayment, outcome: Option<ReceiveOutcome>) -> Value {
    let txn = &reported.gateway_txn_id;
    match outcome {
        Some(ReceiveOutcome::Accepted { payment_id, key }) => json!({
            "line": line, "trace_number": txn, "result": "accepted", "payment_id": payment_id, "idempotency_key": key
        }),
        Some(ReceiveOutcome::Duplicate { payment_id, key }) => json!({
            "line": line, "trace_number": txn, "result": "duplicate", "payment_id": payment_id, "idempotency_key": key
        }),
        Some(ReceiveOutcome::Conflict { conflict_id, payment_id, differs }) => json!({
            "line": line, "trace_number": txn, "result": "refused", "reason": "conflict", "conflict_id": conflict_id,
            "payment_id": payment_id, "differs": differs
        }),
        Some(ReceiveOutcome::LoanMissing { loan_id }) => json!({
            "line": line, "trace_number": txn, "result": "refused", "reason": format!("there is no loan {loan_id}")
        }),
        Some(ReceiveOutcome::ProviderUnknown { .. }) | None => json!({
            "line": line, "trace_number": txn, "result": "refused", "reason": "payments from this provider are not accepted here"
        }),
    }
}

fn describe(errors: &[InvalidField]) -> String {
    let all: Vec<String> =
        errors.iter().map(|error| format!("{} {}", error.path.trim_start_matches('/'), error.message)).collect();
    all.join("; ").trim().to_owned()
}
