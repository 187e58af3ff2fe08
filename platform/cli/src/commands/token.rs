//! `token issue`.

use super::operator::OperatorArgs;
use jiff::Timestamp;
use onceward::{Config, Platform};
use onceward_audit::{self as audit, Entry};
use onceward_db::{Db, Scope};
use onceward_envelope::TenantId;
use onceward_message_log::triage::Operator;
use onceward_web::{Claims, issue_hs256};
use serde_json::{Map, Value, json};
use std::{path::Path, process::ExitCode};

/// Commands about tokens.
#[derive(Debug, clap::Subcommand)]
pub enum TokenCommand {
    /// Issue a token signed with the local HS256 secret
    ///
    /// The issue is recorded in the tenant's audit chain, without the token itself. If no database is reachable, the token is
    /// issued anyway, and a line on standard error says that it was not recorded.
    Issue {
        /// The tenant whose data it gives access to
        #[arg(long)]
        tenant: TenantId,
        /// The user it identifies
        #[arg(long, default_value = "developer")]
        user: String,
        /// A role; may be given more than once. Default: every role that a route requires
        #[arg(long = "role")]
        roles: Vec<String>,
        /// How many hours it is valid
        #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=8760))]
        hours: u64,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        operator: OperatorArgs,
    },
}

pub(super) async fn run(
    platform: &Platform,
    config: &Config,
    data: &Path,
    command: TokenCommand,
) -> anyhow::Result<ExitCode> {
    let TokenCommand::Issue { tenant, user, roles, hours, json, operator } = command;
    let mut config = config.clone();
    if config.auth.secret.is_empty() {
        let path = data.join("secret");
        config.auth.secret = std::fs::read_to_string(&path).map(|secret| secret.trim().to_owned()).map_err(|_| {
            anyhow::anyhow!(
                "there is no secret; set ONCEWARD_AUTH_SECRET, or run `onceward up` first, which creates {}",
                path.display()
            )
        })?;
    }
    let known = platform.roles();
    for role in roles.iter().filter(|role| !known.contains(role)) {
        eprintln!("no route requires the role {role}; known roles: {}", known.join(", "));
    }
    let roles = if roles.is_empty() { known } else { roles };
    let request = TokenRequest { tenant: &tenant, user: &user, roles: &roles, hours };
    let token = request.issue(&config, &operator.operator("a token was issued")).await;
    if json {
        println!(
            "{}",
            json!({"token": token, "tenant": tenant, "user": user, "roles": roles, "expiresInHours": hours})
        );
    } else {
        println!("{token}");
    }
    Ok(ExitCode::SUCCESS)
}

/// A token to issue. The audit trail records all of these fields.
pub(super) struct TokenRequest<'a> {
    pub(super) tenant: &'a TenantId,
    pub(super) user: &'a str,
    pub(super) roles: &'a [String],
    pub(super) hours: u64,
}

impl TokenRequest<'_> {
    /// Records and returns the token. If it cannot be recorded, prints a line on standard error.
    pub(super) async fn issue(&self, config: &Config, operator: &Operator) -> String {
        if let Err(error) = self.record(config, operator).await {
            eprintln!("the token was not recorded in the audit trail: {error:#}");
        }
        self.signed(config)
    }

    /// Records the token before it is printed: a token that only the audit trail knows does no harm.
    async fn record(&self, config: &Config, operator: &Operator) -> anyhow::Result<()> {
        let db = Db::connect(super::database(config)?)?;
        let mut tx = db.begin(Scope::for_tenant(self.tenant.clone())).await?;
        let details: Map<String, Value> = [
            ("user".to_owned(), json!(self.user)),
            ("roles".to_owned(), json!(self.roles)),
            ("expiresInHours".to_owned(), json!(self.hours)),
        ]
        .into_iter()
        .collect();
        let entry = Entry::new("token_issued").object("user", self.user);
        audit::record_action(&mut tx, operator, Some(self.tenant), entry, details)?;
        tx.commit().await?;
        Ok(())
    }

    fn signed(&self, config: &Config) -> String {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let now = u64::try_from(Timestamp::now().as_second()).unwrap_or(0);
        let claims = Claims {
            sub: self.user.to_owned(),
            tenant: self.tenant.to_string(),
            roles: self.roles.to_vec(),
            exp: now + self.hours * 3600,
            nbf: None,
            iss: given(&config.auth.issuer),
            aud: given(&config.auth.audience),
        };
        issue_hs256(config.auth.secret.as_bytes(), &claims)
    }
}
