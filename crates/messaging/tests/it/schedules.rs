//! Schedules: each tick once across all instances, in the right time zone, by the policy for missed ones.

use crate::support::{bare_service, count, one_lane};
use jiff::{SignedDuration, Timestamp};
use onceward::{
    Schedule,
    messaging::schedule::{self, Timetable},
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

/// The ticks of a day, from noon to noon UTC.
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
fn nine_in_the_morning_stays_nine_in_the_morning_when_the_clocks_change() {
    let spring = ticks("0 9 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", "2026-03-30T12:00:00Z");
    assert_eq!(spring, ["2026-03-28T08:00:00Z", "2026-03-29T07:00:00Z", "2026-03-30T07:00:00Z"]);
    let autumn = ticks("0 9 * * *", "Europe/Berlin", "2026-10-24T00:00:00Z", "2026-10-26T12:00:00Z");
    assert_eq!(autumn, ["2026-10-24T07:00:00Z", "2026-10-25T08:00:00Z", "2026-10-26T08:00:00Z"]);
}

#[test]
fn an_hour_that_comes_twice_has_a_daily_tick_once() {
    let night = ticks("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z");
    assert_eq!(night.len(), 1, "{night:?}");
}

#[test]
fn an_hour_that_is_left_out_still_has_its_daily_tick() {
    let night = ticks("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z");
    assert_eq!(night.len(), 1, "{night:?}");
}

#[test]
fn an_hourly_tick_comes_every_hour_of_the_night_in_which_the_clocks_change() {
    for (from, to) in
        [("2026-03-28T20:00:00Z", "2026-03-29T08:00:00Z"), ("2026-10-24T20:00:00Z", "2026-10-25T08:00:00Z")]
    {
        assert_eq!(ticks("0 * * * *", "Europe/Berlin", from, to).len(), 12, "from {from}");
    }
}

#[test]
fn missed_ticks_are_skipped_made_up_once_or_made_up_each() {
    let (first, now) = (time("2026-01-01T01:00:00Z"), time("2026-01-01T05:30:00Z"));
    let due = |missed| timetable(hourly("t").missed(missed)).due(first, now).expect("ticks");
    let next = time("2026-01-01T06:00:00Z");
    assert_eq!(due(MissedTicks::Skip), (vec![], next));
    assert_eq!(due(MissedTicks::FireOnce), (vec![time("2026-01-01T05:00:00Z")], next));
    let all = due(MissedTicks::FireAll { max: 3 });
    let latest = ["2026-01-01T03:00:00Z", "2026-01-01T04:00:00Z", "2026-01-01T05:00:00Z"].map(time);
    assert_eq!(all, (latest.to_vec(), next));
}

#[test]
fn a_tick_that_is_only_a_little_late_is_not_missed() {
    let (first, now) = (time("2026-01-01T01:00:00Z"), time("2026-01-01T01:00:30Z"));
    let due = timetable(hourly("t").missed(MissedTicks::Skip)).due(first, now).expect("ticks");
    assert_eq!(due, (vec![first], time("2026-01-01T02:00:00Z")));
}

#[test]
fn a_schedule_that_cannot_be_read_says_which_and_why() {
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
async fn a_tick_is_published_once_however_many_instances_look() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    let (second, _stop) = platform.another_instance();
    let timetables = [timetable(hourly("t").missed(MissedTicks::FireAll { max: 100 }))];
    let now = Timestamp::now();
    let start = now - hours(5);
    schedule::declare(platform.db(), &timetables, start).await.expect("declared");
    let mut published = 0;
    for _ in 0..5 {
        let both = tokio::join!(
            schedule::tick(platform.db(), &timetables, now),
            schedule::tick(second.db(), &timetables, now)
        );
        published += both.0.expect("it ticks") + both.1.expect("it ticks");
    }
    assert_eq!(published, 5);
    let keys =
        "SELECT count(DISTINCT idempotency_key) FROM onceward.message_log WHERE idempotency_key LIKE 'schedule:t:%'";
    assert_eq!(count(&owner, keys).await, 5);
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.message_log").await, 5);
}

#[tokio::test]
async fn a_tick_that_comes_again_after_a_restored_backup_is_recognised_by_its_key() {
    let platform = platform().await;
    let owner = platform.database().owner().await;
    let timetables = [timetable(hourly("t"))];
    let now = Timestamp::now();
    schedule::declare(platform.db(), &timetables, now - hours(1)).await.expect("declared");
    assert_eq!(schedule::tick(platform.db(), &timetables, now).await.expect("it ticks"), 1);
    owner.batch_execute("UPDATE onceward.schedule SET next_at = last_at").await.expect("the owner may turn time back");
    assert_eq!(schedule::tick(platform.db(), &timetables, now).await.expect("it ticks"), 1);
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.message_log").await, 1);
}

#[tokio::test]
async fn declaring_again_keeps_the_next_tick_and_a_changed_schedule_starts_anew() {
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
async fn a_schedule_for_each_tenant_ticks_for_the_active_ones() {
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
    schedule::tick(platform.db(), &timetables, now).await.expect("it ticks");
    let rows =
        owner.query("SELECT tenant_id || ' ' || topic FROM onceward.message_log ORDER BY 1", &[]).await.expect("rows");
    let published: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    let expected = ["acme", "globex", "platform"].map(|tenant| format!("{tenant} probe.events:tenant.{tenant}.tick"));
    assert_eq!(published, expected);
    let own_keys = "SELECT count(*) FROM onceward.message_log
                    WHERE idempotency_key ~ ('^t-' || tenant_id || ':[0-9-]{10}T[0-9]{2}:00:00Z$')";
    assert_eq!(count(&owner, own_keys).await, 2);
}
