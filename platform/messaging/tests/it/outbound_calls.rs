//! Leased handlers that call a destination: an outage costs messages time, not attempts.

use crate::support::{
    Calls, GENEROUS, HandlerCall, Job, QUEUE, count, drained, effects_reach, job, one_lane, publish, publish_names,
    quick, service, write_effect,
};
use jiff::{Timestamp, ToSpan};
use onceward::{
    BreakerSettings, CallError, Consumer, Destination, Failure, LeaseContext, LeasedHandler, Received, Service, Tx,
};
use onceward_testkit::{TestPlatform, eventually};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};
use tokio::sync::mpsc;

const SMS: &str = "sms";
const MESSAGES: usize = 30;

/// Calls a destination that the test switches on and off.
#[derive(Clone)]
struct SmsHandler {
    calls: mpsc::UnboundedSender<HandlerCall>,
    is_up: Arc<AtomicBool>,
}

impl LeasedHandler for SmsHandler {
    type Event = Job;
    type Work = ();

    async fn perform(&self, lease: &LeaseContext, received: &Received<'_, Job>) -> Result<(), Failure> {
        let call = async {
            let _ = self.calls.send(HandlerCall::of(received, &received.event));
            if self.is_up.load(SeqCst) { Ok(()) } else { Err(CallError::Failed("no route to host".to_owned())) }
        };
        Ok(lease.call(SMS, received)?.run(|_| call).await?)
    }

    async fn record(&self, tx: &mut Tx, received: &Received<'_, Job>, (): &()) -> Result<(), Failure> {
        write_effect(tx, &HandlerCall::of(received, &received.event)).await
    }
}

fn sms_service() -> (Service, Calls, Arc<AtomicBool>) {
    let (calls, seen) = Calls::channel();
    let is_up = Arc::new(AtomicBool::new(false));
    let handler = SmsHandler { calls, is_up: is_up.clone() };
    let consumer = Consumer::leased("probe", QUEUE).on(handler).concurrency(8).retry(quick(3)).budget(GENEROUS);
    let breaker = BreakerSettings { pause_ms: 100, max_pause_ms: 400, ..BreakerSettings::default() };
    let sms = Destination::new(SMS).breaker(breaker).budget(GENEROUS);
    (service(one_lane(), consumer).destination(sms), seen, is_up)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_of_a_destination_makes_no_dead_letter_and_everything_is_called_once_it_returns() {
    let (service, mut calls, is_up) = sms_service();
    let platform = TestPlatform::new(vec![service]).await;
    let owner = platform.database().owner().await;
    let (mut first, stop_first) = platform.another_instance();
    let (mut second, stop_second) = platform.another_instance();
    first.run_consumers();
    second.run_consumers();
    let names: Vec<String> = (0..MESSAGES).map(|n| format!("sms {n}")).collect();
    publish_names(platform.db(), "acme", &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    eventually("the breaker is open for all processes", || async {
        let open = "SELECT count(*) FROM outbound.breaker WHERE state->'phase'->>'phase' IN ('open', 'probing')";
        (count(&owner, open).await == 1).then_some(())
    })
    .await;
    // More probes than the attempts of all messages together would allow one message.
    for _ in 0..10 {
        calls.next().await;
    }
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.dead_letters").await, 0);
    is_up.store(true, SeqCst);
    effects_reach(&owner, MESSAGES).await;
    drained(&owner).await;
    assert_eq!(count(&owner, "SELECT count(*) FROM onceward.dead_letters").await, 0);
    assert_eq!(count(&owner, "SELECT count(DISTINCT name) FROM probe.effect").await, MESSAGES as i64);
    stop_first.cancel();
    stop_second.cancel();
    assert!(first.finished().await && second.finished().await);
}

#[tokio::test]
async fn a_message_whose_deadline_has_passed_is_not_called() {
    let (service, mut calls, is_up) = sms_service();
    is_up.store(true, SeqCst);
    let mut platform = TestPlatform::new(vec![service]).await;
    let owner = platform.database().owner().await;
    let (past, future) = (Timestamp::now() - 1.hour(), Timestamp::now() + 1.hour());
    publish(platform.db(), "acme", [job("acme", "late").deadline(past), job("acme", "in time").deadline(future)]).await;
    platform.run_consumers();
    assert_eq!(effects_reach(&owner, 1).await, ["in time"]);
    drained(&owner).await;
    assert_eq!(calls.names(1).await, ["in time"]);
    assert_eq!(calls.drain(), 0);
    let letters =
        "SELECT count(*) FROM onceward.dead_letters WHERE reason = 'expired' AND last_error LIKE 'its deadline was %'";
    assert_eq!(count(&owner, letters).await, 1);
}
