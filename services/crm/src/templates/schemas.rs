//! The JSON Schemas of requests and answers about templates.

/// All of them.
pub(crate) const SCHEMAS: &[&str] = &[
    include_str!("../../schemas/crm.template.source.v1.json"),
    include_str!("../../schemas/crm.template.new.v1.json"),
    include_str!("../../schemas/crm.template.save.v1.json"),
    include_str!("../../schemas/crm.template.saved.v1.json"),
    include_str!("../../schemas/crm.template.summary.v1.json"),
    include_str!("../../schemas/crm.template.list.v1.json"),
    include_str!("../../schemas/crm.template.v1.json"),
    include_str!("../../schemas/crm.template.version.v1.json"),
    include_str!("../../schemas/crm.template.preview.v1.json"),
    include_str!("../../schemas/crm.template.previewed.v1.json"),
    include_str!("../../schemas/crm.template.diff.v1.json"),
    include_str!("../../schemas/crm.template.installed.v1.json"),
];
