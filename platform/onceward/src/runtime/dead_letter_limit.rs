//! Limits the dead-letter queues on an external bus.
//!
//! Every dead letter is in the database; a copy is published to the queue's dead-letter exchange for external programs,
//! and a broker may also move messages there itself. If nothing reads such a queue, its oldest messages are removed
//! once it holds more than `bus.dead_letters_max`: copies are dropped, all others become dead letters in the database.

use onceward_message_log::triage::Operator;
use onceward_messaging::collect::DeadLetterCollector;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Checks the queues every `every` until `stop`.
pub(super) async fn run(collector: DeadLetterCollector, max: u64, every: Duration, stop: CancellationToken) {
    let reason = format!("the queue on the bus held more than bus.dead_letters_max ({max})");
    let operator = Operator { name: "onceward".to_owned(), why: reason };
    while !stop.is_cancelled() {
        let round = async {
            for queue in collector.unread_queues() {
                match collector.collect_beyond(queue, max, &operator).await {
                    Ok(report) if report.taken() == 0 => {}
                    Ok(report) => tracing::info!(
                        queue,
                        letters = report.letters.len(),
                        copies = report.copies,
                        "removed messages from a dead-letter queue that held more than bus.dead_letters_max"
                    ),
                    Err(error) => tracing::warn!(queue, %error, "limiting a dead-letter queue failed; retrying"),
                }
            }
        };
        tokio::select! { () = round => {}, () = stop.cancelled() => return }
        tokio::select! { () = tokio::time::sleep(every) => {}, () = stop.cancelled() => {} }
    }
}
