//! Checks templates outside the threads that serve requests, because a large one takes time.

use crate::CrmError;
use onceward_mail::template::{CheckedTemplate, TemplateProblem, TemplateSource};
use tokio::sync::Semaphore;

/// Templates that are checked concurrently per process at the most; others wait.
const CONCURRENT_MAX: usize = 2;
static CHECKING: Semaphore = Semaphore::const_new(CONCURRENT_MAX);

/// Returns the checked template, or all of its problems.
pub(super) async fn compile(source: TemplateSource) -> Result<Result<CheckedTemplate, Vec<TemplateProblem>>, CrmError> {
    let failed = |error: &dyn std::fmt::Display| CrmError::Other(format!("checking a template failed: {error}"));
    let _permit = CHECKING.acquire().await.map_err(|closed| failed(&closed))?;
    let checked = tokio::task::spawn_blocking(move || CheckedTemplate::check(source));
    checked.await.map_err(|error| failed(&error))
}
