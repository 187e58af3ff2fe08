//! Executes the steps that are not done yet. A run may be interrupted at any point and repeated.

use crate::{
    AdoptionError, LegacyMapping, LendingImport, MIGRATIONS,
    connection::{connect, with_lock_retries},
    import,
    plan::check,
    steps::{Step, StepAction, steps},
    store,
};
use onceward::{DbConfig, db::migrate};
use std::{
    future::Future,
    time::{Duration, Instant},
};
use tokio_postgres::Client;

/// How often a batch step reports its progress.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// The options of a run.
#[derive(Clone, Debug)]
pub struct AdoptionOptions {
    /// The number of rows per transaction.
    pub batch: i32,
    /// The pause between two transactions, which leaves the database to the old program.
    pub pause: Duration,
    /// Also add foreign keys where the legacy schema has none.
    pub enforce: bool,
    /// Import borrowers and loans into lending.
    pub import: Option<LendingImport>,
}

impl Default for AdoptionOptions {
    fn default() -> Self {
        Self { batch: 500, pause: Duration::from_millis(20), enforce: false, import: None }
    }
}

/// Runs all steps that are not done and reports progress line by line. Returns the number of findings. Holds an
/// advisory lock, so that only one run is active.
pub async fn run(
    config: &DbConfig,
    mapping: &LegacyMapping,
    options: &AdoptionOptions,
    mut report: impl FnMut(&str),
) -> Result<i64, AdoptionError> {
    let mut client = connect(config).await?;
    check(&client, mapping).await?;
    migrate::migrate(config, &[MIGRATIONS]).await?;
    store::lock_adoption(&client).await.map_err(|_| {
        AdoptionError::Refused(
            "another `onceward adopt run` is active on this database; wait until it has finished".to_owned(),
        )
    })?;
    mapping.save(&client).await?;
    store::clear_rechecked_findings(&mut client).await?;
    let done = store::done_steps(&client).await?;
    for step in steps(mapping) {
        // Every run retries the messages that were listed.
        let is_done = done.contains(&step.name);
        if let StepAction::PublishOutbox(_) = step.action {
            drain(&client, mapping, options, &step.name, &mut report).await?;
        }
        if !is_done {
            do_step(&client, mapping, options, &step, &mut report).await?;
        }
    }
    if let Some(import) = &options.import {
        import::import_into_lending(config, &client, mapping, options, import, &mut report).await?;
    }
    Ok(store::count_findings(&client).await?)
}

async fn do_step(
    client: &Client,
    mapping: &LegacyMapping,
    options: &AdoptionOptions,
    step: &Step,
    report: &mut impl FnMut(&str),
) -> Result<(), AdoptionError> {
    let schema = mapping.schema.as_str();
    let name = step.name.as_str();
    match &step.action {
        StepAction::Change(sql) => change(client, name, sql).await?,
        StepAction::UniqueKey { table, constraint } => {
            store::drop_unfinished_key(client, schema, table).await?;
            store::create_key(client, schema, table).await?;
            change(client, name, constraint).await?;
        }
        StepAction::BackfillAmounts { table } => {
            batches(name, options, report, || store::backfill(client, schema, table, options.batch)).await?;
        }
        StepAction::ListMissingReferences { table, column, target } => {
            let batch = || store::find_missing_references(client, schema, table, column, target, options.batch);
            batches(name, options, report, batch).await?;
        }
        StepAction::ForeignKey { table, column, target, constraint } => {
            let wanted = options.enforce || store::has_reference(client, schema, table, column, target).await?;
            if !wanted || store::has_findings(client, table, column).await? {
                report(&format!("{name}: skipped; see `onceward adopt plan` and `onceward adopt status --findings`"));
                return Ok(());
            }
            if !store::has_constraint(client, schema, table, &format!("{table}_tenant_reference")).await? {
                with_lock_retries(name, || client.batch_execute(constraint)).await?;
            }
            with_lock_retries(name, || store::validate(client, schema, table)).await?;
            change(client, name, "").await?;
        }
        StepAction::PublishOutbox(sql) => change(client, name, sql).await?,
    }
    report(&format!("{name}: done"));
    Ok(())
}

async fn drain(
    client: &Client,
    mapping: &LegacyMapping,
    options: &AdoptionOptions,
    name: &str,
    report: &mut impl FnMut(&str),
) -> Result<(), AdoptionError> {
    let batch = || async { Ok(store::drain(client, &mapping.schema, options.batch).await? == options.batch) };
    batches(name, options, report, batch).await
}

/// Runs statements and records the step as done. A simple query with several statements is one transaction.
async fn change(client: &Client, name: &str, sql: &str) -> Result<(), AdoptionError> {
    let statements = store::with_step_record(sql, name);
    with_lock_retries(name, || client.batch_execute(&statements)).await
}

/// Runs `batch` with pauses until it returns `false`: no more rows.
pub(crate) async fn batches<F>(
    name: &str,
    options: &AdoptionOptions,
    report: &mut impl FnMut(&str),
    batch: impl Fn() -> F,
) -> Result<(), AdoptionError>
where
    F: Future<Output = Result<bool, tokio_postgres::Error>>,
{
    let mut last_report = Instant::now();
    let mut rows = 0_i64;
    while with_lock_retries(name, &batch).await? {
        rows += i64::from(options.batch);
        if last_report.elapsed() >= REPORT_INTERVAL {
            last_report = Instant::now();
            report(&format!("{name}: about {rows} rows processed in this run"));
        }
        tokio::time::sleep(options.pause).await;
    }
    Ok(())
}
