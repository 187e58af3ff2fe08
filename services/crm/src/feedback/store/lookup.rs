//! The lookups across tenants: to whom a report belongs, before its tenant is known.

use onceward::{Db, DbError, TenantId, Tx};
use uuid::Uuid;

const TENANT: &str = "SELECT crm.tenant_of_email($1)";
const BY_PROVIDER_ID: &str = "SELECT tenant_id, email_id, position FROM crm.recipient_of_provider_id($1, $2)";
const BY_MESSAGE_ID: &str = "SELECT recipient.position FROM crm.artifact
    JOIN crm.email_recipient recipient
        ON recipient.email_id = artifact.email_id AND recipient.tenant_id = artifact.tenant_id
    WHERE artifact.email_id = $1 AND artifact.message_id = $2 LIMIT 2";

/// Returns the tenant of a mail.
pub(crate) async fn email_tenant(db: &Db, email_id: Uuid) -> Result<Option<TenantId>, DbError> {
    let rows = db.connection().await?.query(TENANT, &[&email_id]).await?;
    let tenant: Option<String> = rows.first().and_then(|row| row.get(0));
    Ok(tenant.and_then(|tenant| TenantId::new(tenant).ok()))
}

/// Returns the recipient that a provider knows by this id, if exactly one has it.
pub(crate) async fn provider_recipient(
    db: &Db,
    provider: &str,
    provider_id: &str,
) -> Result<Option<(TenantId, Uuid, i16)>, DbError> {
    let rows = db.connection().await?.query(BY_PROVIDER_ID, &[&provider, &provider_id]).await?;
    let read = |row: &onceward::Row| Some((TenantId::new(row.get::<_, &str>(0)).ok()?, row.get(1), row.get(2)));
    Ok(rows.first().and_then(read))
}

/// Returns the positions of the recipients of a mail with this Message-ID, at most two.
pub(crate) async fn message_id_recipients(tx: &Tx, email_id: Uuid, message_id: &str) -> Result<Vec<i16>, DbError> {
    let rows = tx.query(BY_MESSAGE_ID, &[&email_id, &message_id]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}
