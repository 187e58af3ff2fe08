//! Lists the steps with their state, and checks the requirements.

use crate::{
    AdoptionError, LegacyMapping, connection,
    steps::{StepAction, steps},
    store,
};
use onceward::DbConfig;
use serde::Serialize;
use tokio_postgres::Client;

/// The state of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// The step is complete.
    Done,
    /// The step is in progress.
    #[serde(rename = "begun")]
    Started {
        /// The number of rows processed so far.
        rows: i64,
    },
    /// The step has not started.
    #[serde(rename = "to_do")]
    Pending,
}

/// A step and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlannedStep {
    /// The name of the step.
    pub name: String,
    /// What the step does and why.
    #[serde(rename = "why")]
    pub purpose: &'static str,
    /// How far the step is.
    pub state: StepState,
    /// The SQL statements, unless the step only processes rows.
    pub sql: Option<String>,
}

/// Returns all steps with their state and changes nothing. Fails if the requirements are not met; the error lists what
/// is missing.
pub async fn plan(config: &DbConfig, mapping: &LegacyMapping) -> Result<Vec<PlannedStep>, AdoptionError> {
    let client = connection::connect(config).await?;
    check(&client, mapping).await?;
    let started = store::has_started(&client).await?;
    let (done, progress) = match started {
        true => (store::done_steps(&client).await?, store::batch_progress(&client).await?),
        false => Default::default(),
    };
    let state = |name: &str| match progress.iter().find(|one| one.name == name) {
        Some(one) if one.is_done => StepState::Done,
        Some(one) => StepState::Started { rows: one.rows_done },
        None if done.iter().any(|one| one == name) => StepState::Done,
        None => StepState::Pending,
    };
    let planned = steps(mapping).into_iter().map(|step| {
        let sql = match step.action {
            StepAction::Change(sql) | StepAction::PublishOutbox(sql) => Some(sql),
            StepAction::UniqueKey { constraint, .. } | StepAction::ForeignKey { constraint, .. } => Some(constraint),
            StepAction::BackfillAmounts { .. } | StepAction::ListMissingReferences { .. } => None,
        };
        PlannedStep { state: state(&step.name), name: step.name, purpose: step.purpose, sql }
    });
    Ok(planned.collect())
}

/// Fails unless the legacy tables have the required columns and the platform's tables exist; the error lists what is
/// missing.
pub(crate) async fn check(client: &Client, mapping: &LegacyMapping) -> Result<(), AdoptionError> {
    let mut missing = store::missing_columns(client, &mapping.schema).await?;
    if !store::has_enqueue(client).await? {
        missing.push("the platform's own tables: run `onceward migrate` first".to_owned());
    } else if let Some(exchange) = &mapping.exchange
        && !store::has_exchange(client, exchange).await?
    {
        missing.push(format!("the exchange {exchange}: declare it in a service's topology and run `onceward migrate`"));
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(AdoptionError::Refused(format!("this database cannot be adopted yet; missing: {}", missing.join("; "))))
}
