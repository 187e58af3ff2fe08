//! A service's contribution to a story: what it knows about a message beyond the bus, for example the HTTP calls that the
//! message caused. `onceward trace` shows it ([`crate::Service::story`]).

use onceward_db::{Db, DbError};
use onceward_envelope::TenantId;
use serde::Serialize;
use serde_json::Value;
use std::{future::Future, pin::Pin, sync::Arc};
use uuid::Uuid;

/// A service's contribution to a story, about one message.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Contribution {
    /// The service.
    pub service: &'static str,
    /// The message it belongs to.
    #[serde(skip)]
    pub event_id: Uuid,
    /// For people: a line, and further lines that belong to it.
    #[serde(skip)]
    pub lines: Vec<String>,
    /// For programs: the content of the lines.
    pub data: Value,
}

/// Looks up what a service knows about messages of one tenant, by their event ids.
pub type Contributor = Arc<
    dyn Fn(Db, TenantId, Vec<Uuid>) -> Pin<Box<dyn Future<Output = Result<Vec<Contribution>, DbError>> + Send>>
        + Send
        + Sync,
>;
