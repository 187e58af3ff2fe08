//! Facts against the ledger, with random postings, and jobs that come twice, out of order, and fail halfway.

use crate::etl_support::*;
use crate::payments_support::{days_ago, funded_loan, quiet};
use crate::support::{Desk, Office};
use jiff::{SignedDuration, Timestamp, ToSpan, tz::TimeZone};
use onceward_ledger::{self as ledger, Account, Line, NewEvent, credit, debit};
use onceward_lending::{Settings, loans::postings};
use onceward_money::{Currency, Minor};
use serde_json::json;
use uuid::Uuid;

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % n as u64).unwrap()
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

fn lines(dice: &mut Dice) -> (&'static str, Vec<Line>) {
    let amount = Minor::new(1 + i64::try_from(dice.below(5_000)).unwrap());
    let moved = |to, from| vec![debit(to, amount, ""), credit(from, amount, "")];
    match dice.below(5) {
        0 => (postings::ACCRUAL, moved(Account::InterestReceivable, Account::InterestIncome)),
        1 => (postings::PREPAYMENT, moved(Account::Cash, Account::LoanPrincipal)),
        2 => (postings::ESCROW, moved(Account::EscrowLiability, Account::Cash)),
        _ => {
            let more = Minor::new(7);
            let mut lines = moved(Account::Cash, Account::Suspense);
            lines.extend([debit(Account::Cash, more, ""), credit(Account::InterestReceivable, more, "")]);
            (postings::PAYMENT, lines)
        }
    }
}

/// Posts some events as if it were `now`: most for today, some for earlier and later days, some of them taken back; some by
/// transactions that began minutes ago.
async fn business(desk: &Desk<'_>, dice: &mut Dice, loans: &[Uuid], now: Timestamp, reversible: &mut Vec<Uuid>) {
    for _ in 0..dice.below(6) {
        let today = now.to_zoned(TimeZone::UTC).date();
        let day = match dice.below(10) {
            0..5 => today,
            5..9 => today.saturating_sub(i64::try_from(1 + dice.below(4)).unwrap().days()),
            _ => today.saturating_add(1.day()),
        };
        let tx = desk.begin().await;
        let event_id = Uuid::now_v7();
        if !reversible.is_empty() && dice.below(4) == 0 {
            let reversed = reversible.swap_remove(dice.below(reversible.len()));
            ledger::reverse(&tx, reversed, event_id, day, &format!("back:{event_id}"), None).await.unwrap();
        } else {
            let (schema, lines) = lines(dice);
            let loan_id = loans[dice.below(loans.len())];
            let event = NewEvent {
                event_id,
                loan_id,
                effective_date: day,
                correlation_id: format!("random:{event_id}"),
                schema: schema.to_owned(),
                currency: Currency::USD,
                lines,
                note: None,
            };
            ledger::post(&tx, &event).await.unwrap();
            reversible.push(event_id);
        }
        let slow = if dice.below(3) == 0 { dice.below(40) } else { 0 };
        post_as_of(&tx, now - SignedDuration::from_mins(i64::try_from(slow).unwrap())).await;
        tx.commit().await.unwrap();
    }
}

/// From now on every so many-th job fails when its facts are written and before it says so.
async fn break_some(office: &Office, every: i32) {
    let sql = format!(
        "CREATE SEQUENCE public.writes; GRANT USAGE ON public.writes TO PUBLIC;
         CREATE FUNCTION public.fail_sometimes() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF nextval('public.writes') % {every} = 0 THEN RAISE EXCEPTION 'the power went out'; END IF;
             RETURN NULL;
         END $$;
         CREATE TRIGGER fail_sometimes AFTER INSERT ON reporting.balance_fact
             FOR EACH STATEMENT EXECUTE FUNCTION public.fail_sometimes()"
    );
    office.owner.batch_execute(&sql).await.unwrap();
}

async fn check(seed: u64) {
    let settings = Settings { etl_shards: 3, ..Settings::default() };
    let mut office = Office::without_consumers(settings, None).await;
    let (mut second, stop) = office.platform.another_instance();
    office.platform.run_consumers();
    second.run_consumers();
    let mut dice = Dice(seed);
    let desk = office.desk("acme");
    let began = Timestamp::now();
    let mut loans = Vec::new();
    for _ in 0..5 {
        loans.push(funded_loan(&desk, 20, json!({})).await);
    }
    quiet(&office).await;
    let mut now = midnight_after(days_ago(6)) - SignedDuration::from_mins(40);
    posted_at(&office, began, now).await;
    break_some(&office, 4).await;
    let mut reversible = Vec::new();
    for _ in 0..20 {
        business(&desk, &mut dice, &loans, now, &mut reversible).await;
        now += SignedDuration::from_mins(i64::try_from(3 + dice.below(120)).unwrap());
        desk.report_tick(now).await;
        if dice.below(2) == 0 {
            let mut again = jobs(&office, "acme").await;
            dice.shuffle(&mut again);
            again.truncate(30);
            desk.deliver(&again).await;
        }
        if dice.below(3) == 0 {
            quiet(&office).await;
            reconcile(&office, "acme", window_of(now)).await;
        }
    }
    desk.report(now).await;
    reconcile(&office, "acme", window_of(now)).await;
    stop.cancel();
    assert!(second.finished().await);
    settled(&office).await;
}

/// The test has tested something, and every completion was told once.
async fn settled(office: &Office) {
    let attempts: i64 = office.ask("SELECT last_value FROM public.writes", &[]).await;
    assert!(attempts > 4, "no job was broken");
    let again: i64 = office.ask("SELECT count(*) FROM lending.etl_window WHERE generation > 1", &[]).await;
    assert!(again > 0, "nothing was late");
    assert_eq!(office.ask::<i64>("SELECT count(*) FROM lending.etl_window WHERE state <> 'completed'", &[]).await, 0);
    let stale = "SELECT count(*) FROM lending.etl_loan WHERE stale AND window_start < (SELECT next_window FROM lending.etl_progress)";
    assert_eq!(office.ask::<i64>(stale, &[]).await, 0);
    assert_eq!(office.count("onceward.dead_letters").await, 0);
    let told = "SELECT count(*) - count(DISTINCT payload ->> 'windowStart' || '/' || (payload ->> 'generation'))
                FROM onceward.outbox_messages WHERE event_type = 'etl.completed.event.v1'";
    assert_eq!(office.ask::<i64>(told, &[]).await, 0);
    let not_told = "SELECT count(*) FROM lending.etl_window w WHERE NOT EXISTS (
        SELECT FROM onceward.outbox_messages m WHERE m.event_type = 'etl.completed.event.v1'
          AND (m.payload ->> 'windowStart')::timestamptz = w.window_start AND (m.payload ->> 'generation')::int = w.generation)";
    assert_eq!(office.ask::<i64>(not_told, &[]).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn facts_agree_with_the_ledger_whatever_happens_to_jobs() {
    check(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn facts_agree_with_the_ledger_whatever_happens_to_other_jobs() {
    check(20_261_130).await;
}
