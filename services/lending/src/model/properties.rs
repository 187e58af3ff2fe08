//! Properties that hold for all loans.

use super::*;
use jiff::civil::{Date, date};
use num_bigint::BigInt;
use onceward_money::{Decimal, Minor, Rate};
use product::tests::policy;
use proptest::prelude::*;

fn day_counts() -> impl Strategy<Value = DayCount> {
    use DayCount::{Act360, Act365, ActAct, Thirty360, Thirty360European};
    prop::sample::select(vec![Thirty360, Thirty360European, Act365, Act360, ActAct])
}

fn modes() -> impl Strategy<Value = RoundingMode> {
    use RoundingMode::{Down, HalfEven, HalfUp, Up};
    prop::sample::select(vec![HalfEven, HalfUp, Up, Down])
}

/// Rates up to 100 % with up to twelve decimals; often round ones.
fn rates() -> impl Strategy<Value = Rate> {
    let round = (0_i64..=10_000).prop_map(|n| (n, 4));
    let any = (0_i64..=1_000_000_000_000).prop_map(|n| (n, 12));
    prop_oneof![1 => Just((0, 0)), 6 => round, 2 => any]
        .prop_map(|(mantissa, scale)| Rate::new(Decimal::new(mantissa, scale)).unwrap())
}

fn late_fees() -> impl Strategy<Value = LateFeePolicy> {
    let share = (1_i64..=10_000, prop::option::of(1_i64..5_000)).prop_map(|(share, cap)| LateCharge::Percent {
        of_instalment: Rate::new(Decimal::new(share, 4)).unwrap(),
        cap_minor: cap.map(Minor::new),
    });
    let flat = (1_i64..5_000).prop_map(|amount| LateCharge::Flat { amount_minor: Minor::new(amount) });
    (0_u32..60, prop_oneof![1 => Just(LateCharge::None), 2 => flat, 2 => share])
        .prop_map(|(grace_days, charge)| LateFeePolicy { grace_days, charge })
}

fn escrows() -> impl Strategy<Value = EscrowPolicy> {
    let monthly = prop_oneof![1 => Just(0), 2 => 1_i64..5_000];
    (monthly, 0_i64..10_000).prop_map(|(monthly, limit)| EscrowPolicy {
        monthly_minor: Minor::new(monthly),
        advance_limit_minor: Minor::new(limit),
    })
}

pub(crate) fn policies() -> impl Strategy<Value = ProductPolicy> {
    let units = prop::sample::select(vec![1, 1, 5, 100]);
    let terms = prop_oneof![8 => 1_u32..=60, 1 => 1_u32..=600];
    (rates(), day_counts(), terms, units, modes(), late_fees(), escrows()).prop_map(
        |(annual_rate, day_count, term_months, unit, mode, late_fee, escrow)| ProductPolicy {
            annual_rate,
            day_count,
            rounding: Rounding { unit_minor: Minor::new(unit), mode },
            late_fee,
            escrow,
            ..policy("0", term_months)
        },
    )
}

fn days() -> impl Strategy<Value = Date> {
    (0_i64..20_000).prop_map(|days| date(1990, 1, 1).saturating_add(jiff::Span::new().days(days)))
}

fn calendars() -> impl Strategy<Value = Calendar> {
    let odd = (days(), 1_i64..=80).prop_map(|(funded_on, days)| {
        Calendar::new(funded_on, funded_on.saturating_add(jiff::Span::new().days(days))).unwrap()
    });
    prop_oneof![3 => days().prop_map(|day| Calendar::monthly(day).unwrap()), 1 => odd]
}

fn principals() -> impl Strategy<Value = Minor> {
    prop_oneof![1 => 1_i64..1_000, 6 => 1_000_i64..100_000_000, 1 => 1_i64..=1_000_000_000_000_000_000]
        .prop_map(Minor::new)
}

/// Returns an upper bound of what payments of 1 at the end of each period have grown to at the end.
fn grown_ones(policy: &ProductPolicy, calendar: &Calendar) -> BigInt {
    let scale = BigInt::from(10).pow(18);
    let grown = (1..=policy.term_months).fold(BigInt::ZERO, |sum, number| {
        let period = calendar.period(number);
        let rate = policy.rate_of(policy.day_count.elapsed(&period, period.end)) * &scale;
        sum * (&scale + rate.ceil().to_integer()) / &scale + &scale + 1
    });
    grown / scale + 1
}

/// Generates a history with changes in the first two years, and three days of that time in order.
pub(crate) fn lives() -> impl Strategy<Value = (Calendar, PrincipalHistory, [Date; 3])> {
    let change = (0_i64..800, 0_i64..10_000_000);
    (calendars(), prop::collection::vec(change, 0..8), [0_i64..800, 0..800, 0..800]).prop_map(
        |(calendar, changes, mut three)| {
            let day = |days: i64| calendar.funded_on().saturating_add(jiff::Span::new().days(days));
            let changes = changes.into_iter().map(|(days, owed)| (day(days), Minor::new(owed)));
            three.sort_unstable();
            (calendar, PrincipalHistory::new(changes).unwrap(), three.map(day))
        },
    )
}

pub(crate) fn total(accruals: &[Accrual]) -> Minor {
    Minor::sum(accruals.iter().map(|accrual| accrual.amount)).unwrap()
}

