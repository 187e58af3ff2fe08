//! Publishing: all parcels of a batch are in flight at once, then one wait.
//!
//! **Order.** The producer is idempotent and gapless: the messages of a partition arrive in order and without gaps, or the
//! producer fails for good. Parcels do not expire in the producer, because one that expired before the next would leave a
//! gap. When any outcome is uncertain, the whole batch fails, and with it everything else in this producer: it is purged
//! before the error is returned and never used again. What it had already sent may still arrive later, in order. The
//! retry starts with the first uncertain message, so the first occurrence of every message follows those before it.

use crate::{KafkaBroker, MAX_BODY_BYTES, TOPIC_BYTES, admin::KafkaAdmin, batch::Batch, publisher::KafkaPublisher};
use onceward_broker::{BrokerError, Parcel, PublishOutcome};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::time::Instant;

/// How long to wait for a producer to be purged. It completes in the background in any case.
const PURGE_TIMEOUT: Duration = Duration::from_secs(2);

impl KafkaBroker {
    pub(crate) async fn publish_all(&self, parcels: Vec<Parcel>) -> Result<Vec<PublishOutcome>, BrokerError> {
        let deadline = Instant::now() + self.config.publish_timeout;
        let mut verdicts: Vec<Option<PublishOutcome>> = parcels.iter().map(too_large).collect();
        loop {
            let publisher = self.publisher()?;
            self.refuse(&publisher, &parcels, &mut verdicts).await?;
            let pending: Vec<usize> = (0..parcels.len()).filter(|index| verdicts[*index].is_none()).collect();
            if pending.is_empty() {
                return Ok(verdicts.into_iter().flatten().collect());
            }
            let batch = Batch::new(pending.len());
            let in_batch: Vec<&Parcel> = pending.iter().map(|index| &parcels[*index]).collect();
            let sent = match publisher.send(&batch, &in_batch, deadline).await {
                Ok(()) => batch.wait(deadline, self.config.heartbeat).await,
                Err(error) => Err(error),
            };
            if sent.is_err() {
                self.discard(&publisher).await;
                batch.wait_for_all_reports(Instant::now() + PURGE_TIMEOUT).await;
            }
            let mut refused = false;
            for (index, verdict) in pending.into_iter().zip(batch.verdicts()) {
                if let Some(PublishOutcome::Refused(_)) = &verdict {
                    publisher.forget_topic(&parcels[index].topic.exchange);
                    refused = true;
                }
                verdicts[index] = verdict;
            }
            // A refused message stops the producer like an outage does. Without it, the others can be sent.
            if let Err(why) = sent
                && (!refused || Instant::now() >= deadline)
            {
                return Err(BrokerError::Unavailable(publisher.describe(why)));
            }
        }
    }

    /// Refuses parcels that Kafka would refuse, without sending them.
    async fn refuse(
        &self,
        publisher: &Arc<KafkaPublisher>,
        parcels: &[Parcel],
        verdicts: &mut [Option<PublishOutcome>],
    ) -> Result<(), BrokerError> {
        let exchanges: BTreeSet<&str> = parcels.iter().map(|parcel| parcel.topic.exchange.as_str()).collect();
        if let Err(error) = self.load_topic_limits(publisher, exchanges).await {
            self.discard(publisher).await;
            return Err(error);
        }
        for (parcel, verdict) in parcels.iter().zip(verdicts).filter(|(_, verdict)| verdict.is_none()) {
            *verdict = publisher.refusal_reason(parcel).map(PublishOutcome::Refused);
        }
        Ok(())
    }

    /// Looks up topics that this producer has not sent to yet.
    async fn load_topic_limits(
        &self,
        publisher: &Arc<KafkaPublisher>,
        exchanges: BTreeSet<&str>,
    ) -> Result<(), BrokerError> {
        let mut unknown = publisher.unknown_topics(exchanges);
        if unknown.is_empty() {
            return Ok(());
        }
        let missing = publisher.missing_topics(unknown.clone(), self.request_timeout()).await?;
        unknown.retain(|exchange| !missing.contains(exchange));
        // Without the right to read the limit, Kafka itself rejects a message that is too large.
        let lookup = move |admin: &KafkaAdmin| {
            let with_largest = |topic: String| (admin.largest_record(&topic).unwrap_or(TOPIC_BYTES), topic);
            Ok(unknown.into_iter().map(with_largest).map(|(bytes, topic)| (topic, bytes)).collect())
        };
        publisher.set_topic_limits(self.admin(lookup).await?);
        Ok(())
    }

    /// Returns the shared producer, and creates it if needed.
    fn publisher(&self) -> Result<Arc<KafkaPublisher>, BrokerError> {
        let mut slot = self.publisher.lock();
        if let Some(publisher) = &*slot {
            return Ok(publisher.clone());
        }
        let publisher = Arc::new(KafkaPublisher::new(self)?);
        *slot = Some(publisher.clone());
        Ok(publisher)
    }

    /// Purges the producer. The next batch gets a new one.
    async fn discard(&self, publisher: &Arc<KafkaPublisher>) {
        {
            let mut slot = self.publisher.lock();
            if slot.as_ref().is_some_and(|current| Arc::ptr_eq(current, publisher)) {
                *slot = None;
            }
        }
        publisher.purge(PURGE_TIMEOUT).await;
    }
}

fn too_large(parcel: &Parcel) -> Option<PublishOutcome> {
    let size = parcel.body.len();
    (size > MAX_BODY_BYTES).then(|| {
        PublishOutcome::Refused(format!("the body has {size} bytes and at most {MAX_BODY_BYTES} are accepted"))
    })
}
