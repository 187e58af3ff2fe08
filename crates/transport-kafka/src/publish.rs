//! Publishing: many parcels in flight, one wait.
//!
//! **Order.** The producer is idempotent and gapless: what it has sent of a partition arrives in its order
//! and without holes, or it stops for good. No parcel expires by itself, because one that expired before the
//! next would leave a hole. When anything is in doubt, the whole batch is an error, and with it everything else
//! that this producer had in hand: it is emptied before the error is returned and never used again. What it had
//! already put on the wire may still arrive later, in its order. Whoever publishes the batch again begins with
//! the first message in doubt, so every message has its first occurrence after those before it.

use crate::{KafkaBroker, MAX_BODY_BYTES, TOPIC_BYTES, admin::Admin, batch::Batch, publisher::Publisher};
use onceward_transport::{BrokerError, Parcel, Verdict};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::time::Instant;

/// How long emptying a producer is waited for. It ends by itself in any case.
const EMPTIED: Duration = Duration::from_secs(2);

impl KafkaBroker {
    pub(crate) async fn send_all(&self, parcels: Vec<Parcel>) -> Result<Vec<Verdict>, BrokerError> {
        let until = Instant::now() + self.config.publish_timeout;
        let mut verdicts: Vec<Option<Verdict>> = parcels.iter().map(too_large).collect();
        loop {
            let publisher = self.publisher()?;
            self.refuse(&publisher, &parcels, &mut verdicts).await?;
            let pending: Vec<usize> = (0..parcels.len()).filter(|index| verdicts[*index].is_none()).collect();
            if pending.is_empty() {
                return Ok(verdicts.into_iter().flatten().collect());
            }
            let batch = Batch::new(pending.len());
            let in_batch: Vec<&Parcel> = pending.iter().map(|index| &parcels[*index]).collect();
            let sent = match publisher.send(&batch, &in_batch, until).await {
                Ok(()) => batch.wait(until, self.config.heartbeat).await,
                Err(error) => Err(error),
            };
            if sent.is_err() {
                self.give_up(&publisher).await;
                batch.wait_for_the_rest(Instant::now() + EMPTIED).await;
            }
            let mut refused = false;
            for (index, verdict) in pending.into_iter().zip(batch.verdicts()) {
                if let Some(Verdict::Refused(_)) = &verdict {
                    publisher.forget(&parcels[index].topic.exchange);
                    refused = true;
                }
                verdicts[index] = verdict;
            }
            // A message that is not wanted stops the producer like an outage does. Without it, the others get through.
            if let Err(why) = sent
                && (!refused || Instant::now() >= until)
            {
                return Err(BrokerError::Unavailable(publisher.reason(why)));
            }
        }
    }

    /// Refuses what Kafka would, so that its word need not be waited for.
    async fn refuse(
        &self,
        publisher: &Arc<Publisher>,
        parcels: &[Parcel],
        verdicts: &mut [Option<Verdict>],
    ) -> Result<(), BrokerError> {
        let exchanges: BTreeSet<&str> = parcels.iter().map(|parcel| parcel.topic.exchange.as_str()).collect();
        if let Err(error) = self.learn(publisher, exchanges).await {
            self.give_up(publisher).await;
            return Err(error);
        }
        for (parcel, verdict) in parcels.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_none()) {
            *verdict = publisher.objection(parcel).map(Verdict::Refused);
        }
        Ok(())
    }

    /// Asks about topics that this producer has not sent to yet.
    async fn learn(&self, publisher: &Arc<Publisher>, exchanges: BTreeSet<&str>) -> Result<(), BrokerError> {
        let mut unknown = publisher.unknown(exchanges);
        if unknown.is_empty() {
            return Ok(());
        }
        let missing = publisher.missing(unknown.clone(), self.asking_time()).await?;
        unknown.retain(|exchange| !missing.contains(exchange));
        // Where we may not ask, Kafka says so itself when a message is too large.
        let ask = move |admin: &Admin| {
            let with_largest = |topic: String| (admin.largest_record(&topic).unwrap_or(TOPIC_BYTES), topic);
            Ok(unknown.into_iter().map(with_largest).map(|(bytes, topic)| (topic, bytes)).collect())
        };
        publisher.learn(self.admin(ask).await?);
        Ok(())
    }

    /// The producer that everybody shares.
    fn publisher(&self) -> Result<Arc<Publisher>, BrokerError> {
        let mut slot = self.publisher.lock().expect("no panic while held");
        if let Some(publisher) = &*slot {
            return Ok(publisher.clone());
        }
        let publisher = Arc::new(Publisher::new(self)?);
        *slot = Some(publisher.clone());
        Ok(publisher)
    }

    /// Whoever publishes next gets another producer.
    async fn give_up(&self, publisher: &Arc<Publisher>) {
        {
            let mut slot = self.publisher.lock().expect("no panic while held");
            if slot.as_ref().is_some_and(|current| Arc::ptr_eq(current, publisher)) {
                *slot = None;
            }
        }
        publisher.empty(EMPTIED).await;
    }
}

fn too_large(parcel: &Parcel) -> Option<Verdict> {
    let size = parcel.body.len();
    (size > MAX_BODY_BYTES)
        .then(|| Verdict::Refused(format!("its body has {size} bytes; at most {MAX_BODY_BYTES} can be carried")))
}
