//! `/api/products`.

use crate::{
    loans::{commands, store},
    model::{
        DayCount, EscrowPolicy, LateFeePolicy, PaymentBucket, Prepayment, ProductPolicy, Rounding, RuleError, Waterfall,
    },
};
use onceward::{prelude::*, web::axum::extract::Query};
use onceward_money::{Currency, Rate};
use serde::Deserialize;
use serde_json::Value;

/// A policy before its rules are checked, so that an error can be reported with its field.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewProduct {
    code: String,
    currency: Currency,
    annual_rate: Rate,
    day_count: DayCount,
    term_months: u32,
    #[serde(default)]
    rounding: Rounding,
    waterfall: Option<Vec<PaymentBucket>>,
    #[serde(default)]
    prepayment: Prepayment,
    #[serde(default)]
    late_fee: LateFeePolicy,
    #[serde(default)]
    escrow: EscrowPolicy,
}

pub(super) async fn create(command: Command<NewProduct>) -> Result<Response, Problem> {
    let (product, mut command) = command.into_parts();
    let policy = product.into_policy().map_err(rule_problem)?;
    let version = commands::create_product(&mut command.tx, &policy).await?;
    command.respond(StatusCode::CREATED, &document(version, &policy)).await
}

#[derive(Deserialize)]
pub(super) struct ProductQuery {
    version: Option<i32>,
}

pub(super) async fn show(
    Path(code): Path<String>,
    Query(query): Query<ProductQuery>,
    reader: Reader,
) -> Result<Response, Problem> {
    let missing = || Problem::new(codes::NOT_FOUND).detail("There is no such product.");
    let (version, policy) = store::find_product(&reader.tx, &code, query.version).await?.ok_or_else(missing)?;
    reader.respond(&document(version, &policy)).await
}

fn document(version: i32, policy: &ProductPolicy) -> Value {
    json!({"code": policy.code, "version": version, "policy": policy})
}

impl NewProduct {
    fn into_policy(self) -> Result<ProductPolicy, RuleError> {
        let waterfall = self.waterfall.map(Waterfall::new).transpose()?.unwrap_or_default();
        let policy = ProductPolicy {
            code: self.code,
            currency: self.currency,
            annual_rate: self.annual_rate,
            day_count: self.day_count,
            term_months: self.term_months,
            rounding: self.rounding,
            waterfall,
            prepayment: self.prepayment,
            late_fee: self.late_fee,
            escrow: self.escrow,
        };
        policy.checked()
    }
}

fn rule_problem(rule: RuleError) -> Problem {
    let path = match rule {
        RuleError::ProductCode => "/code",
        RuleError::RateTooHigh(_) => "/annual_rate",
        RuleError::Term(_) => "/term_months",
        RuleError::RoundingUnit(_) => "/rounding/unit_minor",
        RuleError::WaterfallMissing(_) | RuleError::WaterfallTwice(_) | RuleError::WaterfallFuture => "/waterfall",
        RuleError::Grace(_) => "/late_fee/grace_days",
        RuleError::LateFee => "/late_fee/charge",
        RuleError::EscrowPolicy => "/escrow",
        _ => "",
    };
    Problem::new(codes::VALIDATION_FAILED).detail("The product is invalid; see `errors`.").error(path, rule.to_string())
}
