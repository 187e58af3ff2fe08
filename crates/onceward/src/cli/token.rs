//! `token issue`.

use crate::{Config, Platform};
use jiff::Timestamp;
use onceward_envelope::TenantId;
use onceward_web::{Claims, issue_hs256};
use std::{path::PathBuf, process::ExitCode};

/// What can be done with tokens.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Issue a token signed with the local HS256 secret
    Issue {
        /// Whose data it opens
        #[arg(long)]
        tenant: TenantId,
        /// Who it speaks for
        #[arg(long, default_value = "developer")]
        user: String,
        /// A role; may be given more than once. Without one, the token has every role that a route asks for
        #[arg(long = "role")]
        roles: Vec<String>,
        /// How long it is valid, in hours
        #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..=8760))]
        hours: u64,
        /// The data folder of `onceward up`, where its secret is
        #[arg(long, default_value = ".onceward", env = "ONCEWARD_DATA")]
        data: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn run(platform: &Platform, config: &Config, command: Command) -> anyhow::Result<ExitCode> {
    let Command::Issue { tenant, user, roles, hours, data, json } = command;
    let mut config = config.clone();
    if config.auth.secret.is_empty() {
        let path = data.join("secret");
        config.auth.secret = std::fs::read_to_string(&path).map(|secret| secret.trim().to_owned()).map_err(|_| {
            anyhow::anyhow!(
                "no secret: set ONCEWARD_AUTH_SECRET, or run `onceward up` first, which makes {}",
                path.display()
            )
        })?;
    }
    let roles = if roles.is_empty() { platform.roles() } else { roles };
    let token = issue(&config, tenant.as_str(), &user, roles.clone(), hours * 3600);
    if json {
        println!(
            "{}",
            serde_json::json!({"token": token, "tenant": tenant, "user": user, "roles": roles, "expiresInHours": hours})
        );
    } else {
        println!("{token}");
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn issue(config: &Config, tenant: &str, user: &str, roles: Vec<String>, valid_s: u64) -> String {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let now = u64::try_from(Timestamp::now().as_second()).unwrap_or(0);
    let claims = Claims {
        sub: user.to_owned(),
        tenant: tenant.to_owned(),
        roles,
        exp: now + valid_s,
        nbf: None,
        iss: given(&config.auth.issuer),
        aud: given(&config.auth.audience),
    };
    issue_hs256(config.auth.secret.as_bytes(), &claims)
}
