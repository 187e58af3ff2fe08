//! Work of a service that runs continuously, beside its consumers.
//!
//! A task runs in every process of the role `worker`, so several may run at once: its work must be claimed in the
//! database. One that fails or panics is restarted by the process's supervisor.

use futures_util::{FutureExt, future::BoxFuture};
use onceward_db::Db;
use onceward_outbound::Outbound;
use onceward_supervisor::Supervisor;
pub use onceward_supervisor::TaskError;
use std::{future::Future, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// The context of a task.
#[derive(Clone)]
pub struct TaskContext {
    /// A database handle whose transactions can publish.
    pub db: Db,
    /// Cancelled when the process is to stop: accept no more work, and finish or return what is in flight.
    pub stop: CancellationToken,
    /// How long work in flight may then take.
    pub grace: Duration,
    /// Receives failures of work that the task itself starts and retries.
    pub supervisor: Supervisor,
    /// The destinations that the services declare.
    pub outbound: Outbound,
}

type TaskFn = Arc<dyn Fn(TaskContext) -> BoxFuture<'static, Result<(), TaskError>> + Send + Sync>;

/// A task as a service declares it.
#[derive(Clone)]
pub(crate) struct ServiceTask {
    name: &'static str,
    run: TaskFn,
}

impl ServiceTask {
    pub(crate) fn new<F, Fut>(name: &'static str, run: F) -> Self
    where
        F: Fn(TaskContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), TaskError>> + Send + 'static,
    {
        Self { name, run: Arc::new(move |context| run(context).boxed()) }
    }

    /// Runs the task until it is asked to stop or reports that it is done.
    pub(crate) async fn supervised(self, context: TaskContext) {
        let name = format!("task:{}", self.name);
        context.supervisor.run_to_end(&name, &context.stop, || (self.run)(context.clone())).await;
    }
}
