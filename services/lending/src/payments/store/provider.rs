//! Gateways, and the secrets with which their webhooks are signed.

use onceward::{DbError, Tx};

const EXISTS: &str = "SELECT EXISTS (SELECT FROM lending.gateway_provider WHERE provider_code = $1)";
const SECRETS: &str = "
    SELECT webhook_secret, previous_secret FROM lending.provider_account WHERE provider_code = $1";
/// The previous secret stays valid until the next one is set.
const SET_SECRET: &str = "
    INSERT INTO lending.provider_account AS a (tenant_id, provider_code, webhook_secret) VALUES ($1, $2, $3)
    ON CONFLICT (provider_code, tenant_id) DO UPDATE
        SET previous_secret = a.webhook_secret, webhook_secret = excluded.webhook_secret
        WHERE a.webhook_secret <> excluded.webhook_secret";

pub(crate) async fn has_provider(tx: &Tx, code: &str) -> Result<bool, DbError> {
    Ok(tx.query_one(EXISTS, &[&code]).await?.get(0))
}

/// Returns the tenant's secrets at a provider: the current one, and the previous one.
pub(crate) async fn secrets(tx: &Tx, provider: &str) -> Result<Vec<String>, DbError> {
    let row = tx.query_opt(SECRETS, &[&provider]).await?;
    Ok(row.map_or_else(Vec::new, |row| std::iter::once(row.get(0)).chain(row.get::<_, Option<String>>(1)).collect()))
}

pub(crate) async fn set_secret(tx: &Tx, provider: &str, secret: &str) -> Result<(), DbError> {
    tx.execute(SET_SECRET, &[&tx.tenant()?.as_str(), &provider, &secret]).await.map(drop)
}
