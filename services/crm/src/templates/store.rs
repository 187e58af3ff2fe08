//! The SQL of templates. Row-level security restricts every statement to the tenant.

use crate::CrmError;
use jiff::Timestamp;
use onceward::{DbError, Row, Tx};
use onceward_mail::{
    class::{MailClass, MailDelivery},
    template::TemplateSource,
};
use serde::Serialize;
use serde_json::Value;

const CURRENT_VERSION: &str = "SELECT version FROM crm.template WHERE template_id = $1 AND retired_at IS NULL";
const FIND_VERSION: &str = "
    SELECT mail_class, delivery, source, sha256, created_by, created_at
    FROM crm.template_version
    WHERE template_id = $1 AND version = $2";
const FIND: &str = "
    SELECT template_id, mail_class, version, retired_at, created_at, updated_at
    FROM crm.template
    WHERE template_id = $1";
const LOCK: &str = "
    SELECT template_id, mail_class, version, retired_at, created_at, updated_at
    FROM crm.template
    WHERE template_id = $1
    FOR NO KEY UPDATE";
const LIST: &str = "
    SELECT template_id, mail_class, version, retired_at, created_at, updated_at
    FROM crm.template
    WHERE tenant_id = $1 AND template_id > $2 AND ($3 OR retired_at IS NULL)
    ORDER BY template_id
    LIMIT $4";
const VERSIONS: &str = "
    SELECT version, mail_class, delivery, sha256, created_by, created_at
    FROM crm.template_version
    WHERE template_id = $1
    ORDER BY version DESC
    LIMIT $2";
const INSERT: &str = "
    INSERT INTO crm.template (tenant_id, template_id, mail_class, version)
    VALUES ($1, $2, $3, 1)
    ON CONFLICT DO NOTHING";
const UPDATE: &str = "
    UPDATE crm.template
    SET version = $2, mail_class = $3, retired_at = NULL, updated_at = now()
    WHERE template_id = $1";
const RETIRE: &str = "UPDATE crm.template SET retired_at = now(), updated_at = now() WHERE template_id = $1";
const INSERT_VERSION: &str = "
    INSERT INTO crm.template_version (tenant_id, template_id, version, mail_class, delivery, source, sha256, created_by)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

/// Versions shown with a template, latest first.
const VERSIONS_SHOWN: i64 = 100;

/// A template without its versions.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct TemplateSummary {
    pub template_id: String,
    pub class: String,
    pub version: i32,
    pub retired_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A version as it is listed, without its source.
#[derive(Debug, Serialize)]
pub(crate) struct TemplateVersionSummary {
    pub version: i32,
    pub class: String,
    pub delivery: String,
    pub sha256: String,
    pub created_by: Option<String>,
    pub created_at: Timestamp,
}

/// A version as it is stored.
pub(crate) struct TemplateVersionRow {
    pub class: MailClass,
    pub delivery: MailDelivery,
    pub source: TemplateSource,
    pub sha256: String,
    pub created_by: Option<String>,
    pub created_at: Timestamp,
}

/// What the author of a version decides.
pub(crate) struct NewTemplateVersion<'v> {
    pub template_id: &'v str,
    pub version: i32,
    pub class: MailClass,
    pub delivery: MailDelivery,
    pub source: &'v Value,
    pub sha256: &'v str,
}

/// Returns the latest version of a template that is not retired.
pub(crate) async fn current_version(tx: &Tx, template_id: &str) -> Result<Option<i32>, DbError> {
    Ok(tx.query_opt(CURRENT_VERSION, &[&template_id]).await?.map(|row| row.get(0)))
}

pub(crate) async fn find_version(
    tx: &Tx,
    template_id: &str,
    version: i32,
) -> Result<Option<TemplateVersionRow>, CrmError> {
    let row = tx.query_opt(FIND_VERSION, &[&template_id, &version]).await?;
    row.as_ref().map(read_version).transpose()
}

pub(crate) async fn find_template(tx: &Tx, template_id: &str) -> Result<Option<TemplateSummary>, DbError> {
    Ok(tx.query_opt(FIND, &[&template_id]).await?.as_ref().map(read_template))
}

