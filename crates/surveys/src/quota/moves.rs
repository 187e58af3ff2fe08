//! Which places a session wants, holds and gives back.

use crate::definition::{Answers, Condition, Form, Way};
use uuid::Uuid;

/// A bucket of a set in force. Its counts are the database's alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Bucket {
    /// Its id.
    pub bucket_id: Uuid,
    /// Who belongs to it.
    pub condition: Condition,
}

/// What is to become of a session's places.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moves {
    /// Held, and to be given back.
    pub release: Vec<Uuid>,
    /// To be held.
    pub reserve: Vec<Uuid>,
    /// Held, and to be filled.
    pub finalize: Vec<Uuid>,
    /// Not held, and to be filled.
    pub fill: Vec<Uuid>,
}

impl Moves {
    /// For a session that goes on. A bucket is wanted as soon as its condition is decided; one that is open again, because
    /// the respondent went back, is given back until then.
    pub fn going_on(buckets: &[Bucket], held: &[Uuid], form: &Form, way: &Way, answers: &Answers) -> Self {
        let wanted = wanted(buckets, form, way, answers);
        let reserve = wanted.iter().copied().filter(|bucket| !held.contains(bucket)).collect();
        let release = held.iter().copied().filter(|bucket| !wanted.contains(bucket)).collect();
        Self { release, reserve, ..Self::default() }
    }

    /// For a session that completes.
    pub fn completing(buckets: &[Bucket], held: &[Uuid], form: &Form, way: &Way, answers: &Answers) -> Self {
        let wanted = wanted(buckets, form, way, answers);
        let (finalize, fill) = wanted.iter().partition(|bucket| held.contains(bucket));
        let release = held.iter().copied().filter(|bucket| !wanted.contains(bucket)).collect();
        Self { release, finalize, fill, ..Self::default() }
    }

    /// For a session that ends otherwise.
    pub fn ending(held: &[Uuid]) -> Self {
        Self { release: held.to_vec(), ..Self::default() }
    }

    /// Every move by its name in the database, with its bucket.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&'static str, Uuid)> {
        let Self { release, reserve, finalize, fill } = self;
        let kinds = [("release", release), ("reserve", reserve), ("finalize", finalize), ("fill", fill)];
        kinds.into_iter().flat_map(|(kind, buckets)| buckets.iter().map(move |bucket| (kind, *bucket)))
    }
}

fn wanted(buckets: &[Bucket], form: &Form, way: &Way, answers: &Answers) -> Vec<Uuid> {
    let holds = |bucket: &&Bucket| form.holds(&bucket.condition, way, answers) == Some(true);
    buckets.iter().filter(holds).map(|bucket| bucket.bucket_id).collect()
}
