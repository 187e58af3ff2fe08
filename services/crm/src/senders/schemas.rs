//! The JSON Schemas of requests and answers about senders.

/// All of them.
pub(crate) const SCHEMAS: &[&str] = &[
    include_str!("../../schemas/crm.sender.put.v1.json"),
    include_str!("../../schemas/crm.sender.v1.json"),
    include_str!("../../schemas/crm.sender.list.v1.json"),
    include_str!("../../schemas/crm.dkim.new.v1.json"),
    include_str!("../../schemas/crm.dkim.v1.json"),
    include_str!("../../schemas/crm.dkim.removed.v1.json"),
];
