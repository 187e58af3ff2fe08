//! Gateways, and the secrets that their webhooks are signed with.

use onceward::{DbError, Tx};

const HAS: &str = "SELECT EXISTS (SELECT FROM lending.gateway_provider WHERE provider_code = $1)";
const SECRETS: &str = "
    SELECT webhook_secret, previous_secret FROM lending.provider_account WHERE provider_code = $1";
/// The secret before stays good until the next one comes.
const SET: &str = "
    INSERT INTO lending.provider_account AS a (tenant_id, provider_code, webhook_secret) VALUES ($1, $2, $3)
    ON CONFLICT (provider_code, tenant_id) DO UPDATE
        SET previous_secret = a.webhook_secret, webhook_secret = excluded.webhook_secret
        WHERE a.webhook_secret <> excluded.webhook_secret";

pub(crate) async fn has_provider(tx: &Tx, code: &str) -> Result<bool, DbError> {
    Ok(tx.query_one(HAS, &[&code]).await?.get(0))
}

/// The tenant's secrets at a provider: the one in force, and the one before.
pub(crate) async fn secrets(tx: &Tx, provider: &str) -> Result<Vec<String>, DbError> {
    let row = tx.query_opt(SECRETS, &[&provider]).await?;
    Ok(row.map_or_else(Vec::new, |row| std::iter::once(row.get(0)).chain(row.get::<_, Option<String>>(1)).collect()))
}

pub(crate) async fn set_secret(tx: &Tx, provider: &str, secret: &str) -> Result<(), DbError> {
    tx.execute(SET, &[&tx.tenant()?.as_str(), &provider, &secret]).await.map(drop)
}
