//! The SQL that several areas of the service share. Row-level security restricts every statement to the tenant.

pub(crate) mod keys;
pub(crate) mod objects;

use onceward::RequiredTable;

/// The columns that must exist before the service is ready.
pub(crate) const REQUIRED: &[RequiredTable] = &[
    RequiredTable { table: "crm.contact", columns: &["tenant_id", "contact_id", "display_name", "version"] },
    RequiredTable { table: "crm.template_version", columns: &["tenant_id", "template_id", "version", "source"] },
    RequiredTable { table: "crm.email", columns: &["tenant_id", "email_id", "status", "artifact_id"] },
    RequiredTable { table: "crm.email_recipient", columns: &["tenant_id", "email_id", "position", "state"] },
];
