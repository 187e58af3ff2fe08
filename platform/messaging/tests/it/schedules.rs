//! Schedules: each tick once across all instances, in the right time zone, by the policy for missed ones.

use crate::support::{bare_service, count, one_lane};
use jiff::{SignedDuration, Timestamp};
use onceward::{
    Schedule,
    messaging::schedule::{self, DueTicks, SkippedTicks, Timetable},
    topology::MissedTicks,
};
use onceward_testkit::TestPlatform;

const TOPIC: &str = "probe.events:tenant.{tenant}.tick";

fn hourly(name: &str) -> Schedule {
    Schedule::new(name, "0 * * * *", TOPIC, "probe.tick.v1")
}

fn timetable(schedule: Schedule) -> Timetable {
    Timetable::new(schedule).expect("a valid schedule")
}

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn hours(n: i64) -> SignedDuration {
    SignedDuration::from_hours(n)
}

/// Returns the ticks of a day, from noon to noon UTC.
fn ticks(cron: &str, zone: &str, from: &str, to: &str) -> Vec<String> {
    let timetable = timetable(Schedule::new("t", cron, TOPIC, "probe.tick.v1").time_zone(zone));
    let mut next = time(from);
    let mut ticks = Vec::new();
    loop {
        next = timetable.next_after(next).expect("there is always a next");
        if next > time(to) {
            return ticks;
        }
        ticks.push(next.to_string());
    }
}

#[test]
fn a_daily_tick_keeps_its_local_time_when_the_clocks_change() {
    let spring = ticks("0 9 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", "2026-03-30T12:00:00Z");
    assert_eq!(spring, ["2026-03-28T08:00:00Z", "2026-03-29T07:00:00Z", "2026-03-30T07:00:00Z"]);
    let autumn = ticks("0 9 * * *", "Europe/Berlin", "2026-10-24T00:00:00Z", "2026-10-26T12:00:00Z");
    assert_eq!(autumn, ["2026-10-24T07:00:00Z", "2026-10-25T08:00:00Z", "2026-10-26T08:00:00Z"]);
}

#[test]
fn a_daily_tick_in_a_repeated_hour_fires_once() {
    let night = ticks("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z");
    assert_eq!(night.len(), 1, "{night:?}");
}

#[test]
fn a_daily_tick_in_a_skipped_hour_still_fires() {
    let night = ticks("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z");
    assert_eq!(night.len(), 1, "{night:?}");
}

#[test]
fn an_hourly_tick_fires_every_hour_when_the_clocks_change() {
    for (from, to) in
        [("2026-03-28T20:00:00Z", "2026-03-29T08:00:00Z"), ("2026-10-24T20:00:00Z", "2026-10-25T08:00:00Z")]
    {
        assert_eq!(ticks("0 * * * *", "Europe/Berlin", from, to).len(), 12, "from {from}");
    }
}

#[test]
fn missed_ticks_follow_the_schedules_policy() {
    let (first, now) = (time("2026-01-01T01:00:00Z"), time("2026-01-01T05:30:00Z"));
    let due = |missed| timetable(hourly("t").missed(missed)).due(first, now).expect("ticks");
    let next = time("2026-01-01T06:00:00Z");
    let expected =
        |publish: Vec<Timestamp>, count| DueTicks { publish, next, skipped: SkippedTicks { count, projected: false } };
    assert_eq!(due(MissedTicks::Skip), expected(vec![], 5));
    assert_eq!(due(MissedTicks::FireOnce), expected(vec![time("2026-01-01T05:00:00Z")], 4));
    let all = due(MissedTicks::FireAll { max: 3 });
    let latest = ["2026-01-01T03:00:00Z", "2026-01-01T04:00:00Z", "2026-01-01T05:00:00Z"].map(time);
    assert_eq!(all, expected(latest.to_vec(), 2));
}

#[test]
fn a_slightly_late_tick_is_not_missed() {
    let (first, now) = (time("2026-01-01T01:00:00Z"), time("2026-01-01T01:00:30Z"));
    let due = timetable(hourly("t").missed(MissedTicks::Skip)).due(first, now).expect("ticks");
    assert_eq!((due.publish, due.next), (vec![first], time("2026-01-01T02:00:00Z")));
    assert_eq!(due.skipped, SkippedTicks::default());
}

#[test]
fn after_a_long_outage_the_latest_ticks_are_published_and_the_others_counted() {
    // A tick every second for 30 days: 2,592,000 of them.
    let (first, now) = (time("2026-01-01T00:00:01Z"), time("2026-01-31T00:00:00.5Z"));
    let every_second = |missed| timetable(Schedule::new("t", "* * * * * *", TOPIC, "probe.tick.v1").missed(missed));
    let once = every_second(MissedTicks::FireOnce).due(first, now).expect("ticks");
    assert_eq!((once.publish, once.next), (vec![time("2026-01-31T00:00:00Z")], time("2026-01-31T00:00:01Z")));
    assert_eq!(once.skipped, SkippedTicks { count: 2_591_999, projected: true });
    let all = every_second(MissedTicks::FireAll { max: 3 }).due(first, now).expect("ticks");
    assert_eq!(all.publish, ["2026-01-30T23:59:58Z", "2026-01-30T23:59:59Z", "2026-01-31T00:00:00Z"].map(time));
    let unbounded = every_second(MissedTicks::FireAll { max: u32::MAX }).due(first, now).expect("ticks");
    assert_eq!(unbounded.publish.len(), 10_000);
    assert_eq!(unbounded.publish.last(), Some(&time("2026-01-31T00:00:00Z")));
}

