//! Arguments that name the operator and the reason for an act. Both are recorded in the audit trail.

use super::account;
use onceward_message_log::triage::Operator;

/// The operator, for commands that do not require a reason.
#[derive(Clone, Debug, clap::Args)]
pub struct OperatorArgs {
    /// The reason, which is kept in the audit trail permanently
    #[arg(long, value_name = "TEXT", value_parser = non_empty_text)]
    why: Option<String>,
    /// The person who acts, if not the account that runs this command
    #[arg(long = "as", value_name = "NAME", default_value_t = account::name(), value_parser = non_empty_text)]
    name: String,
}

impl OperatorArgs {
    /// Returns the operator, with `why` as the reason if none was given.
    pub(super) fn operator(&self, why: &str) -> Operator {
        Operator { name: self.name.clone(), why: self.why.clone().unwrap_or_else(|| why.to_owned()) }
    }
}

/// The operator, for commands that require a reason.
#[derive(Debug, clap::Args)]
pub struct OperatorWithReasonArgs {
    /// The reason, which is kept in the history permanently
    #[arg(long, value_name = "TEXT", value_parser = non_empty_text)]
    why: String,
    /// The person who acts, if not the account that runs this command
    #[arg(long = "as", value_name = "NAME", default_value_t = account::name(), value_parser = non_empty_text)]
    name: String,
}

impl OperatorWithReasonArgs {
    /// Returns the operator.
    pub(super) fn operator(self) -> Operator {
        Operator { name: self.name, why: self.why }
    }
}

/// Returns the account that runs this program, for side effects of a command that the operator did not request.
pub(super) fn account(why: &str) -> Operator {
    Operator { name: account::name(), why: why.to_owned() }
}

/// Parses a text argument that must not be empty.
pub(super) fn non_empty_text(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("it must not be empty".to_owned()),
        text => Ok(text.to_owned()),
    }
}
