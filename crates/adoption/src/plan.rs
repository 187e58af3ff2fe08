//! What would be done, what is done, and what speaks against it.

use crate::{
    AdoptionError, Shape, legacy,
    steps::{Work, steps},
    store,
};
use onceward::DbConfig;
use serde::Serialize;
use tokio_postgres::Client;

/// How far a step is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is done.
    Done,
    /// So many rows are done.
    Begun {
        /// How many.
        rows: i64,
    },
    /// It is not.
    ToDo,
}

/// A step, and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// Its name.
    pub name: String,
    /// What it is good for.
    pub why: &'static str,
    /// How far it is.
    pub state: State,
    /// The statements, if it consists of some.
    pub sql: Option<String>,
}

/// Looks at the database and changes nothing. An error says what is to be put right first.
pub async fn plan(config: &DbConfig, shape: &Shape) -> Result<Vec<Planned>, AdoptionError> {
    let client = legacy::connect(config).await?;
    check(&client, shape).await?;
    let begun = store::is_begun(&client).await?;
    let (done, progress) = match begun {
        true => (store::done_steps(&client).await?, store::progress(&client).await?),
        false => Default::default(),
    };
    let state = |name: &str| match progress.iter().find(|one| one.name == name) {
        Some(one) if one.is_done => State::Done,
        Some(one) => State::Begun { rows: one.rows_done },
        None if done.iter().any(|one| one == name) => State::Done,
        None => State::ToDo,
    };
    let planned = steps(shape).into_iter().map(|step| {
        let sql = match step.work {
            Work::Change(sql) | Work::Outbox(sql) => Some(sql),
            Work::Key { constraint, .. } | Work::Reference { constraint, .. } => Some(constraint),
            Work::Amounts { .. } | Work::Missing { .. } => None,
        };
        Planned { state: state(&step.name), name: step.name, why: step.why, sql }
    });
    Ok(planned.collect())
}

/// The legacy tables are there and have the columns that will be used, and the platform is.
pub(crate) async fn check(client: &Client, shape: &Shape) -> Result<(), AdoptionError> {
    let mut wrong = store::missing_columns(client, &shape.schema).await?;
    if !store::has_enqueue(client).await? {
        wrong.push("the platform's own tables: run `onceward migrate` first".to_owned());
    } else if let Some(exchange) = &shape.exchange
        && !store::has_exchange(client, exchange).await?
    {
        wrong.push(format!("the exchange {exchange}: declare it in a service's topology and run `onceward migrate`"));
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(AdoptionError::Refused(format!("this cannot be adopted yet; missing: {}", wrong.join("; "))))
}
