//! Imports borrowers and loans into lending: borrowers directly, loans by the command that creates every loan.
//!
//! An imported loan has the state `created`: it has no ledger entries, nothing is funded or posted, and its payments
//! stay in the legacy table. Only loans that are active, have an exact amount and match the terms of the given product
//! are imported; the others are listed.

use crate::{
    AdoptionError, AdoptionOptions, LegacyMapping,
    store::{self, LegacyLoan},
};
use onceward::{Actor, Db, DbConfig, Scope, Tx, audit};
use onceward_audit::Entry;
use onceward_money::{Currency, Rate};
use rust_decimal::Decimal;
use serde_json::{Value, json};
use tokio_postgres::Client;
use uuid::Uuid;

/// The unit of legacy rates: what 7.5 means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum RateUnit {
    /// 7.5 %
    Percent,
    /// 750 %
    Fraction,
}

/// How loans are imported.
#[derive(Clone, Debug)]
pub struct LendingImport {
    /// The product in lending whose terms the loans have.
    pub product: String,
    /// The unit of their rate.
    pub rate_unit: RateUnit,
}

/// The numbers of rows that a run imported and listed.
#[derive(Default)]
struct ImportCounts {
    borrowers: u64,
    loans: u64,
    listed: u64,
}

/// The legacy status of loans that are imported.
const ACTIVE: &str = "active";

/// The terms of the product that a loan must match.
struct ProductTerms {
    code: String,
    version: i32,
    rate: Rate,
    term: i64,
    currency: Currency,
}

/// Imports all borrowers and loans that are not imported yet, in batches. Fails if the product does not exist.
pub(crate) async fn import_into_lending(
    config: &DbConfig,
    client: &Client,
    mapping: &LegacyMapping,
    options: &AdoptionOptions,
    import: &LendingImport,
    report: &mut impl FnMut(&str),
) -> Result<(), AdoptionError> {
    let terms = load_terms(client, mapping, &import.product).await?;
    let db = Db::connect(config.clone())?;
    let mut counts = ImportCounts::default();
    import_borrowers(&db, client, mapping, options, &mut counts).await?;
    import_loans(&db, client, mapping, options, (&terms, import.rate_unit), &mut counts).await?;
    let ImportCounts { borrowers, loans, listed } = counts;
    report(&format!("lending: {borrowers} borrowers and {loans} loans imported, {listed} rows listed"));
    Ok(())
}

async fn load_terms(client: &Client, mapping: &LegacyMapping, code: &str) -> Result<ProductTerms, AdoptionError> {
    let missing = |what: &str| AdoptionError::Refused(format!("{what}; create the product in lending first"));
    if !store::has_lending(client).await? {
        return Err(missing("this database has no lending tables"));
    }
    let product = store::product(client, mapping.tenant.as_str(), code).await?;
    let (version, policy) =
        product.ok_or_else(|| missing(&format!("tenant {} has no product {code}", mapping.tenant)))?;
    let text = |name: &str| policy[name].as_str().unwrap_or_default();
    let unreadable = || AdoptionError::Refused(format!("the terms of product {code} cannot be parsed"));
    Ok(ProductTerms {
        code: code.to_owned(),
        version,
        rate: text("annual_rate").parse().map_err(|_| unreadable())?,
        term: policy["term_months"].as_i64().ok_or_else(unreadable)?,
        currency: text("currency").parse().map_err(|_| unreadable())?,
    })
}

async fn begin(db: &Db, mapping: &LegacyMapping) -> Result<Tx, AdoptionError> {
    let mut scope = Scope::for_tenant(mapping.tenant.clone());
    scope.actor = Actor { user_id: None, service: Some("adoption".to_owned()) };
    Ok(db.begin(scope).await?)
}