proptest! {
    #[test]
    fn every_schedule_repays_exactly_what_was_lent(
        principal in principals(), policy in policies(), calendar in calendars(),
    ) {
        let schedule = match amortise(principal, &policy, &calendar) {
            Ok(schedule) => schedule,
            Err(RuleError::InstalmentRoundsToZero { .. } | RuleError::NegativeAmortisation { .. }) => return Ok(()),
            Err(other) => return Err(TestCaseError::fail(format!("legal terms were refused: {other}"))),
        };
        let mut balance = principal;
        for (index, row) in schedule.rows.iter().enumerate() {
            let is_last = index + 1 == schedule.rows.len();
            prop_assert!(!row.interest.is_negative() && !row.principal.is_negative() && !row.balance_after.is_negative());
            prop_assert_eq!(row.payment, row.interest.checked_add(row.principal).unwrap());
            prop_assert!(is_last || row.payment == schedule.instalment);
            balance = balance.checked_sub(row.principal).unwrap();
            prop_assert_eq!(row.balance_after, balance);
            prop_assert_eq!(balance.is_zero(), is_last);
        }
        prop_assert_eq!(Minor::sum(schedule.rows.iter().map(|row| row.principal)), Ok(principal));

        // Every rounding moves the balance by less than its unit, and that difference grows until the end.
        let residue = schedule.residue().unwrap();
        let bound = grown_ones(&policy, &calendar) * (policy.rounding.unit_minor.get() + 1);
        prop_assert!(BigInt::from(residue.get()) <= bound, "residue {} above {}", residue, bound);
        let is_early = schedule.rows.len() < policy.term_months as usize;
        prop_assert!(is_early || BigInt::from(residue.get()) >= -bound);
        prop_assert!(residue > schedule.instalment.checked_neg().unwrap(), "the last payment is above zero");
    }

    #[test]
    fn the_last_instalment_of_usual_terms_differs_by_a_few_cents(
        principal in 100_000_i64..1_000_000_000, percent in 0_i64..=1_500, term in 1_u32..=120, day_count in day_counts(),
    ) {
        let annual_rate = Rate::new(Decimal::new(percent, 4)).unwrap();
        let policy = ProductPolicy { annual_rate, day_count, ..policy("0", term) };
        let calendar = Calendar::monthly(date(2024, 1, 31)).unwrap();
        let schedule = amortise(Minor::new(principal), &policy, &calendar).unwrap();
        prop_assert_eq!(schedule.rows.len(), term as usize);
        prop_assert!(schedule.residue().unwrap().get().abs() <= 300, "{:?}", schedule.residue());
    }

    #[test]
    fn interest_is_the_same_in_one_step_and_in_several(policy in policies(), (calendar, owed, [from, between, to]) in lives()) {
        let run = |from, to| accruals(&policy, &calendar, &owed, from, to).unwrap();
        let (first, second, whole) = (run(from, between), run(between, to), run(from, to));
        let split = total(&first).checked_add(total(&second)).unwrap();
        prop_assert_eq!(split, total(&whole));
        prop_assert!(whole.iter().all(|accrual| accrual.amount.is_positive()));
    }

    #[test]
    fn a_payment_is_divided_completely_and_never_beyond_what_is_owed(
        amount in 1_i64..=i64::MAX, owed in [0_i64..5_000, 0..5_000, 0..5_000, 0..5_000, 0..50_000, -100..5_000],
        order in Just(Waterfall::default().buckets().to_vec()).prop_shuffle(), hold: bool, small: bool,
        hint in prop::option::of(prop::sample::select(vec![PaymentBucket::FeesDue, PaymentBucket::Principal, PaymentBucket::Escrow, PaymentBucket::Future])),
    ) {
        let amount = Minor::new(if small { amount % 70_000 + 1 } else { amount });
        let [fees_due, interest_past_due, interest_current, principal_due, principal_balance, escrow] = owed.map(Minor::new);
        let owed = Outstanding {
            fees_due, interest_past_due, interest_current, principal_due, principal_balance, escrow,
            ..Outstanding::default()
        };
        let prepayment = if hold { Prepayment::Hold } else { Prepayment::ReducePrincipal };
        let policy = ProductPolicy { waterfall: Waterfall::new(order).unwrap(), prepayment, ..policy("7", 12) };
        let parts = allocate(amount, &policy, &owed, AllocationHints { bucket: hint }).unwrap();
        let ends = Minor::sum([fees_due, interest_past_due, interest_current, principal_balance]).unwrap() <= amount;
        prop_assert_eq!(Minor::sum(parts.iter().map(|part| part.amount)), Ok(amount));
        for (index, part) in parts.iter().enumerate() {
            let limit = match part.bucket {
                PaymentBucket::FeesDue => fees_due,
                PaymentBucket::InterestPastDue => interest_past_due,
                PaymentBucket::InterestCurrent => interest_current,
                PaymentBucket::Principal if hold && !ends && hint != Some(PaymentBucket::Principal) => {
                    principal_due.min(principal_balance)
                }
                PaymentBucket::Principal => principal_balance,
                PaymentBucket::Escrow => escrow,
                PaymentBucket::Future => Minor::MAX,
            };
            prop_assert!(part.amount.is_positive() && part.amount <= limit, "{:?} of {:?}", part, owed);
            prop_assert!(parts[..index].iter().all(|other| other.bucket != part.bucket));
        }
    }

    #[test]
    fn every_valid_policy_survives_json(policy in policies()) {
        let json = serde_json::to_string(&policy).unwrap();
        prop_assert_eq!(serde_json::from_str::<ProductPolicy>(&json).unwrap(), policy);
    }
}
