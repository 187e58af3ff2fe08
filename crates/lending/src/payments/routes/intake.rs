//! `POST /payments/intake/{provider}`: one payment, or a file of them.

use crate::payments::{
    commands::take_in::{Taken, take_all_in, take_in},
    problems::{PAYMENT_CONFLICT, PROVIDER_UNKNOWN, unreadable},
    provider::{self, BANK, Claim, Wrong, bank},
};
use jiff::Timestamp;
use onceward::{Raw, prelude::*};
use serde_json::Value;
use uuid::Uuid;

pub(super) async fn take(Path(provider): Path<String>, command: Command<Raw>) -> Result<Response, Problem> {
    let (body, command) = command.into_parts();
    if provider == BANK && body.content_type == "text/csv" {
        return take_file(&body, command).await;
    }
    if provider::read(&provider, &Value::Null).is_none() {
        return Err(unknown(&provider));
    }
    let claim = provider::read(&provider, &json(&provider, &body)?).ok_or_else(|| unknown(&provider))?;
    let Command { mut tx, .. } = command;
    let taken = take_in(&mut tx, claim.map_err(unreadable)?, Timestamp::now()).await?;
    tx.commit().await?;
    answer(taken)
}

/// The answer to one payment, once it is committed: a conflict is an error to the gateway, and stays written down.
pub(super) fn answer(taken: Taken) -> Result<Response, Problem> {
    let (status, body) = match taken {
        Taken::Accepted { payment_id, key } => {
            (StatusCode::CREATED, json!({"payment_id": payment_id, "idempotency_key": key}))
        }
        Taken::Duplicate { payment_id, key } => {
            (StatusCode::OK, json!({"status": "duplicate", "payment_id": payment_id, "idempotency_key": key}))
        }
        Taken::Conflict { conflict_id, payment_id, differs } => {
            let what: Vec<&str> = differs.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
            return Err(Problem::new(PAYMENT_CONFLICT).detail(format!(
                "The transaction is payment {payment_id}, with another {}. The difference is noted as conflict {conflict_id}.",
                what.join(" and ")
            )));
        }
        Taken::NoLoan { loan_id } => return Err(no_loan(loan_id)),
        Taken::NoProvider { provider } => return Err(unknown(provider)),
    };
    Ok(super::respond(status, &body))
}

fn no_loan(loan_id: Uuid) -> Problem {
    let text = format!("there is no loan {loan_id}");
    Problem::new(codes::VALIDATION_FAILED).detail(&text).error("/loan_id", text)
}

/// What the body holds, if anybody here reads it.
fn json(provider: &str, body: &Raw) -> Result<Value, Problem> {
    if body.content_type != "application/json" && !body.content_type.ends_with("+json") {
        let expected = if provider == BANK { "text/csv or application/json" } else { "application/json" };
        return Err(Problem::new(codes::UNSUPPORTED_MEDIA_TYPE).detail(format!("Send {expected}.")));
    }
    let value: Value = serde_json::from_slice(&body.bytes)
        .map_err(|error| Problem::new(codes::INVALID_JSON).detail(format!("Reading stopped: {error}.")))?;
    without_nul(value)
}

/// PostgreSQL has no place for U+0000.
pub(super) fn without_nul(value: Value) -> Result<Value, Problem> {
    if value.to_string().contains("\\u0000") {
        return Err(
            Problem::new(codes::VALIDATION_FAILED).detail("The body holds a NUL character, which cannot be stored.")
        );
    }
    Ok(value)
}

fn unknown(provider: &str) -> Problem {
    let known = "mock, bank or stripe";
    Problem::new(PROVIDER_UNKNOWN).detail(format!("There is no provider {provider:?}; choose {known}."))
}

/// Every line is answered for itself; a file that comes again is all duplicates.
async fn take_file(file: &Raw, command: Command) -> Result<Response, Problem> {
    let lines = bank::read_file(&file.bytes)
        .map_err(|error| Problem::new(codes::VALIDATION_FAILED).detail(format!("The file cannot be read: {error}.")))?;
    let claims: Vec<(Uuid, Claim)> =
        lines.iter().filter_map(|line| Some((Uuid::now_v7(), line.read.as_ref().ok()?.clone()))).collect();
    let Command { mut tx, .. } = command;
    let mut taken = take_all_in(&mut tx, claims, Timestamp::now(), &|_, _| {}).await?.into_iter();
    tx.commit().await?;
    let results: Vec<Value> = lines
        .into_iter()
        .map(|line| match line.read {
            Ok(claim) => told(line.number, &claim, taken.next()),
            Err(wrong) => json!({"line": line.number, "result": "refused", "reason": in_words(&wrong)}),
        })
        .collect();
    let count = |result: &str| results.iter().filter(|told| told["result"] == result).count();
    let body = json!({
        "accepted": count("accepted"), "duplicate": count("duplicate"), "refused": count("refused"), "lines": results
    });
    Ok(super::respond(StatusCode::OK, &body))
}

fn told(line: u64, claim: &Claim, taken: Option<Taken>) -> Value {
    let txn = &claim.gateway_txn_id;
    match taken {
        Some(Taken::Accepted { payment_id, key }) => json!({
            "line": line, "trace_number": txn, "result": "accepted", "payment_id": payment_id, "idempotency_key": key
        }),
        Some(Taken::Duplicate { payment_id, key }) => json!({
            "line": line, "trace_number": txn, "result": "duplicate", "payment_id": payment_id, "idempotency_key": key
        }),
        Some(Taken::Conflict { conflict_id, payment_id, differs }) => json!({
            "line": line, "trace_number": txn, "result": "refused", "reason": "conflict", "conflict_id": conflict_id,
            "payment_id": payment_id, "differs": differs
        }),
        Some(Taken::NoLoan { loan_id }) => json!({
            "line": line, "trace_number": txn, "result": "refused", "reason": format!("there is no loan {loan_id}")
        }),
        Some(Taken::NoProvider { .. }) | None => json!({
            "line": line, "trace_number": txn, "result": "refused", "reason": "nothing is taken from this provider here"
        }),
    }
}

fn in_words(wrong: &[Wrong]) -> String {
    let all: Vec<String> =
        wrong.iter().map(|wrong| format!("{} {}", wrong.path.trim_start_matches('/'), wrong.message)).collect();
    all.join("; ").trim().to_owned()
}