#[test]
fn missed_ticks_equal_those_of_an_instance_without_downtime_when_the_clocks_change() {
    for (first, now) in
        [("2026-10-24T20:30:00Z", "2026-10-25T08:00:00Z"), ("2026-03-28T20:30:00Z", "2026-03-29T08:00:00Z")]
    {
        let schedule = Schedule::new("t", "30 * * * *", TOPIC, "probe.tick.v1").time_zone("Europe/Berlin");
        let all = timetable(schedule.clone().missed(MissedTicks::FireAll { max: 1000 })).due(time(first), time(now));
        let all = all.expect("ticks").publish;
        for max in 1..=12 {
            let some = timetable(schedule.clone().missed(MissedTicks::FireAll { max })).due(time(first), time(now));
            assert_eq!(some.expect("ticks").publish, all[all.len() - max as usize..], "the latest {max}");
        }
    }
}

#[test]
fn an_invalid_schedule_is_reported_with_its_name_and_problem() {
    let error =
        Timetable::new(Schedule::new("nightly", "61 * * * *", TOPIC, "probe.tick.v1")).err().expect("no such minute");
    assert!(error.to_string().contains("nightly"), "{error}");
    let error = Timetable::new(hourly("nightly").time_zone("Mars/Olympus")).err().expect("no such zone");
    assert!(error.to_string().contains("nightly"), "{error}");
    let error = Timetable::new(hourly("nightly").once_per("nightly:{tenant}")).err().expect("a key for all ticks");
    assert!(error.to_string().contains("{tick}"), "{error}");
}

async fn platform() -> TestPlatform {
    TestPlatform::new(vec![bare_service(one_lane())]).await
}

#[tokio::test]
async fn a_tick_is_published_once_by_any_number_of_instances() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    let (second, _stop) = platform.another_instance();
    let timetables = [timetable(hourly("t").missed(MissedTicks::FireAll { max: 100 }))];
    let now = Timestamp::now();
    let start = now - hours(5);
    schedule::declare(platform.db(), &timetables, start).await.expect("declared");
    let mut published = 0;
    for _ in 0..5 {
        let both = tokio::join!(schedule::tick(platform.db(), &timetables), schedule::tick(second.db(), &timetables));
        published += both.0.expect("it ticks") + both.1.expect("it ticks");
    }
    assert_eq!(published, 5);
    let keys =
        "SELECT count(DISTINCT idempotency_key) FROM onceward.message_log WHERE idempotency_key LIKE 'schedule:t:%'";
    assert_eq!(count(&owner, keys).await, 5);
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.message_log").await, 5);
}

#[tokio::test]
async fn a_tick_repeated_after_a_restored_backup_is_deduplicated_by_its_key() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    let timetables = [timetable(hourly("t"))];
    let now = Timestamp::now();
    schedule::declare(platform.db(), &timetables, now - hours(1)).await.expect("declared");
    assert_eq!(schedule::tick(platform.db(), &timetables).await.expect("it ticks"), 1);
    owner.batch_execute("UPDATE onceward.schedule SET next_at = last_at").await.expect("the owner may turn time back");
    assert_eq!(schedule::tick(platform.db(), &timetables).await.expect("it ticks"), 1);
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.message_log").await, 1);
}

#[tokio::test]
async fn declaring_again_keeps_the_next_tick_unless_the_schedule_changed() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    let next = "SELECT extract(epoch FROM next_at)::bigint FROM onceward.schedule";
    let now = Timestamp::now();
    schedule::declare(platform.db(), &[timetable(hourly("t"))], now - hours(3)).await.expect("declared");
    let first = count(&owner, next).await;
    schedule::declare(platform.db(), &[timetable(hourly("t"))], now).await.expect("declared");
    assert_eq!(count(&owner, next).await, first);
    schedule::declare(platform.db(), &[timetable(hourly("t").time_zone("Asia/Kolkata"))], now).await.expect("declared");
    assert!(count(&owner, next).await > now.as_second(), "the changed schedule kept an old tick");
}

