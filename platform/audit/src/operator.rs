//! Recording what operators do at the command line: in the chain of the tenant concerned, or in the platform's own.

use crate::{AuditError, Entry, record, store};
use onceward_db::{Scope, Tx};
use onceward_envelope::{Actor, Clock, CorrelationId, SystemClock, TenantId};
use serde_json::{Map, Value};
use std::{env, fs};

/// The tenant of the chain for actions that concern the platform as a whole.
pub const PLATFORM: &str = "platform";
/// The service that operators act through.
const SERVICE: &str = "onceward";
/// The files that may contain the name of this machine.
const HOST_FILES: [&str; 2] = ["/proc/sys/kernel/hostname", "/etc/hostname"];

/// The person who acts at a command line, and the reason. Both are kept permanently.
#[derive(Clone, Debug)]
pub struct Operator {
    /// The operator's name.
    pub name: String,
    /// The reason; empty if none is required.
    pub why: String,
}

impl Operator {
    fn scope(&self, tenant: Option<&TenantId>, correlation_id: CorrelationId) -> Scope {
        let platform = || TenantId::new(PLATFORM).ok();
        let actor = Actor { user_id: Some(self.name.clone()), service: Some(SERVICE.to_owned()) };
        Scope { tenant: tenant.cloned().or_else(platform), actor, correlation_id, ..Scope::platform(SERVICE) }
    }

    fn payload(&self, details: Map<String, Value>) -> Value {
        let mut payload = Map::from_iter([("host".to_owned(), Value::from(host()))]);
        if !self.why.is_empty() {
            payload.insert("why".to_owned(), self.why.as_str().into());
        }
        payload.extend(details);
        Value::Object(payload)
    }
}

/// Records an operator's action in `tx`: `entry`, with the machine's name, the reason and `details` as its payload, in
/// the chain of `tenant`, or in the platform's own chain if that is `None`.
///
/// It is written with the commit, like every entry. The scope of `tx` does not change.
pub fn record_action(
    tx: &mut Tx,
    operator: &Operator,
    tenant: Option<&TenantId>,
    entry: Entry,
    details: Map<String, Value>,
) -> Result<(), AuditError> {
    let before = tx.scope().clone();
    tx.enter(operator.scope(tenant, before.correlation_id.clone()));
    let recorded = record(tx, entry.payload(operator.payload(details)));
    tx.enter(before);
    recorded
}

/// Returns the statement, with its parameter, that appends an operator's action to the platform's own chain: for a
/// transaction of the owner, in which [`record_action`] cannot be used. Run it last.
pub fn owner_action(
    operator: &Operator,
    entry: Entry,
    details: Map<String, Value>,
) -> Result<(&'static str, Vec<String>), AuditError> {
    let scope = operator.scope(None, CorrelationId::generate());
    let document = entry.payload(operator.payload(details)).document(&scope, SystemClock.now())?;
    Ok((store::APPEND, vec![document]))
}

/// Returns the name of this machine.
pub fn host() -> String {
    let file = HOST_FILES.iter().find_map(|path| fs::read_to_string(path).ok());
    let host = file.or_else(|| env::var("HOSTNAME").ok()).unwrap_or_default();
    match host.trim() {
        "" => "unknown-host".to_owned(),
        host => host.to_owned(),
    }
}
