//! On whose behalf work is done.

use onceward_envelope::{Actor, CorrelationId, TenantId, TraceContext};
use std::fmt::Write as _;

/// On whose behalf a transaction runs.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The tenant whose rows are visible. `None` sees no tenant's rows.
    pub tenant: Option<TenantId>,
    /// Who acts.
    pub actor: Actor,
    /// The request this work belongs to.
    pub correlation_id: CorrelationId,
    /// The message that caused this work.
    pub causation_id: Option<String>,
    /// The trace to continue.
    pub trace: Option<TraceContext>,
}

impl Scope {
    /// Work for `tenant`, in a story of its own.
    pub fn tenant(tenant: TenantId) -> Self {
        Self { tenant: Some(tenant), ..Self::platform("onceward") }
    }

    /// Work of the platform itself, by `service`: sees no tenant's rows.
    pub fn platform(service: &str) -> Self {
        Self {
            tenant: None,
            actor: Actor { user_id: None, service: Some(service.to_owned()) },
            correlation_id: CorrelationId::generate(),
            causation_id: None,
            trace: None,
        }
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

/// An SQL string literal. NUL cannot be in one, so it is left out.
fn quote(text: &str) -> String {
    let text = text.replace('\0', "");
    if text.contains('\\') {
        format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
    } else {
        format!("'{}'", text.replace('\'', "''"))
    }
}
