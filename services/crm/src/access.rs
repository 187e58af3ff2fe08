//! The roles of this service.

use onceward::Access;

/// Reads contacts, templates, mails and settings.
pub(crate) fn read() -> Access {
    Access::role("crm:read")
}

/// Changes contacts, and requests mails.
pub(crate) fn write() -> Access {
    Access::role("crm:write")
}

/// Changes what applies to all mails (rules, templates, senders), and erases.
pub(crate) fn admin() -> Access {
    Access::role("crm:admin")
}
