//! The checks behind `/health/ready`.

use super::{ProcessRuntime, dedicated_sessions::DedicatedSessionCheck};
use crate::admin::relays;
use onceward_messaging::schedule;
use onceward_web::Readiness;
use std::sync::Arc;

impl ProcessRuntime {
    /// Returns the checks of this process. Advisory ones report `degraded` and leave it ready.
    pub(super) fn readiness(&self) -> Readiness {
        let mut readiness = Readiness::new().database(self.db.clone(), self.platform.required());
        let sessions = Arc::new(DedicatedSessionCheck::new(self.lookups.clone()));
        readiness = readiness.check("sessions", move || {
            let sessions = sessions.clone();
            async move { sessions.last_result().await }
        });
        let draining = self.draining.clone();
        readiness = readiness.check("shutdown", move || {
            let is_stopping = draining.is_cancelled();
            async move {
                if is_stopping { Err("this process is stopping and accepts no new requests".into()) } else { Ok(()) }
            }
        });
        for (name, check) in &self.checks {
            let check = check.clone();
            readiness = readiness.check(name, move || std::future::ready(check()));
        }
        let (db, ours) = (self.lookups.clone(), self.config.bus_kind());
        let readiness = readiness.check("bus", move || {
            let (db, ours) = (db.clone(), ours.clone());
            async move { relays::require_same_bus(&db, ours?).await }
        });
        let supervisor = self.message_log.supervisor().clone();
        let readiness = readiness.advisory("tasks", move || std::future::ready(supervisor.check()));
        let readiness = self.with_schedule_check(readiness);
        if self.broker.is_none() {
            return readiness;
        }
        let db = self.lookups.clone();
        readiness.advisory("relay", move || {
            let db = db.clone();
            async move { relays::require_healthy_relays(&db).await }
        })
    }

    /// Adds the check that schedules publish, if there are any.
    fn with_schedule_check(&self, readiness: Readiness) -> Readiness {
        let names: Vec<String> = self.platform.schedules().iter().map(|schedule| schedule.name().to_owned()).collect();
        if names.is_empty() {
            return readiness;
        }
        let db = self.lookups.clone();
        readiness.advisory("schedules", move || {
            let (db, names) = (db.clone(), names.clone());
            async move { schedule::failing(&db, &names).await }
        })
    }
}
