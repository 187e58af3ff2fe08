//! Facts against the ledger, with random postings, and jobs that are delivered twice, out of order, and fail halfway.

use crate::etl_support::*;
use crate::payments_support::{days_ago, funded_loan, wait_until_idle};
use crate::support::{ApiClient, LendingFixture};
use jiff::{SignedDuration, Timestamp, ToSpan, tz::TimeZone};
use onceward_ledger::{self as ledger, Account, NewLedgerEvent, NewLine, credit, debit};
use onceward_lending::{Settings, loans::postings};
use onceward_money::{Currency, Minor};
use serde_json::json;
use uuid::Uuid;

/// A pseudo-random generator that returns the same numbers in every run.
struct PseudoRandom(u64);

impl PseudoRandom {
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

fn lines(dice: &mut PseudoRandom) -> (&'static str, Vec<NewLine>) {
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

/// Posts some events as if it were `now`: most for today, some for earlier and later days, some of them reversed, some
/// by transactions that began minutes ago.
async fn post_random_events(
    client: &ApiClient<'_>,
    dice: &mut PseudoRandom,
    loans: &[Uuid],
    now: Timestamp,
    reversible: &mut Vec<Uuid>,
) {
    for _ in 0..dice.below(6) {
        let today = now.to_zoned(TimeZone::UTC).date();
        let day = match dice.below(10) {
            0..5 => today,
            5..9 => today.saturating_sub(i64::try_from(1 + dice.below(4)).unwrap().days()),
            _ => today.saturating_add(1.day()),
        };
        let tx = client.begin().await;
        let event_id = Uuid::now_v7();
        if !reversible.is_empty() && dice.below(4) == 0 {
            let reversed = reversible.swap_remove(dice.below(reversible.len()));
            ledger::reverse(&tx, reversed, event_id, day, &format!("back:{event_id}"), None).await.unwrap();
        } else {
            let (schema, lines) = lines(dice);
            let loan_id = loans[dice.below(loans.len())];
            let event = NewLedgerEvent {
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
        set_posting_time_in(&tx, now - SignedDuration::from_mins(i64::try_from(slow).unwrap())).await;
        tx.commit().await.unwrap();
    }
}

/// Makes every `every`-th job fail from now on, after its facts are written and before it reports completion.
async fn make_some_jobs_fail(fixture: &LendingFixture, every: i32) {
    let sql = format!(
        "CREATE SEQUENCE public.writes; GRANT USAGE ON public.writes TO PUBLIC;
         CREATE FUNCTION public.fail_sometimes() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF nextval('public.writes') % {every} = 0 THEN RAISE EXCEPTION 'simulated failure'; END IF;
             RETURN NULL;
         END $$;
         CREATE TRIGGER fail_sometimes AFTER INSERT ON reporting.balance_fact
             FOR EACH STATEMENT EXECUTE FUNCTION public.fail_sometimes()"
    );
    fixture.owner.batch_execute(&sql).await.unwrap();
}

async fn check(seed: u64) {
    let settings = Settings { etl_shards: 3, ..Settings::default() };
    let mut fixture = LendingFixture::without_consumers(settings, None).await;
    let (mut second, stop) = fixture.platform.another_instance();
    fixture.platform.run_consumers();
    second.run_consumers();
    let mut dice = PseudoRandom(seed);
    let client = fixture.client("acme");
    let began = Timestamp::now();
    let mut loans = Vec::new();
    for _ in 0..5 {
        loans.push(funded_loan(&client, 20, json!({})).await);
    }
    wait_until_idle(&fixture).await;
    let mut now = midnight_after(days_ago(6)) - SignedDuration::from_mins(40);
    set_posting_time(&fixture, began, now).await;
    make_some_jobs_fail(&fixture, 4).await;
    let mut reversible = Vec::new();
    for _ in 0..20 {
        post_random_events(&client, &mut dice, &loans, now, &mut reversible).await;
        now += SignedDuration::from_mins(i64::try_from(3 + dice.below(120)).unwrap());
        client.publish_tick(now).await;
        if dice.below(2) == 0 {
            let mut again = jobs(&fixture, "acme").await;
            dice.shuffle(&mut again);
            again.truncate(30);
            client.publish_jobs(&again).await;
        }
        if dice.below(3) == 0 {
            wait_until_idle(&fixture).await;
            assert_facts_match_ledger(&fixture, "acme", window_of(now)).await;
        }
    }
    client.run_tick(now).await;
    assert_facts_match_ledger(&fixture, "acme", window_of(now)).await;
    stop.cancel();
    assert!(second.finished().await);
    assert_every_completion_was_published_once(&fixture).await;
}

/// Checks that jobs did fail and windows were late, and that every completion was published once.
async fn assert_every_completion_was_published_once(fixture: &LendingFixture) {
    let attempts: i64 = fixture.query_value("SELECT last_value FROM public.writes", &[]).await;
    assert!(attempts > 4, "no job failed");
    let again: i64 = fixture.query_value("SELECT count(*) FROM lending.etl_window WHERE generation > 1", &[]).await;
    assert!(again > 0, "nothing was late");
    assert_eq!(
        fixture.query_value::<i64>("SELECT count(*) FROM lending.etl_window WHERE state <> 'completed'", &[]).await,
        0
    );
    let stale = "SELECT count(*) FROM lending.etl_loan WHERE stale AND window_start < (SELECT next_window FROM lending.etl_progress)";
    assert_eq!(fixture.query_value::<i64>(stale, &[]).await, 0);
    assert_eq!(fixture.count("onceward.dead_letters").await, 0);
    let repeated = "SELECT count(*) - count(DISTINCT payload ->> 'windowStart' || '/' || (payload ->> 'generation'))
                FROM onceward.outbox_messages WHERE event_type = 'etl.completed.event.v1'";
    assert_eq!(fixture.query_value::<i64>(repeated, &[]).await, 0);
    let unpublished = "SELECT count(*) FROM lending.etl_window w WHERE NOT EXISTS (
        SELECT FROM onceward.outbox_messages m WHERE m.event_type = 'etl.completed.event.v1'
          AND (m.payload ->> 'windowStart')::timestamptz = w.window_start AND (m.payload ->> 'generation')::int = w.generation)";
    assert_eq!(fixture.query_value::<i64>(unpublished, &[]).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn facts_agree_with_the_ledger_whatever_happens_to_jobs() {
    check(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn facts_agree_with_the_ledger_for_another_seed() {
    check(20_261_130).await;
}
