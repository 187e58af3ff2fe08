//! Quotas: places in buckets that are reserved, filled or released, and never given out twice.
//!
//! ```text
//!           page submitted                  completed
//!   free ───────────────────► reserved ───────────────────► filled
//!     ▲   the gate: filled < target and        │  no gate: the session holds the place
//!     │   reserved + filled < target + overfill│
//!     └── ended, inactive, other answers ◄─────┘
//! ```
//!
//! [`PlaceChanges`] are the places that a session needs or no longer needs, decided without I/O. `surveys.steps` in
//! `migrations/0003_steps.sql` is the gate: it grants each session all the places it needs or none, under the locks of
//! the session rows and then of the buckets in the order of their ids. A session that was inactive for too long has
//! released its places; when it continues, it passes the gate again.
//!
//! A bucket is closed once `filled` reaches its target: no new session is admitted, but a session that holds a place
//! may still fill it. So `max_overfill` limits how many places beyond the target are held at the same time. A target
//! may be lowered below the number of places taken: that closes the bucket, and sessions that hold places keep them.
//!
//! Invariant: `reserved + filled` never grows beyond `target + max_overfill`. The gate ensures this, and the table
//! constraint `quota_never_overfills` would reject any violation that the gate missed.

use crate::{
    definition::{AnswersByPage, Condition, Questionnaire, SurveyPath},
    events::{BucketClosed, QuotaFinalized, QuotaReleased, QuotaReserved, publish},
};
use onceward::{PublishError, Tx};
use uuid::Uuid;

/// A bucket in force. Only the database has its counts.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaBucket {
    /// The bucket's id.
    pub bucket_id: Uuid,
    /// The condition under which a respondent belongs to the bucket.
    pub condition: Condition,
}

/// The changes to a session's places that a step requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlaceChanges {
    /// Held places to release.
    pub release: Vec<Uuid>,
    /// Places to reserve.
    pub reserve: Vec<Uuid>,
    /// Held places to fill.
    pub finalize: Vec<Uuid>,
    /// Places to fill that are not held.
    pub fill: Vec<Uuid>,
}

impl PlaceChanges {
    /// Returns the changes of a session that continues. A bucket is needed as soon as its condition is known to hold.
    /// If the condition is undecided again because the respondent went back, the place is released until it is decided.
    pub fn on_continue(
        buckets: &[QuotaBucket],
        held: &[Uuid],
        questionnaire: &Questionnaire,
        path: &SurveyPath,
        answers: &AnswersByPage,
    ) -> Self {
        let needed = needed(buckets, questionnaire, path, answers);
        let reserve = needed.iter().copied().filter(|bucket| !held.contains(bucket)).collect();
        let release = held.iter().copied().filter(|bucket| !needed.contains(bucket)).collect();
        Self { release, reserve, ..Self::default() }
    }

    /// Returns the changes of a session that completes.
    pub fn on_complete(
        buckets: &[QuotaBucket],
        held: &[Uuid],
        questionnaire: &Questionnaire,
        path: &SurveyPath,
        answers: &AnswersByPage,
    ) -> Self {
        let needed = needed(buckets, questionnaire, path, answers);
        let (finalize, fill) = needed.iter().partition(|bucket| held.contains(bucket));
        let release = held.iter().copied().filter(|bucket| !needed.contains(bucket)).collect();
        Self { release, finalize, fill, ..Self::default() }
    }

    /// Returns the changes of a session that ends without being completed.
    pub fn on_end(held: &[Uuid]) -> Self {
        Self { release: held.to_vec(), ..Self::default() }
    }

    /// Returns every change's name in the database, with its bucket.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&'static str, Uuid)> {
        let Self { release, reserve, finalize, fill } = self;
        let kinds = [("release", release), ("reserve", reserve), ("finalize", finalize), ("fill", fill)];
        kinds.into_iter().flat_map(|(kind, buckets)| buckets.iter().map(move |bucket| (kind, *bucket)))
    }
}

fn needed(
    buckets: &[QuotaBucket],
    questionnaire: &Questionnaire,
    path: &SurveyPath,
    answers: &AnswersByPage,
) -> Vec<Uuid> {
    let holds = |bucket: &&QuotaBucket| questionnaire.holds(&bucket.condition, path, answers) == Some(true);
    buckets.iter().filter(holds).map(|bucket| bucket.bucket_id).collect()
}

/// What the gate decided about a step.
#[derive(Debug, Default)]
pub(crate) struct StepPlaces {
    pub changes: Vec<BucketChange>,
    /// A required place was not available, so the session has ended.
    pub full: bool,
}

/// A step's change to one bucket, with the bucket's counts afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BucketChange {
    pub bucket_id: Uuid,
    pub kind: BucketChangeKind,
    pub reserved: i32,
    pub filled: i32,
    pub target: i32,
    /// Whether the bucket reached its target with this change.
    pub closed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BucketChangeKind {
    Released,
    Reserved,
    Finalized,
}

/// Publishes the changes of a session's places with the commit of `tx`.
pub(crate) async fn publish_changes(
    tx: &mut Tx,
    survey_id: Uuid,
    session_id: Uuid,
    changes: &[BucketChange],
) -> Result<(), PublishError> {
    for &BucketChange { bucket_id, kind, reserved, filled, target, closed } in changes {
        match kind {
            BucketChangeKind::Released => {
                publish(tx, &QuotaReleased { bucket_id, survey_id, session_id, reserved, filled, target }).await?
            }
            BucketChangeKind::Reserved => {
                publish(tx, &QuotaReserved { bucket_id, survey_id, session_id, reserved, filled, target }).await?
            }
            BucketChangeKind::Finalized => {
                publish(tx, &QuotaFinalized { bucket_id, survey_id, session_id, reserved, filled, target }).await?
            }
        }
        if closed {
            publish(tx, &BucketClosed { bucket_id, survey_id, filled, target }).await?;
        }
    }
    Ok(())
}