#[tokio::test]
async fn a_schedule_per_tenant_ticks_for_active_tenants() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    owner
        .batch_execute(
            "SELECT onceward.add_tenant(t) FROM unnest('{acme,globex,gone}'::text[]) AS t;
             UPDATE onceward.tenant SET active = false WHERE id = 'gone'",
        )
        .await
        .expect("three tenants");
    let timetables = [timetable(hourly("t").each_tenant().once_per("t-{tenant}:{tick}")), timetable(hourly("p"))];
    let now = Timestamp::now();
    schedule::declare(platform.db(), &timetables, now - hours(1)).await.expect("declared");
    schedule::tick(platform.db(), &timetables).await.expect("it ticks");
    let rows =
        owner.query("SELECT tenant_id || ' ' || topic FROM onceward.message_log ORDER BY 1", &[]).await.expect("rows");
    let published: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    let expected = ["acme", "globex", "platform"].map(|tenant| format!("{tenant} probe.events:tenant.{tenant}.tick"));
    assert_eq!(published, expected);
    let own_keys = "SELECT count(*) FROM onceward.message_log
                    WHERE idempotency_key ~ ('^t-' || tenant_id || ':[0-9-]{10}T[0-9]{2}:00:00Z$')";
    assert_eq!(count(&owner, own_keys).await, 2);
}

#[tokio::test]
async fn a_schedule_that_cannot_be_published_blocks_no_other_and_is_reported() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    let lost = Schedule::new("lost", "0 * * * *", "nowhere:x", "probe.tick.v1");
    let broken = Schedule::new("broken", "0 * * * *", TOPIC, "probe.job.v1");
    let timetables = [timetable(lost), timetable(hourly("good")), timetable(broken)];
    let names = ["lost", "good", "broken"].map(str::to_owned);
    schedule::declare(platform.db(), &timetables, Timestamp::now() - hours(1)).await.expect("declared");
    assert_eq!(schedule::tick(platform.db(), &timetables).await.expect("it ticks"), 1);
    schedule::tick(platform.db(), &timetables).await.expect("failing schedules are retried");
    let published = "SELECT count(*) FROM onceward.message_log WHERE idempotency_key LIKE 'schedule:good:%'";
    assert_eq!(count(&owner, published).await, 1);
    let failing = schedule::failing(platform.db(), &names).await.expect_err("two of them fail");
    assert!(failing.contains("lost since") && failing.contains("broken since"), "{failing}");
    assert!(!failing.contains("good since"), "{failing}");
    assert_eq!(count(&owner, "SELECT failures::bigint FROM onceward.schedule WHERE name = 'lost'").await, 2);
    // Once corrected, it ticks, and its failure is cleared.
    let corrected = [timetable(hourly("lost"))];
    schedule::declare(platform.db(), &corrected, Timestamp::now() - hours(1)).await.expect("declared");
    assert_eq!(schedule::tick(platform.db(), &corrected).await.expect("it ticks"), 1);
    assert_eq!(schedule::failing(platform.db(), &["lost".to_owned()]).await, Ok(()));
}

#[tokio::test]
async fn a_schedule_whose_statements_are_cancelled_blocks_no_other() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    owner
        .batch_execute(
            "CREATE FUNCTION public.cancel_slow() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 IF NEW.idempotency_key LIKE 'schedule:slow:%' THEN
                     RAISE 'canceling statement due to statement timeout' USING ERRCODE = '57014';
                 END IF;
                 RETURN NEW;
             END $$;
             CREATE TRIGGER cancel BEFORE INSERT ON onceward.message_log FOR EACH ROW EXECUTE FUNCTION public.cancel_slow()",
        )
        .await
        .expect("the owner may add a trigger");
    let timetables = [timetable(hourly("slow")), timetable(hourly("good"))];
    schedule::declare(platform.db(), &timetables, Timestamp::now() - hours(1)).await.expect("declared");
    assert_eq!(schedule::tick(platform.db(), &timetables).await.expect("the other one ticks"), 1);
    let failing = schedule::failing(platform.db(), &["slow".to_owned()]).await.expect_err("it fails");
    assert!(failing.contains("slow since") && failing.contains("57014"), "{failing}");
    let published = "SELECT count(*) FROM onceward.message_log WHERE idempotency_key LIKE 'schedule:good:%'";
    assert_eq!(count(&owner, published).await, 1);
}

#[tokio::test]
async fn the_next_tick_is_computed_with_the_databases_clock() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    let timetables = [timetable(Schedule::new("t", "* * * * * *", TOPIC, "probe.tick.v1"))];
    schedule::declare(platform.db(), &timetables, Timestamp::now() - hours(1)).await.expect("declared");
    // Ten minutes behind this machine's clock, like the database of a scheduler whose clock is ahead.
    owner
        .batch_execute(
            "CREATE OR REPLACE FUNCTION onceward.due_schedules(p_names text[])
                 RETURNS TABLE (name text, next_at timestamptz, now timestamptz)
                 LANGUAGE sql SECURITY DEFINER AS $$
                 SELECT s.name, s.next_at, clock_timestamp() - interval '10 minutes' FROM onceward.schedule s $$",
        )
        .await
        .expect("the owner may turn the clock back");
    schedule::tick(platform.db(), &timetables).await.expect("it ticks");
    let behind = "SELECT extract(epoch FROM clock_timestamp() - next_at)::bigint FROM onceward.schedule";
    let behind = count(&owner, behind).await;
    assert!((590..=660).contains(&behind), "the next tick is {behind} s ago by the database's clock");
}
