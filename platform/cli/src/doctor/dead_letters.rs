//! Messages that need attention: dead letters, and messages that have been retried for longer than their policy allows.

use super::{CheckContext, DoctorFinding, humanize, store};
use onceward_message_log::routes::OUTBOX;
use onceward_messaging::Consumer;
use std::time::Duration;

pub(super) async fn open(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let rows = context.query(store::OPEN_LETTERS, &[]).await?;
    let findings = rows.iter().map(|row| {
        let (queue, count, oldest_s): (&str, i64, f64) = (row.get(0), row.get(1), row.get(2));
        let letters = if count == 1 { "1 dead letter is".to_owned() } else { format!("{count} dead letters are") };
        let what = format!("{letters} open in {queue}, the oldest for {}", humanize(oldest_s));
        let retry = match queue {
            OUTBOX => "`onceward outbox retry --dead`",
            _ => "`onceward dlq requeue`",
        };
        let advice = format!(
            "read the errors with `onceward dlq list --queue {queue}`; then retry them with {retry}, or set them aside \
             with `onceward dlq quarantine`"
        );
        DoctorFinding::warning(what, advice)
    });
    Ok(findings.collect())
}

/// A key that is held for longer than this has been forgotten.
const HELD_TOO_LONG: Duration = Duration::from_secs(24 * 3600);

pub(super) async fn held_keys(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let rows = context.query(store::LONG_HELD_KEYS, &[&HELD_TOO_LONG.as_secs_f64()]).await?;
    let findings = rows.iter().map(|row| {
        let (queue, count, seconds, waiting): (&str, i64, f64, i64) = (row.get(0), row.get(1), row.get(2), row.get(3));
        let letters = if count == 1 { "1 dead letter holds its key".to_owned() } else { format!("{count} dead letters hold their keys") };
        let what = format!(
            "{letters} in {queue}, the oldest for {}; messages that wait behind them: {waiting}",
            humanize(seconds)
        );
        let advice = format!(
            "list them with `onceward dlq list --holding --queue {queue}`; then requeue them with `onceward dlq requeue`, or let \
             the others continue without them with `onceward dlq release`"
        );
        DoctorFinding::warning(what, advice)
    });
    Ok(findings.collect())
}

pub(super) async fn stuck_messages(context: &CheckContext<'_>) -> anyhow::Result<Vec<DoctorFinding>> {
    let (mut queues, mut longest_s) = (Vec::new(), Vec::new());
    for consumer in context.platform.consumers() {
        queues.push(consumer.queue());
        longest_s.push((longest_retry(consumer) + context.limits.stalled_after).as_secs_f64());
    }
    let mut findings = Vec::new();
    for row in context.query(store::RETRIED_TOO_LONG, &[&queues, &longest_s]).await? {
        let (queue, count, seconds, attempts): (&str, i64, f64, i32) = (row.get(0), row.get(1), row.get(2), row.get(3));
        let what = format!(
            "{count} messages of {queue} have been failing for up to {} ({attempts} attempts) and are still retried, which is longer \
             than the retry policy allows",
            humanize(seconds)
        );
        let advice =
            "read the errors in the workers' logs: a handler that snoozes again and again never uses up its attempts";
        findings.push(DoctorFinding::warning(what, advice));
    }
    for row in context.query(store::ORPHANED_FOLLOWERS, &[&context.stalled_after_s()]).await? {
        let (queue, count): (&str, i64) = (row.get(0), row.get(1));
        findings.push(DoctorFinding::critical(
            format!("{count} messages of {queue} wait behind a message that no longer exists"),
            "restart the queue's workers; if the messages still wait, report a bug with the output of `onceward trace`",
        ));
    }
    Ok(findings)
}

/// Returns the longest time that a consumer's policy allows between a message's first failure and its last attempt:
/// every wait and every attempt takes its maximum time.
fn longest_retry(consumer: &Consumer) -> Duration {
    let policy = consumer.retry_policy();
    let each = Duration::from_millis(policy.cap_ms).saturating_add(consumer.time_limit());
    each.saturating_mul(policy.max_attempts)
}
