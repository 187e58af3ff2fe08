//! The tenant, actor and correlation of a transaction.

use crate::APP_ROLE;
use onceward_envelope::{Actor, CorrelationId, TenantId, TraceContext};
use std::fmt::Write as _;

/// The tenant on whose behalf a transaction runs, its actor, and the story it belongs to.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The tenant whose rows are visible. With `None`, no tenant's rows are.
    pub tenant: Option<TenantId>,
    /// The actor.
    pub actor: Actor,
    /// The request this work belongs to.
    pub correlation_id: CorrelationId,
    /// The message that caused this work.
    pub causation_id: Option<String>,
    /// The trace to continue.
    pub trace: Option<TraceContext>,
}

impl Scope {
    /// The acting service if none is named.
    pub const NO_SERVICE: &str = "onceward";

    /// Work for `tenant`, with a new correlation id.
    pub fn for_tenant(tenant: TenantId) -> Self {
        Self { tenant: Some(tenant), ..Self::platform(Self::NO_SERVICE) }
    }

    /// Work of the platform itself, by `service`. It sees no tenant's rows.
    pub fn platform(service: &str) -> Self {
        Self {
            tenant: None,
            actor: Actor { user_id: None, service: Some(service.to_owned()) },
            correlation_id: CorrelationId::generate(),
            causation_id: None,
            trace: None,
        }
    }

    /// Returns the statements that begin a transaction. They also set the role, in the same round trip, although the
    /// session already has it: a transaction that a pooler assigned to another session must not run as the owner, which
    /// row-level security does not restrict.
    pub(crate) fn begin(&self) -> String {
        format!("BEGIN; SET LOCAL ROLE {APP_ROLE}; {}", self.settings())
    }

    pub(crate) fn settings(&self) -> String {
        let mut sql = String::with_capacity(96);
        let tenant = self.tenant.as_ref().map_or("", TenantId::as_str);
        let actor = self.actor.user_id.as_deref().or(self.actor.service.as_deref()).unwrap_or("");
        let _ = write!(
            sql,
            "SET LOCAL onceward.tenant_id = {}; SET LOCAL onceward.actor = {}",
            quote(tenant),
            quote(actor)
        );
        sql
    }
}

/// Returns an SQL string literal. It cannot contain NUL, so NUL is removed.
fn quote(text: &str) -> String {
    let text = text.replace('\0', "");
    if text.contains('\\') {
        format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}
