//! A property that holds for every payoff: a borrower who pays the quote owes nothing.

use crate::loans::{owes, postings};
use crate::model::properties::{lives, policies, total};
use crate::model::{
    Allocation, AllocationHints, Calendar, Dues, Forecast, LoanBooks, LoanStatus, Outstanding, PaymentBucket,
    PayoffQuote, Prepayment, PrincipalHistory, ProductPolicy, Receipt, RepaymentSchedule, StatusHistory, Waterfall,
    accruals, allocate, allocate_held, amortise,
};
use jiff::{Span, civil::Date};
use onceward_ledger::{Account, Balances, NewLine, credit, debit};
use onceward_money::{Currency, Minor};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A loan in a ledger that receives the postings of the daily run and the pipeline.
struct ServicedLoan {
    policy: ProductPolicy,
    calendar: Calendar,
    schedule: RepaymentSchedule,
    statuses: StatusHistory,
    balances: Balances,
    principal: PrincipalHistory,
    accrued_to: Date,
    receipts: Vec<Receipt>,
    escrow_deposited: Minor,
    charged: Vec<u32>,
    suspense_applied_to: Date,
}

impl ServicedLoan {
    fn books(&self) -> LoanBooks {
        let held = self.balances.normal(Account::Suspense).unwrap();
        LoanBooks {
            principal: self.principal.clone(),
            interest_receivable: self.balances.get(Account::InterestReceivable),
            accrued_to: self.accrued_to,
            fees_receivable: self.balances.get(Account::FeesReceivable),
            receipts: self.receipts.clone(),
            escrow_deposited: self.escrow_deposited,
            escrow_balance: self.balances.normal(Account::EscrowLiability).unwrap(),
            suspense: held,
            usable_suspense: held,
        }
    }

    fn quote(&self, day: Date) -> PayoffQuote {
        let forecast = Forecast {
            policy: &self.policy,
            calendar: &self.calendar,
            schedule: &self.schedule,
            statuses: &self.statuses,
            charged: self.charged.clone(),
            suspense_applied_to: self.suspense_applied_to,
        };
        let books = forecast.books_on(self.books(), day).unwrap();
        PayoffQuote::new(&self.policy, &self.calendar, &books, day).unwrap()
    }

    fn post(&mut self, lines: &[NewLine], day: Date) {
        let before = self.balances.get(Account::LoanPrincipal);
        self.balances.apply(lines).unwrap();
        let change = self.balances.get(Account::LoanPrincipal).checked_sub(before).unwrap();
        self.principal = self.principal.changed(day, change).unwrap();
    }

    /// Books interest and late fees up to `day`, as the daily run does.
    fn book(&mut self, day: Date) {
        let accrued = accruals(&self.policy, &self.calendar, &self.principal, self.accrued_to, day).unwrap();
        self.accrued_to = self.accrued_to.max(day);
        if !accrued.is_empty() {
            self.post(&[debit(Account::InterestReceivable, total(&accrued), "")], day);
        }
        for fee in self.policy.late_fee.due_by(day, &self.schedule, &self.receipts, &self.statuses).unwrap() {
            if !self.charged.contains(&fee.instalment) {
                self.charged.push(fee.instalment);
                self.post(&[debit(Account::FeesReceivable, fee.amount, "")], day);
            }
        }
    }

    fn owed(&self, books: &LoanBooks, day: Date) -> Outstanding {
        Dues::on(day, &self.policy, &self.calendar, &self.schedule, books).unwrap().outstanding
    }

    /// Applies suspense to what is due, or to everything owed if it covers that.
    fn apply_suspense(&mut self, day: Date) {
        let held = self.books().usable_suspense;
        let owed = self.owed(&self.books().without_suspense(day).unwrap(), day);
        let applied: Vec<Allocation> = allocate_held(held, &self.policy, &owed).unwrap();
        if applied.is_empty() {
            return;
        }
        self.post(&postings::allocation_lines(&applied).unwrap(), day);
        for part in applied.iter().filter(|part| part.bucket == PaymentBucket::Escrow) {
            self.escrow_deposited = self.escrow_deposited.checked_add(part.amount).unwrap();
            self.receipts.push(Receipt { on: day, amount: part.amount.checked_neg().unwrap() });
        }
    }

    /// Services the loan on every day up to `day` on which something can happen, as long as anything is owed.
    fn service(&mut self, day: Date) {
        let due: Vec<Date> = (self.calendar.period_number_at(self.suspense_applied_to)
            ..self.calendar.period_number_at(day))
            .map(|number| self.calendar.due_date(number).max(self.accrued_to))
            .collect();
        let grace = Span::new().days(i64::from(self.policy.late_fee.grace_days) + 1);
        let fees = self.schedule.rows.iter().map(|row| row.due_date.saturating_add(grace));
        let days: BTreeSet<Date> =
            fees.chain(due.iter().copied()).chain([day]).filter(|on| (self.accrued_to..=day).contains(on)).collect();
        for on in days {
            if !owes(&self.balances) {
                return;
            }
            self.book(on);
            for _ in due.iter().filter(|due| **due == on) {
                self.apply_suspense(on);
            }
        }
    }

