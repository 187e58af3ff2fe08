//! Why lending does not do something: facts about loans, and the machinery below them.
//!
//! A fact is final for the command that met it: over HTTP it is a problem with its own page, and a command that came as
//! a message is marked as refused with it. Everything else is the machinery's, and is tried again where that can help.

use crate::model::{LoanStatus, RuleError};
use onceward::{DbError, Failure, Problem, ProblemCode, PublishError, web::problem::codes};
use onceward_audit::AuditError;
use onceward_ledger::LedgerError;
use onceward_money::MoneyError;
use uuid::Uuid;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum LendingError {
    /// There is no such loan.
    #[error("there is no loan {0}")]
    LoanMissing(Uuid),
    /// The loan's id is taken.
    #[error("there is a loan {0} already: leave loan_id out, or choose another")]
    LoanExists(Uuid),
    /// There is no such borrower.
    #[error("there is no borrower {0}: create it first, then the loan again")]
    BorrowerMissing(Uuid),
    /// A borrower with this reference is there.
    #[error("there is a borrower with the external_ref {0:?} already")]
    BorrowerExists(String),
    /// There is no such product.
    #[error("there is no product {code:?}{}: create it first", in_version(*.version))]
    ProductMissing {
        /// Its code.
        code: String,
        /// The version that was asked for.
        version: Option<i32>,
    },
    /// Product and loan are in different currencies.
    #[error("the product is in {product}, not in {loan}")]
    OtherCurrency {
        /// The product's.
        product: onceward_money::Currency,
        /// The loan's.
        loan: onceward_money::Currency,
    },
    /// The loan changed since the caller looked.
    #[error("the loan is at version {found}, not {expected}: look at it again, then decide again")]
    LoanChanged {
        /// The version that the caller saw.
        expected: i32,
        /// The version that it has.
        found: i32,
    },
    /// The loan was not paid out yet.
    #[error("the loan is not funded yet: activate it first")]
    NotFunded,
    /// The day lies ahead.
    #[error("{0} is in the future: give today or an earlier day")]
    Future(jiff::civil::Date),
    /// The day lies before what is booked.
    #[error("interest is booked up to {accrued_to}: give that day or a later one, not {day}")]
    BeforeAccrued {
        /// The day that was asked for.
        day: jiff::civil::Date,
        /// Up to which day interest is booked.
        accrued_to: jiff::civil::Date,
    },
    /// The day lies before the loan.
    #[error("the loan was funded on {funded_on}: give that day or a later one, not {day}")]
    BeforeFunding {
        /// The day that was asked for.
        day: jiff::civil::Date,
        /// When the loan was funded.
        funded_on: jiff::civil::Date,
    },
    /// The action asks for another status.
    #[error("{action} needs a loan that is {needs}; it is {status}")]
    WrongStatus {
        /// What was asked for.
        action: &'static str,
        /// What it needs.
        needs: &'static str,
        /// What the loan is.
        status: LoanStatus,
    },
    /// The status needs something booked, which another action does.
    #[error("a loan that is {from} becomes {to} by {by}")]
    OtherAction {
        /// What the loan is.
        from: LoanStatus,
        /// What it was to become.
        to: LoanStatus,
        /// How it would.
        by: &'static str,
    },
    /// Something is still owed, or still held for the borrower.
    #[error("{what} holds {amount}: settle it before the loan is closed")]
    NotSettled {
        /// Which account.
        what: &'static str,
        /// How much.
        amount: onceward_money::Minor,
    },
    /// A payment takes effect before more than can be posted again at once.
    #[error("more than {most} postings of loan {loan_id} would have to be posted again: correct it by other postings")]
    TooMuchToReplay {
        /// Whose.
        loan_id: Uuid,
        /// How many can be.
        most: usize,
    },
    /// A rule of the model says no.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The ledger says no.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The audit trail cannot take the entry.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// A message cannot be published.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The database says no.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl From<MoneyError> for LendingError {
    fn from(error: MoneyError) -> Self {
        Self::Rule(error.into())
    }
}

fn in_version(version: Option<i32>) -> String {
    version.map_or_else(String::new, |version| format!(" in version {version}"))
}

