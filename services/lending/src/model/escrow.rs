//! Escrow: money held for the borrower's taxes and insurance.

use super::RuleError;
use onceward_money::Minor;
use serde::{Deserialize, Serialize};

/// A product's escrow policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EscrowPolicy {
    /// The deposit added to every instalment; 0 for none.
    pub monthly_minor: Minor,
    /// The most that the lender advances beyond the balance; 0 refuses every disbursement that is not covered.
    #[serde(default)]
    pub advance_limit_minor: Minor,
}

impl EscrowPolicy {
    /// Checks that `amount` may be paid out of `balance`, which is negative once the lender has advanced.
    pub fn may_disburse(&self, balance: Minor, amount: Minor) -> Result<(), RuleError> {
        let floor = self.advance_limit_minor.checked_neg()?;
        if !amount.is_positive() {
            return Err(RuleError::PaymentAmount(amount));
        }
        if balance.checked_sub(amount)? < floor {
            return Err(RuleError::EscrowShort { balance, amount, floor });
        }
        Ok(())
    }

    pub(super) fn check(&self) -> Result<(), RuleError> {
        let negative = self.monthly_minor.is_negative() || self.advance_limit_minor.is_negative();
        if negative { Err(RuleError::EscrowPolicy) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(limit: i64, balance: i64, amount: i64, allowed: bool) {
        let policy = EscrowPolicy { monthly_minor: Minor::ZERO, advance_limit_minor: Minor::new(limit) };
        let found = policy.may_disburse(Minor::new(balance), Minor::new(amount));
        assert_eq!(found.is_ok(), allowed, "{limit} {balance} {amount}: {found:?}");
    }

    #[test]
    fn escrow_pays_up_to_its_balance_and_the_advance_limit() {
        check(0, 100, 100, true);
        check(0, 100, 101, false);
        check(50, 100, 150, true);
        check(50, 100, 151, false);
        check(50, -20, 30, true);
        check(50, -20, 31, false);
        check(50, 100, 0, false);
        check(50, 100, -5, false);
    }
}