    /// Pays the quoted amount as the pipeline does: divided by the waterfall, then posted. If the quote is zero,
    /// suspense alone pays.
    fn pay(&mut self, amount: Minor, hints: AllocationHints, day: Date) {
        if amount.is_zero() {
            return self.apply_suspense(day);
        }
        let applied = allocate(amount, &self.policy, &self.owed(&self.books(), day), hints).unwrap();
        assert_eq!(Minor::sum(applied.iter().map(|part| part.amount)), Ok(amount), "{applied:?}");
        self.post(&postings::payment_lines(amount, &applied).unwrap(), day);
    }
}

/// Creates the line for an amount owed or, if negative, held.
fn balance(account: Account, amount: i64) -> NewLine {
    let amount = Minor::new(amount);
    if amount.is_negative() { credit(account, amount.checked_neg().unwrap(), "") } else { debit(account, amount, "") }
}

/// Returns the history of `principal` up to `day`, unchanged since.
fn until(principal: &PrincipalHistory, from: Date, day: Date) -> PrincipalHistory {
    let pieces = principal.pieces(from, day).map(|(start, _, owed)| (start, owed));
    PrincipalHistory::new(pieces.chain([(day, principal.on(day))])).unwrap()
}

proptest! {
    #[test]
    fn paying_the_quote_ends_the_loan_under_every_policy(
        policy in policies(), (calendar, principal, [applied_to, accrued_to, day]) in lives(), hold: bool,
        order in Just(Waterfall::default().buckets().to_vec()).prop_shuffle(), reviewed: bool,
        hint in prop::option::of(prop::sample::select(vec![PaymentBucket::FeesDue, PaymentBucket::Principal, PaymentBucket::Escrow])),
        fees in 0_i64..5_000, escrow in -2_000_i64..2_000, paid in prop_oneof![Just(0), 0_i64..300_000],
        suspense in prop_oneof![Just(0), -3_000_i64..3_000, 0_i64..300_000, 0_i64..12_000_000],
    ) {
        let prepayment = if hold { Prepayment::Hold } else { Prepayment::ReducePrincipal };
        let policy = ProductPolicy { prepayment, waterfall: Waterfall::new(order).unwrap(), ..policy };
        let schedule = amortise(Minor::new(1_000_000), &policy, &calendar)
            .unwrap_or(RepaymentSchedule { instalment: Minor::ZERO, rows: Vec::new() });
        let statuses = StatusHistory::always(LoanStatus::Active);
        let principal = until(&principal, calendar.funded_on(), accrued_to);
        let posted = accruals(&policy, &calendar, &principal, calendar.funded_on(), accrued_to).unwrap();
        let receipts = vec![Receipt { on: calendar.funded_on(), amount: Minor::new(paid + suspense) }];
        let late = policy.late_fee.due_by(accrued_to, &schedule, &receipts, &statuses).unwrap();
        let charged = late.iter().filter(|_| reviewed).map(|fee| fee.instalment).collect();
        let mut balances = Balances::empty(Currency::USD);
        balances.apply(&[
            debit(Account::LoanPrincipal, principal.on(accrued_to), ""),
            debit(Account::InterestReceivable, total(&posted), ""),
            balance(Account::FeesReceivable, fees),
            balance(Account::EscrowLiability, -escrow),
            balance(Account::Suspense, -suspense),
        ]).unwrap();
        let mut loan = ServicedLoan {
            policy, calendar, schedule, statuses, balances, principal, accrued_to, receipts, charged,
            escrow_deposited: Minor::ZERO, suspense_applied_to: applied_to,
        };
        let quote = loan.quote(day);
        loan.service(day);
        loan.pay(quote.total, AllocationHints { bucket: hint }, day);
        prop_assert!(!owes(&loan.balances), "{:?} leaves {:?}", quote, loan.balances);
        for account in [Account::LoanPrincipal, Account::InterestReceivable, Account::FeesReceivable] {
            prop_assert_eq!(loan.balances.get(account), Minor::ZERO, "{}", account);
        }
        let held = [Account::Suspense, Account::EscrowLiability].map(|held| loan.balances.normal(held).unwrap());
        prop_assert_eq!(Minor::sum(held), Ok(quote.refund), "the remainder is the refund of the quote");
    }
}