/// Locks a template, so that two versions cannot be saved at the same time.
pub(crate) async fn lock_template(tx: &Tx, template_id: &str) -> Result<Option<TemplateSummary>, DbError> {
    Ok(tx.query_opt(LOCK, &[&template_id]).await?.as_ref().map(read_template))
}

/// Returns the templates after `cursor` in the order of their ids.
pub(crate) async fn list_templates(
    tx: &Tx,
    cursor: &str,
    with_retired: bool,
    limit: i64,
) -> Result<Vec<TemplateSummary>, DbError> {
    let rows = tx.query(LIST, &[&tx.tenant()?.as_str(), &cursor, &with_retired, &limit]).await?;
    Ok(rows.iter().map(read_template).collect())
}

pub(crate) async fn list_versions(tx: &Tx, template_id: &str) -> Result<Vec<TemplateVersionSummary>, DbError> {
    let rows = tx.query(VERSIONS, &[&template_id, &VERSIONS_SHOWN]).await?;
    let versions = rows.iter().map(|row| TemplateVersionSummary {
        version: row.get("version"),
        class: row.get("mail_class"),
        delivery: row.get("delivery"),
        sha256: row.get("sha256"),
        created_by: row.get("created_by"),
        created_at: row.get("created_at"),
    });
    Ok(versions.collect())
}

/// Inserts a template whose first version follows. Returns `false` if it exists.
pub(crate) async fn insert_template(tx: &Tx, template_id: &str, class: MailClass) -> Result<bool, DbError> {
    Ok(tx.execute(INSERT, &[&tx.tenant()?.as_str(), &template_id, &class.as_str()]).await? == 1)
}

/// Makes a version the current one. A retired template comes back into use.
pub(crate) async fn set_current(tx: &Tx, template_id: &str, version: i32, class: MailClass) -> Result<(), DbError> {
    tx.execute(UPDATE, &[&template_id, &version, &class.as_str()]).await.map(drop)
}

pub(crate) async fn retire(tx: &Tx, template_id: &str) -> Result<(), DbError> {
    tx.execute(RETIRE, &[&template_id]).await.map(drop)
}

pub(crate) async fn insert_version(tx: &Tx, new: &NewTemplateVersion<'_>) -> Result<(), DbError> {
    let NewTemplateVersion { template_id, version, class, delivery, source, sha256 } = new;
    let actor = tx.scope().actor.user_id.as_deref().or(tx.scope().actor.service.as_deref());
    let tenant = tx.tenant()?.as_str();
    let (class, delivery) = (class.as_str(), delivery_name(*delivery));
    tx.execute(INSERT_VERSION, &[&tenant, template_id, version, &class, &delivery, *source, sha256, &actor])
        .await
        .map(drop)
}

/// Returns the name that the database and JSON use.
pub(crate) fn delivery_name(delivery: MailDelivery) -> &'static str {
    match delivery {
        MailDelivery::AtMostOnce => "at_most_once",
        MailDelivery::AtLeastOnce => "at_least_once",
    }
}

fn read_template(row: &Row) -> TemplateSummary {
    TemplateSummary {
        template_id: row.get("template_id"),
        class: row.get("mail_class"),
        version: row.get("version"),
        retired_at: row.get("retired_at"),
        created_at: row.get("created_at"),
        updated_at: row.get("updated_at"),
    }
}

fn read_version(row: &Row) -> Result<TemplateVersionRow, CrmError> {
    let damaged = |error: &dyn std::fmt::Display| CrmError::Other(format!("a stored template is damaged: {error}"));
    let class: MailClass = row.get::<_, &str>("mail_class").parse().map_err(|error| damaged(&error))?;
    let delivery = match row.get("delivery") {
        "at_least_once" => MailDelivery::AtLeastOnce,
        _ => MailDelivery::AtMostOnce,
    };
    let source = serde_json::from_value(row.get("source")).map_err(|error| damaged(&error))?;
    Ok(TemplateVersionRow {
        class,
        delivery,
        source,
        sha256: row.get("sha256"),
        created_by: row.get("created_by"),
        created_at: row.get("created_at"),
    })
}
