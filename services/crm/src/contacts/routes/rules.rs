//! What jurisdictions demand for classes of mail.

use crate::{
    CrmError, access,
    contacts::{commands, store},
    state::CrmState,
};
use onceward::{Idempotency, prelude::*};
use onceward_mail::class::MailClass;
use serde::Deserialize;
use std::sync::Arc;

const RULES: &str = "/api/crm/jurisdiction-rules";
const RULE: &str = "/api/crm/jurisdiction-rules/{jurisdiction}/{class}";

pub(super) fn routes() -> Routes<Arc<CrmState>> {
    Routes::new()
        .get(RULES, access::read(), list)
        .summary("List what jurisdictions demand for classes of mail")
        .responds(200, "crm.rule.list.v1")
        .put(RULE, access::admin(), put)
        .summary("Set what a jurisdiction (US, US-CA) demands for a class of mail. The more specific one wins")
        .idempotency(Idempotency::Optional)
        .request("crm.rule.put.v1")
        .responds(200, "crm.rule.v1")
        .delete(RULE, access::admin(), remove)
        .summary("Remove a rule")
        .responds(200, "crm.rule.removed.v1")
}

async fn list(reader: Reader) -> Result<Response, Problem> {
    let rules = store::list_rules(&reader.tx).await?;
    reader.respond(&json!({ "rules": rules })).await
}

#[derive(Deserialize)]
struct RuleBody {
    demand: String,
    reason: String,
}

async fn put(
    Path((jurisdiction, class)): Path<(String, String)>,
    command: Command<RuleBody>,
) -> Result<Response, Problem> {
    let (RuleBody { demand, reason }, mut command) = command.into_parts();
    check(&jurisdiction, &class)?;
    commands::set_rule(&mut command.tx, (&jurisdiction, &class), &demand, &reason).await?;
    let rule = store::find_rule(&command.tx, &jurisdiction, &class).await?.ok_or(CrmError::NotFound("rule"))?;
    command.respond(StatusCode::OK, &rule).await
}

async fn remove(
    Path((jurisdiction, class)): Path<(String, String)>,
    command: Command<Option<()>>,
) -> Result<Response, Problem> {
    let (_, mut command) = command.into_parts();
    commands::remove_rule(&mut command.tx, &jurisdiction, &class).await?;
    command.respond(StatusCode::OK, &json!({ "jurisdiction": jurisdiction, "class": class })).await
}

fn check(jurisdiction: &str, class: &str) -> Result<(), CrmError> {
    class.parse::<MailClass>().map_err(|error| CrmError::invalid("", error))?;
    let (country, region) = jurisdiction.split_once('-').unwrap_or((jurisdiction, "-"));
    let is_country = country.len() == 2 && country.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_code = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit();
    let is_region =
        region == "-" && !jurisdiction.contains('-') || (1..=3).contains(&region.len()) && region.bytes().all(is_code);
    if is_country && is_region {
        return Ok(());
    }
    Err(CrmError::invalid("", "A jurisdiction is a country such as US, or a region such as US-CA, in capital letters."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jurisdiction_is_a_country_or_a_region() {
        for right in ["US", "US-CA", "GB-ENG", "VN-29"] {
            assert!(check(right, "marketing").is_ok(), "{right}");
        }
        for wrong in ["", "us", "USA", "US-", "US-CALI", "US-ca", "U1", "US-C-A"] {
            assert!(check(wrong, "marketing").is_err(), "{wrong}");
        }
        assert!(check("US", "news").is_err());
    }
}