impl LendingError {
    /// A fact about the loan, which trying again does not change.
    pub fn is_refusal(&self) -> bool {
        !matches!(self, Self::Ledger(_) | Self::Audit(_) | Self::Publish(_) | Self::Db(_))
    }

    /// Trying the whole transaction again may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Ledger(error) => error.is_transient(),
            Self::Publish(error) => error.is_transient(),
            Self::Db(error) => error.is_transient(),
            _ => false,
        }
    }

    /// The field of the request that is to blame.
    fn field(&self) -> Option<&'static str> {
        match self {
            Self::BorrowerMissing(_) => Some("/borrower_entity_id"),
            Self::ProductMissing { version: None, .. } => Some("/product_code"),
            Self::ProductMissing { version: Some(_), .. } => Some("/product_version"),
            Self::OtherCurrency { .. } => Some("/currency"),
            Self::Rule(RuleError::Principal(_)) => Some("/principal_minor"),
            Self::Rule(RuleError::FundingDay(_)) => Some("/start_date"),
            Self::Rule(RuleError::FirstDue { .. } | RuleError::DueDay { .. }) => Some("/first_due_date"),
            Self::Rule(_) => Some(""),
            _ => None,
        }
    }
}

impl From<LendingError> for Failure {
    fn from(error: LendingError) -> Self {
        match error {
            LendingError::Db(error) => error.into(),
            LendingError::Publish(error) => error.into(),
            LendingError::Ledger(LedgerError::Db(error)) => error.into(),
            other => Self::permanent(other),
        }
    }
}

impl From<LendingError> for Problem {
    fn from(error: LendingError) -> Self {
        let text = error.to_string();
        if let Some(path) = error.field() {
            return Problem::new(codes::VALIDATION_FAILED).detail(&text).error(path, text);
        }
        match error {
            LendingError::Db(error) => error.into(),
            LendingError::Publish(error) => error.into(),
            LendingError::Ledger(LedgerError::Db(error)) => error.into(),
            LendingError::Ledger(error) => Problem::internal(error),
            LendingError::Audit(error) => Problem::internal(error),
            LendingError::LoanMissing(_) => Problem::new(codes::NOT_FOUND).detail(text),
            LendingError::LoanExists(_) => Problem::new(LOAN_EXISTS).detail(text),
            LendingError::BorrowerExists(_) => Problem::new(BORROWER_EXISTS).detail(text),
            LendingError::LoanChanged { .. } => Problem::new(LOAN_CHANGED).detail(text),
            LendingError::NotFunded => Problem::new(LOAN_NOT_FUNDED).detail(text),
            _ => Problem::new(LOAN_REFUSES).detail(text),
        }
    }
}

/// The loan's id is taken.
pub const LOAN_EXISTS: ProblemCode = ProblemCode {
    code: "loan-exists",
    status: 409,
    title: "There is a loan with this id already",
    page: include_str!("../../../docs/problems/loan-exists.md"),
};

/// The borrower's reference is taken.
pub const BORROWER_EXISTS: ProblemCode = ProblemCode {
    code: "borrower-exists",
    status: 409,
    title: "There is a borrower with this reference already",
    page: include_str!("../../../docs/problems/borrower-exists.md"),
};

/// The loan changed since the caller looked.
pub const LOAN_CHANGED: ProblemCode = ProblemCode {
    code: "loan-changed",
    status: 409,
    title: "The loan has changed since it was looked at",
    page: include_str!("../../../docs/problems/loan-changed.md"),
};

/// The loan was not paid out yet.
pub const LOAN_NOT_FUNDED: ProblemCode = ProblemCode {
    code: "loan-not-funded",
    status: 409,
    title: "The loan is not funded yet",
    page: include_str!("../../../docs/problems/loan-not-funded.md"),
};

/// A rule about the loan says no.
pub const LOAN_REFUSES: ProblemCode = ProblemCode {
    code: "loan-refuses",
    status: 409,
    title: "The loan's state does not allow this",
    page: include_str!("../../../docs/problems/loan-refuses.md"),
};

/// Every kind above.
pub(crate) const PROBLEMS: &[ProblemCode] =
    &[LOAN_EXISTS, BORROWER_EXISTS, LOAN_CHANGED, LOAN_NOT_FUNDED, LOAN_REFUSES];
