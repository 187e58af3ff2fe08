//! Takes borrowers and loans over to lending: borrowers as they are, loans by the command that every loan is made by.
//!
//! A loan arrives as `created`: its books are empty, nothing is funded or posted, and its payments stay in the legacy table.
//! Only loans that are active, exact, and made by the terms of the given product are taken; the others are listed.

use crate::{
    AdoptionError, Options, Shape,
    store::{self, LegacyLoan},
};
use onceward::{Actor, Db, DbConfig, Scope, Tx, audit};
use onceward_audit::Entry;
use onceward_money::{Currency, Rate};
use rust_decimal::Decimal;
use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;

/// What a legacy rate of 7.5 means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum RateUnit {
    /// 7.5 %
    Percent,
    /// 750 %
    Fraction,
}

/// As what loans are taken over.
#[derive(Clone, Debug)]
pub struct Bring {
    /// The product in lending whose terms they have.
    pub product: String,
    /// What their rate means.
    pub rate_unit: RateUnit,
}

/// What was taken over in a run.
#[derive(Default)]
struct Brought {
    borrowers: u64,
    loans: u64,
    listed: u64,
}

/// The legacy status of loans that are taken.
const ACTIVE: &str = "active";

/// The product, as far as a loan has to agree with it.
struct Terms {
    code: String,
    version: i32,
    rate: Rate,
    term: i64,
    currency: Currency,
}

pub(crate) async fn bring(
    config: &DbConfig,
    client: &Client,
    shape: &Shape,
    options: &Options,
    bring: &Bring,
    tell: &mut impl FnMut(&str),
) -> Result<(), AdoptionError> {
    let terms = terms(client, shape, &bring.product).await?;
    let db = Db::connect(config.clone())?;
    let mut brought = Brought::default();
    borrowers(&db, client, shape, options, &mut brought).await?;
    loans(&db, client, shape, options, (&terms, bring.rate_unit), &mut brought).await?;
    let Brought { borrowers, loans, listed } = brought;
    tell(&format!("lending: {borrowers} borrowers and {loans} loans are taken over, {listed} rows are listed"));
    Ok(())
}

async fn terms(client: &Client, shape: &Shape, code: &str) -> Result<Terms, AdoptionError> {
    let missing = |what: &str| AdoptionError::Refused(format!("{what}: create the product in lending first"));
    if !store::has_lending(client).await? {
        return Err(missing("this database has no lending"));
    }
    let product = store::product(client, shape.tenant.as_str(), code).await?;
    let (version, policy) =
        product.ok_or_else(|| missing(&format!("tenant {} has no product {code}", shape.tenant)))?;
    let text = |name: &str| policy[name].as_str().unwrap_or_default();
    let unreadable = || AdoptionError::Refused(format!("the terms of product {code} cannot be read"));
    Ok(Terms {
        code: code.to_owned(),
        version,
        rate: text("annual_rate").parse().map_err(|_| unreadable())?,
        term: policy["term_months"].as_i64().ok_or_else(unreadable)?,
        currency: text("currency").parse().map_err(|_| unreadable())?,
    })
}

async fn begin(db: &Db, shape: &Shape) -> Result<Tx, AdoptionError> {
    let mut scope = Scope::tenant(shape.tenant.clone());
    scope.actor = Actor { user_id: None, service: Some("adoption".to_owned()) };
    Ok(db.begin(scope).await?)
}

async fn borrowers(
    db: &Db,
    client: &Client,
    shape: &Shape,
    options: &Options,
    brought: &mut Brought,
) -> Result<(), AdoptionError> {
    let mut last = i64::MIN;
    loop {
        let batch = store::borrowers(client, &shape.schema, last, options.batch).await?;
        let Some(end) = batch.last() else {
            return Ok(());
        };
        last = end.id;
        let mut tx = begin(db, shape).await?;
        for borrower in &batch {
            let Some(name) = borrower.name.as_deref().filter(|name| !name.trim().is_empty()) else {
                store::note_finding(&tx, "borrowers", borrower.id, "name", None, "has no name, which lending needs")
                    .await?;
                brought.listed += 1;
                continue;
            };
            let external_ref = format!("legacy:{}", borrower.id);
            let (id, new) = store::insert_borrower(&tx, name, borrower.email.as_deref(), &external_ref).await?;
            store::note_brought(&tx, "borrowers", borrower.id, id).await?;
            if new {
                let value = json!({"kind": "person", "external_ref": external_ref});
                audit::record(&mut tx, Entry::new("borrower_created").object("borrower_entity", id).new_value(value))?;
                brought.borrowers += 1;
            }
        }
        tx.commit().await?;
        tokio::time::sleep(options.pause).await;
    }
}

async fn loans(
    db: &Db,
    client: &Client,
    shape: &Shape,
    options: &Options,
    (terms, unit): (&Terms, RateUnit),
    brought: &mut Brought,
) -> Result<(), AdoptionError> {
    let mut last = i64::MIN;
    loop {
        let batch = store::loans(client, &shape.schema, last, options.batch).await?;
        let Some(end) = batch.last() else {
            return Ok(());
        };
        last = end.id;
        let tx = begin(db, shape).await?;
        for loan in &batch {
            match request(loan, terms, unit) {
                Ok((loan_id, payload)) => {
                    store::create_loan(&tx, &payload, &format!("adopt:loan:{}", loan.id), loan_id).await?;
                    store::note_brought(&tx, "loans", loan.id, loan_id).await?;
                    brought.loans += 1;
                }
                Err((value, reason)) => {
                    store::note_finding(&tx, "loans", loan.id, "product", value.as_deref(), &reason).await?;
                    brought.listed += 1;
                }
            }
        }
        tx.commit().await?;
        tokio::time::sleep(options.pause).await;
    }
}

/// The command that makes the loan, or the value and the reason why there is none.
fn request(loan: &LegacyLoan, terms: &Terms, unit: RateUnit) -> Result<(Uuid, Value), (Option<String>, String)> {
    let no = |value: Option<String>, reason: &str| Err((value, reason.to_owned()));
    if loan.status.as_deref() != Some(ACTIVE) {
        return no(loan.status.clone(), "not taken to lending: only active loans are");
    }
    let Some(principal) = loan.amount_minor.filter(|minor| *minor > 0) else {
        return no(
            loan.amount_minor.map(|minor| minor.to_string()),
            "not taken to lending: it has no exact positive amount",
        );
    };
    let Some(borrower) = loan.borrower else {
        return no(None, "not taken to lending: its borrower is not");
    };
    let Some(start_date) = loan.began_on else {
        return no(None, "not taken to lending: nobody knows when it began");
    };
    let fraction = loan.rate.map(|rate| match unit {
        RateUnit::Percent => rate / Decimal::ONE_HUNDRED,
        RateUnit::Fraction => rate,
    });
    if fraction != Some(terms.rate.fraction()) || loan.term != Some(terms.term) {
        let text = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
        let value =
            format!("rate {}, term {}", text(loan.rate_text.clone()), text(loan.term.map(|term| term.to_string())));
        return Err((Some(value), format!("not taken to lending: product {} has other terms", terms.code)));
    }
    let loan_id = Uuid::now_v7();
    let data = json!({
        "borrower_entity_id": borrower, "product_code": terms.code, "product_version": terms.version,
        "principal_minor": principal.to_string(), "currency": terms.currency, "start_date": start_date,
    });
    Ok((loan_id, json!({ "loanId": loan_id, "loanData": data })))
}
