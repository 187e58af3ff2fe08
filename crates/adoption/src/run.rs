//! Does what is not done yet. It may end at any point and be run again.

use crate::{
    AdoptionError, Bring, MIGRATIONS, Shape, bring,
    legacy::{connect, patiently},
    plan::check,
    steps::{Step, Work, steps},
    store,
};
use onceward::{DbConfig, db::migrate};
use std::{
    future::Future,
    time::{Duration, Instant},
};
use tokio_postgres::Client;

/// How often a line of progress is told.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// How it is done.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rows that are worked on in one transaction.
    pub batch: i32,
    /// Pause between two of them, in which the old program has the database to itself.
    pub pause: Duration,
    /// Add foreign keys also where the old program had none.
    pub enforce: bool,
    /// Take borrowers and loans over to lending.
    pub bring: Option<Bring>,
}

impl Default for Options {
    fn default() -> Self {
        Self { batch: 500, pause: Duration::from_millis(20), enforce: false, bring: None }
    }
}

/// Runs all steps, telling how far it is. Gives how many findings there are.
pub async fn run(
    config: &DbConfig,
    shape: &Shape,
    options: &Options,
    mut tell: impl FnMut(&str),
) -> Result<i64, AdoptionError> {
    let mut client = connect(config).await?;
    check(&client, shape).await?;
    migrate::migrate(config, &[MIGRATIONS]).await?;
    store::lock_adoption(&client).await.map_err(|_| {
        AdoptionError::Refused("another `onceward adopt run` is at work here: let it finish".to_owned())
    })?;
    shape.keep(&client).await?;
    store::look_again(&mut client).await?;
    let done = store::done_steps(&client).await?;
    for step in steps(shape) {
        // Messages that were listed are tried again by every run.
        let is_done = done.contains(&step.name);
        if let Work::Outbox(_) = step.work {
            drain(&client, shape, options, &step.name, &mut tell).await?;
        }
        if !is_done {
            do_step(&client, shape, options, &step, &mut tell).await?;
        }
    }
    if let Some(bring) = &options.bring {
        bring::bring(config, &client, shape, options, bring, &mut tell).await?;
    }
    Ok(store::count_findings(&client).await?)
}

async fn do_step(
    client: &Client,
    shape: &Shape,
    options: &Options,
    step: &Step,
    tell: &mut impl FnMut(&str),
) -> Result<(), AdoptionError> {
    let schema = shape.schema.as_str();
    let name = step.name.as_str();
    match &step.work {
        Work::Change(sql) => change(client, name, sql).await?,
        Work::Key { table, constraint } => {
            store::drop_unfinished_key(client, schema, table).await?;
            store::make_key(client, schema, table).await?;
            change(client, name, constraint).await?;
        }
        Work::Amounts { table } => {
            batches(name, options, tell, || store::backfill(client, schema, table, options.batch)).await?;
        }
        Work::Missing { table, column, target } => {
            let look = || store::look_for_missing(client, schema, table, column, target, options.batch);
            batches(name, options, tell, look).await?;
        }
        Work::Reference { table, column, target, constraint } => {
            let wanted = options.enforce || store::has_reference(client, schema, table, column, target).await?;
            if !wanted || store::has_missing(client, table, column).await? {
                tell(&format!("{name}: left out for now, see `onceward adopt plan` and the findings"));
                return Ok(());
            }
            if !store::has_constraint(client, schema, table, &format!("{table}_tenant_reference")).await? {
                patiently(name, || client.batch_execute(constraint)).await?;
            }
            patiently(name, || store::validate(client, schema, table)).await?;
            change(client, name, "").await?;
        }
        Work::Outbox(sql) => change(client, name, sql).await?,
    }
    tell(&format!("{name}: done"));
    Ok(())
}

async fn drain(
    client: &Client,
    shape: &Shape,
    options: &Options,
    name: &str,
    tell: &mut impl FnMut(&str),
) -> Result<(), AdoptionError> {
    let batch = || async { Ok(store::drain(client, &shape.schema, options.batch).await? == options.batch) };
    batches(name, options, tell, batch).await
}

/// A change and the note that it is made: what is sent at once is one transaction.
async fn change(client: &Client, name: &str, sql: &str) -> Result<(), AdoptionError> {
    let both = store::with_note(sql, name);
    patiently(name, || client.batch_execute(&both)).await
}

/// One transaction after the other, with pauses, until there are no more rows.
pub(crate) async fn batches<F>(
    name: &str,
    options: &Options,
    tell: &mut impl FnMut(&str),
    batch: impl Fn() -> F,
) -> Result<(), AdoptionError>
where
    F: Future<Output = Result<bool, tokio_postgres::Error>>,
{
    let mut told = Instant::now();
    let mut rows = 0_i64;
    while patiently(name, &batch).await? {
        rows += i64::from(options.batch);
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            tell(&format!("{name}: about {rows} rows in this run"));
        }
        tokio::time::sleep(options.pause).await;
    }
    Ok(())
}
