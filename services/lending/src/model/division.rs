//! The state of a payment while it is being divided.

use super::rule_error::RuleError;
use super::waterfall::{Allocation, Outstanding, PaymentBucket};
use onceward_money::Minor;

/// The parts of a payment that are allocated to buckets, and the amount that is left.
pub(super) struct Division {
    left: Minor,
    /// The amount taken from suspense.
    drawn: Minor,
    parts: Vec<Allocation>,
}

impl Division {
    pub(super) fn new(amount: Minor) -> Self {
        Self { left: amount, drawn: Minor::ZERO, parts: Vec::new() }
    }

    /// Returns whether the remaining amount pays everything owed on the loan itself.
    pub(super) fn covers_loan(&self, outstanding: &Outstanding) -> Result<bool, RuleError> {
        Ok(self.left >= self.missing(outstanding)?)
    }

    /// Returns what is still owed on the loan itself: everything but escrow.
    fn missing(&self, outstanding: &Outstanding) -> Result<Minor, RuleError> {
        let owed = PaymentBucket::PAYABLE.into_iter().filter(|bucket| *bucket != PaymentBucket::Escrow);
        let missing =
            owed.map(|bucket| outstanding.all_of(bucket).max(Minor::ZERO).checked_sub(self.allocated_to(bucket)));
        Ok(Minor::sum(missing.collect::<Result<Vec<_>, _>>()?)?)
    }

    fn allocated_to(&self, bucket: PaymentBucket) -> Minor {
        self.parts.iter().find(|part| part.bucket == bucket).map_or(Minor::ZERO, |part| part.amount)
    }

    /// Returns the amount that must be taken from suspense to end the loan; zero or negative if the payment is enough.
    fn shortfall(&self, outstanding: &Outstanding) -> Result<Minor, RuleError> {
        let advance =
            outstanding.escrow_advance.checked_sub(self.allocated_to(PaymentBucket::Escrow))?.max(Minor::ZERO);
        Ok(self.missing(outstanding)?.checked_add(advance)?.checked_sub(self.left)?)
    }

    /// Returns whether the remaining amount and suspense together are enough to end the loan.
    pub(super) fn ends(&self, outstanding: &Outstanding) -> Result<bool, RuleError> {
        Ok(self.shortfall(outstanding)? <= outstanding.suspense.max(Minor::ZERO))
    }

    /// Takes the amount missing to end the loan from suspense, if suspense covers it.
    pub(super) fn draw(&mut self, outstanding: &Outstanding) -> Result<(), RuleError> {
        let shortfall = self.shortfall(outstanding)?;
        if shortfall.is_positive() && shortfall <= outstanding.suspense {
            (self.left, self.drawn) = (self.left.checked_add(shortfall)?, shortfall);
        }
        Ok(())
    }

    /// Returns the allocations: the remaining amount goes to suspense, and the drawn amount leaves it.
    pub(super) fn finish(mut self) -> Result<Vec<Allocation>, RuleError> {
        self.fill(PaymentBucket::Future, Minor::MAX)?;
        if self.drawn.is_positive() {
            self.parts.push(Allocation { bucket: PaymentBucket::Future, amount: self.drawn.checked_neg()? });
        }
        Ok(self.parts)
    }

    /// Allocates the remaining amount to `bucket`, up to a total of `up_to` in that bucket.
    pub(super) fn fill(&mut self, bucket: PaymentBucket, up_to: Minor) -> Result<(), RuleError> {
        let existing = self.parts.iter_mut().find(|part| part.bucket == bucket);
        let missing = up_to.checked_sub(existing.as_ref().map_or(Minor::ZERO, |part| part.amount))?;
        let amount = self.left.min(missing);
        if !amount.is_positive() {
            return Ok(());
        }
        self.left = self.left.checked_sub(amount)?;
        match existing {
            Some(part) => part.amount = part.amount.checked_add(amount)?,
            None => self.parts.push(Allocation { bucket, amount }),
        }
        Ok(())
    }
}
