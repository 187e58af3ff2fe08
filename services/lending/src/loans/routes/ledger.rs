//! `GET /api/loans/{id}/ledger`.

use super::show_loan::find;
use crate::LendingError;
use jiff::civil::Date;
use onceward::{prelude::*, web::axum::extract::Query};
use onceward_ledger::{self as ledger, Account, Balances, HistoryCursor};
use onceward_money::MoneyError;
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

const PAGE: u32 = 100;
const PAGE_MAX: u32 = 500;

#[derive(Deserialize)]
pub(super) struct LedgerQuery {
    #[serde(rename = "asOf")]
    as_of: Option<Date>,
    limit: Option<u32>,
    after: Option<String>,
}

pub(super) async fn show(
    Path(loan_id): Path<Uuid>,
    Query(query): Query<LedgerQuery>,
    reader: Reader,
) -> Result<Response, Problem> {
    let loan = find(&reader.tx, loan_id).await?;
    let after = query.after.as_deref().map(parse_cursor).transpose()?;
    let limit = query.limit.unwrap_or(PAGE).clamp(1, PAGE_MAX);
    let balances = match query.as_of {
        Some(day) => ledger::balances_as_of(&reader.tx, loan_id, loan.currency, day).await,
        None => ledger::balances(&reader.tx, loan_id, loan.currency).await,
    };
    let balances = balances.map_err(LendingError::from)?;
    let mut events =
        ledger::history(&reader.tx, loan_id, query.as_of, after, limit + 1).await.map_err(LendingError::from)?;
    let more = events.len() > limit as usize;
    events.truncate(limit as usize);
    let next = events.last().filter(|_| more).map(|last| format!("{}_{}", last.effective_date, last.event_id));
    let body = json!({
        "loan_id": loan_id,
        "currency": loan.currency,
        "as_of": query.as_of,
        "balances": view(&balances).map_err(LendingError::from)?,
        "events": events.iter().map(event).collect::<Vec<_>>(),
        "next": next,
    });
    reader.respond(&body).await
}

/// Returns each account's balance on its normal side.
pub(super) fn view(balances: &Balances) -> Result<Value, MoneyError> {
    let mut document = Map::new();
    // Unapplied cash belongs to the tenant, not to a loan.
    for (account, _) in balances.iter().filter(|(account, _)| *account != Account::UnappliedCash) {
        document.insert(format!("{account}_minor"), json!(balances.normal(account)?));
    }
    Ok(Value::Object(document))
}

fn event(event: &ledger::LedgerEvent) -> Value {
    let lines: Vec<Value> = event
        .lines
        .iter()
        .map(|line| json!({"account": line.account, "side": line.side, "amount_minor": line.amount, "memo": line.memo}))
        .collect();
    json!({
        "event_id": event.event_id,
        "schema": event.schema,
        "correlation_id": event.correlation_id,
        "effective_date": event.effective_date,
        "finalized_at": event.finalized_at,
        "reverses": event.reverses,
        "reversed_by": event.reversed_by,
        "note": event.note,
        "lines": lines,
    })
}

/// Parses `<day>_<event id>`, the format of `next`.
fn parse_cursor(text: &str) -> Result<HistoryCursor, Problem> {
    let parts = text
        .split_once('_')
        .and_then(|(day, id)| Some(HistoryCursor { effective_date: day.parse().ok()?, event_id: id.parse().ok()? }));
    parts.ok_or_else(|| Problem::new(codes::INVALID_REQUEST).detail("`after` must be the `next` of the previous page."))
}
