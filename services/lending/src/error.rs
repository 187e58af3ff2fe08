//! The errors of lending: facts about loans, and failures of the infrastructure below them.
//!
//! A fact is final for the command that met it: over HTTP it is a problem with its own page, and an asynchronous
//! command is marked as refused with it. All other errors come from the infrastructure and are retried where that can
//! help.

use crate::model::{LoanStatus, RuleError};
use onceward::{DbError, Failure, Problem, ProblemCode, PublishError, web::problem::codes};
use onceward_audit::AuditError;
use onceward_ledger::LedgerError;
use onceward_money::MoneyError;
use uuid::Uuid;

/// The reason why a command was not executed.
#[derive(Debug, thiserror::Error)]
pub enum LendingError {
    /// The loan does not exist.
    #[error("there is no loan {0}")]
    LoanMissing(Uuid),
    /// The loan's id is already in use.
    #[error("a loan {0} already exists: omit loan_id, or use another")]
    LoanExists(Uuid),
    /// The id is all zeros, which denotes no loan in the ledger.
    #[error("a loan's id cannot be all zeros: omit loan_id, or use another")]
    ZeroLoanId,
    /// The borrower does not exist.
    #[error("there is no borrower {0}: create it first, then the loan")]
    BorrowerMissing(Uuid),
    /// A borrower with this reference already exists.
    #[error("a borrower with the external_ref {0:?} already exists: use that one, or another external_ref")]
    BorrowerExists(String),
    /// The product does not exist.
    #[error("there is no product {code:?}{}: create it first", in_version(*.version))]
    ProductMissing {
        /// The product's code.
        code: String,
        /// The requested version.
        version: Option<i32>,
    },
    /// Product and loan have different currencies.
    #[error("the product's currency is {product}, not {loan}")]
    CurrencyMismatch {
        /// The product's currency.
        product: onceward_money::Currency,
        /// The loan's currency.
        loan: onceward_money::Currency,
    },
    /// Payments are not accepted in the product's currency.
    #[error("payments are accepted in {payable} only, so a loan in {0} could never be paid: use {payable}", payable = crate::payments::CURRENCY)]
    CurrencyNotPayable(onceward_money::Currency),
    /// The loan changed since the caller read it.
    #[error("the loan has version {found}, not {expected}: read it again, then repeat the change")]
    LoanChanged {
        /// The version that the caller saw.
        expected: i32,
        /// The current version.
        found: i32,
    },
    /// The loan is not funded yet.
    #[error("the loan is not funded yet: activate it first")]
    NotFunded,
    /// The day is in the future.
    #[error("{0} is in the future: use today or an earlier day")]
    FutureDate(jiff::civil::Date),
    /// The day is before the day up to which interest is booked.
    #[error("interest is booked up to {accrued_to}: use that day or a later one, not {day}")]
    BeforeAccrued {
        /// The requested day.
        day: jiff::civil::Date,
        /// The day up to which interest is booked.
        accrued_to: jiff::civil::Date,
    },
    /// The day is before the funding day.
    #[error("the loan was funded on {funded_on}: use that day or a later one, not {day}")]
    BeforeFunding {
        /// The requested day.
        day: jiff::civil::Date,
        /// The funding day.
        funded_on: jiff::civil::Date,
    },
    /// The day is before the last change of status.
    #[error("the loan has been {status} since {since}: use that day or a later one, not {day}")]
    BeforeLastStatus {
        /// The requested day.
        day: jiff::civil::Date,
        /// The current status.
        status: LoanStatus,
        /// The day from which it counts.
        since: jiff::civil::Date,
    },
    /// The refund exceeds the suspense balance.
    #[error("suspense held {held} on that day and ever since, so {amount} cannot be refunded: use 1 to {held}")]
    RefundTooLarge {
        /// The requested amount.
        amount: onceward_money::Minor,
        /// The refundable amount.
        held: onceward_money::Minor,
    },
    /// The action requires another status.
    #[error("{action} requires a loan that is {needs}; it is {status}")]
    WrongStatus {
        /// The requested action.
        action: &'static str,
        /// The statuses that it requires.
        needs: &'static str,
        /// The current status.
        status: LoanStatus,
    },
    /// The new status requires a booking, which another action makes.
    #[error("a loan that is {from} becomes {to} by {action}")]
    OtherAction {
        /// The current status.
        from: LoanStatus,
        /// The requested status.
        to: LoanStatus,
        /// The action that leads to it.
        action: &'static str,
    },
    /// A balance is still owed, or still held for the borrower.
    #[error("{account} holds {amount}: settle it before closing the loan")]
    NotSettled {
        /// The account.
        account: &'static str,
        /// Its balance.
        amount: onceward_money::Minor,
    },
    /// The payment's state, or a rule that it breaks, does not allow the request.
    #[error("{0}")]
    PaymentRefused(String),
    /// A payment takes effect before more postings than can be replayed at once.
    #[error(
        "more than {max} postings of loan {loan_id} would have to be posted again: correct the loan by other postings"
    )]
    ReplayTooLarge {
        /// The loan.
        loan_id: Uuid,
        /// The maximum number of postings.
        max: usize,
    },
    /// A rule of the model refuses.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The ledger refuses.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The audit trail cannot store the entry.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// A message cannot be published.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The database reports an error.
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
    /// Returns whether this is a fact about the loan, which a retry does not change.
    pub fn is_refusal(&self) -> bool {
        !matches!(self, Self::Ledger(_) | Self::Audit(_) | Self::Publish(_) | Self::Db(_))
    }

    /// Returns whether a retry of the whole transaction may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Ledger(error) => error.is_transient(),
            Self::Publish(error) => error.is_transient(),
            Self::Db(error) => error.is_transient(),
            _ => false,
        }
    }

    /// Returns the field of the request that caused the error.
    fn field(&self) -> Option<&'static str> {
        match self {
            Self::ZeroLoanId => Some("/loan_id"),
            Self::BorrowerMissing(_) => Some("/borrower_entity_id"),
            Self::ProductMissing { version: None, .. } => Some("/product_code"),
            Self::ProductMissing { version: Some(_), .. } => Some("/product_version"),
            Self::CurrencyMismatch { .. } | Self::CurrencyNotPayable(_) => Some("/currency"),
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

/// The loan's id is already in use.
pub const LOAN_EXISTS: ProblemCode = ProblemCode {
    code: "loan-exists",
    status: 409,
    title: "A loan with this id already exists",
    page: include_str!("../problems/loan-exists.md"),
};

/// The borrower's reference is already in use.
pub const BORROWER_EXISTS: ProblemCode = ProblemCode {
    code: "borrower-exists",
    status: 409,
    title: "A borrower with this reference already exists",
    page: include_str!("../problems/borrower-exists.md"),
};

/// The loan changed since the caller read it.
pub const LOAN_CHANGED: ProblemCode = ProblemCode {
    code: "loan-changed",
    status: 409,
    title: "The loan has changed since it was read",
    page: include_str!("../problems/loan-changed.md"),
};

/// The loan is not funded yet.
pub const LOAN_NOT_FUNDED: ProblemCode = ProblemCode {
    code: "loan-not-funded",
    status: 409,
    title: "The loan is not funded yet",
    page: include_str!("../problems/loan-not-funded.md"),
};

/// A rule about the loan refuses.
pub const LOAN_REFUSES: ProblemCode = ProblemCode {
    code: "loan-refuses",
    status: 409,
    title: "The loan's state does not allow this",
    page: include_str!("../problems/loan-refuses.md"),
};

/// All problem codes above.
pub(crate) const PROBLEMS: &[ProblemCode] =
    &[LOAN_EXISTS, BORROWER_EXISTS, LOAN_CHANGED, LOAN_NOT_FUNDED, LOAN_REFUSES];