async fn import_borrowers(
    db: &Db,
    client: &Client,
    mapping: &LegacyMapping,
    options: &AdoptionOptions,
    counts: &mut ImportCounts,
) -> Result<(), AdoptionError> {
    let mut last = i64::MIN;
    loop {
        let batch = store::borrowers(client, &mapping.schema, last, options.batch).await?;
        let Some(end) = batch.last() else {
            return Ok(());
        };
        last = end.id;
        let mut tx = begin(db, mapping).await?;
        for borrower in &batch {
            let Some(name) = borrower.name.as_deref().filter(|name| !name.trim().is_empty()) else {
                store::record_finding(
                    &tx,
                    "borrowers",
                    borrower.id,
                    "name",
                    None,
                    "has no name, which lending requires",
                )
                .await?;
                counts.listed += 1;
                continue;
            };
            let external_ref = format!("legacy:{}", borrower.id);
            let (id, new) = store::insert_borrower(&tx, name, borrower.email.as_deref(), &external_ref).await?;
            store::record_imported(&tx, "borrowers", borrower.id, id).await?;
            if new {
                let value = json!({"kind": "person", "external_ref": external_ref});
                audit::record(&mut tx, Entry::new("borrower_created").object("borrower_entity", id).new_value(value))?;
                counts.borrowers += 1;
            }
        }
        tx.commit().await?;
        tokio::time::sleep(options.pause).await;
    }
}

async fn import_loans(
    db: &Db,
    client: &Client,
    mapping: &LegacyMapping,
    options: &AdoptionOptions,
    (terms, unit): (&ProductTerms, RateUnit),
    counts: &mut ImportCounts,
) -> Result<(), AdoptionError> {
    let mut last = i64::MIN;
    loop {
        let batch = store::loans(client, &mapping.schema, last, options.batch).await?;
        let Some(end) = batch.last() else {
            return Ok(());
        };
        last = end.id;
        let tx = begin(db, mapping).await?;
        for loan in &batch {
            match create_command(loan, terms, unit) {
                Ok((loan_id, payload)) => {
                    store::create_loan(&tx, &payload, &format!("adopt:loan:{}", loan.id), loan_id).await?;
                    store::record_imported(&tx, "loans", loan.id, loan_id).await?;
                    counts.loans += 1;
                }
                Err((value, reason)) => {
                    store::record_finding(&tx, "loans", loan.id, "product", value.as_deref(), &reason).await?;
                    counts.listed += 1;
                }
            }
        }
        tx.commit().await?;
        tokio::time::sleep(options.pause).await;
    }
}

/// Returns the id and the command that creates the loan, or the value and the reason why it is not imported.
fn create_command(
    loan: &LegacyLoan,
    terms: &ProductTerms,
    unit: RateUnit,
) -> Result<(Uuid, Value), (Option<String>, String)> {
    let reject = |value: Option<String>, reason: &str| Err((value, reason.to_owned()));
    if loan.status.as_deref() != Some(ACTIVE) {
        return reject(loan.status.clone(), "not imported into lending: it is not active");
    }
    let Some(principal) = loan.amount_minor.filter(|minor| *minor > 0) else {
        return reject(
            loan.amount_minor.map(|minor| minor.to_string()),
            "not imported into lending: it has no exact positive amount",
        );
    };
    let Some(borrower) = loan.borrower else {
        return reject(None, "not imported into lending: its borrower was not imported");
    };
    let Some(start_date) = loan.start_date else {
        return reject(None, "not imported into lending: its start date is unknown");
    };
    let fraction = loan.rate.map(|rate| match unit {
        RateUnit::Percent => rate / Decimal::ONE_HUNDRED,
        RateUnit::Fraction => rate,
    });
    if fraction != Some(terms.rate.fraction()) || loan.term != Some(terms.term) {
        let text = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
        let value =
            format!("rate {}, term {}", text(loan.rate_text.clone()), text(loan.term.map(|term| term.to_string())));
        return Err((Some(value), format!("not imported into lending: product {} has different terms", terms.code)));
    }
    let loan_id = Uuid::now_v7();
    let data = json!({
        "borrower_entity_id": borrower, "product_code": terms.code, "product_version": terms.version,
        "principal_minor": principal.to_string(), "currency": terms.currency, "start_date": start_date,
    });
    Ok((loan_id, json!({ "loanId": loan_id, "loanData": data })))
}
