//! What never changes is kept: published definitions by their version, sets of buckets by their revision.
//!
//! Which version and which revision count is read in every transaction, so nothing here can be out of date. How full a bucket
//! is is never here. Definitions are also shared between processes, where `surveys.cache_url` names a Redis.

use crate::{
    Settings, SurveyError,
    definition::{Definition, Form},
    quota::{self, Bucket},
    runtime::store,
    shared::Shared,
};
use onceward::Tx;
use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex},
};
use uuid::Uuid;

type Key = (String, Uuid, i32);

/// Definitions and sets of buckets.
pub struct Cache {
    forms: Kept<Key, Arc<Form>>,
    buckets: Kept<Key, Arc<[Bucket]>>,
    shared: Option<Shared>,
}

impl Cache {
    /// Keeps as many as the settings say, and shares where they say.
    pub fn new(settings: &Settings) -> Self {
        let entries = settings.cache_entries;
        Self { forms: Kept::new(entries), buckets: Kept::new(entries), shared: Shared::new(&settings.cache_url) }
    }

    /// A published version of a survey.
    pub async fn form(&self, tx: &Tx, survey_id: Uuid, version: i32) -> Result<Arc<Form>, SurveyError> {
        let key = (tx.tenant()?.as_str().to_owned(), survey_id, version);
        if let Some(form) = self.forms.get(&key) {
            return Ok(form);
        }
        let form = Arc::new(match self.shared_form(&key).await {
            Some(form) => form,
            None => self.stored_form(tx, &key).await?,
        });
        self.forms.put(key, form.clone());
        Ok(form)
    }

    async fn shared_form(&self, key: &Key) -> Option<Form> {
        let text = self.shared.as_ref()?.get(&name(key)).await?;
        Form::new(serde_json::from_str(&text).ok()?).ok()
    }

    async fn stored_form(&self, tx: &Tx, key: &Key) -> Result<Form, SurveyError> {
        let (_, survey_id, version) = key;
        let definition: Definition = store::find_published(tx, *survey_id, *version).await?;
        let form = Form::new(definition).map_err(|_| {
            SurveyError::Corrupt(format!("version {version} of survey {survey_id} was published and is not valid"))
        })?;
        if let Some(shared) = &self.shared
            && let Ok(text) = serde_json::to_string(form.definition())
        {
            shared.put(&name(key), &text).await;
        }
        Ok(form)
    }

    /// The buckets that are in force with a revision.
    pub async fn buckets(&self, tx: &Tx, survey_id: Uuid, revision: i32) -> Result<Arc<[Bucket]>, SurveyError> {
        let key = (tx.tenant()?.as_str().to_owned(), survey_id, revision);
        if let Some(buckets) = self.buckets.get(&key) {
            return Ok(buckets);
        }
        let buckets: Arc<[Bucket]> = quota::store::find_buckets(tx, survey_id, revision).await?.into();
        self.buckets.put(key, buckets.clone());
        Ok(buckets)
    }
}

/// What a definition is called among processes.
fn name((tenant, survey_id, version): &Key) -> String {
    format!("onceward:surveys:definition:{tenant}:{survey_id}:{version}")
}

/// A map with a bound. When it is full, what was not asked for the longest goes.
struct Kept<K, V> {
    entries: Mutex<Entries<K, V>>,
    most: usize,
}

/// Each value with when it was asked for last, and how often anything was.
type Entries<K, V> = (HashMap<K, (V, u64)>, u64);

impl<K: Eq + Hash + Clone, V: Clone> Kept<K, V> {
    fn new(most: usize) -> Self {
        Self { entries: Mutex::default(), most: most.max(1) }
    }

    fn get(&self, key: &K) -> Option<V> {
        let mut entries = self.entries.lock().expect("no panic while held");
        let (map, clock) = &mut *entries;
        *clock += 1;
        let (value, asked) = map.get_mut(key)?;
        *asked = *clock;
        Some(value.clone())
    }

    fn put(&self, key: K, value: V) {
        let mut entries = self.entries.lock().expect("no panic while held");
        let (map, clock) = &mut *entries;
        *clock += 1;
        if map.len() >= self.most && !map.contains_key(&key) {
            let oldest = map.iter().min_by_key(|(_, (_, asked))| *asked).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| map.remove(&oldest));
        }
        map.insert(key, (value, *clock));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_last_stays() {
        let kept = Kept::new(2);
        kept.put("a", 1);
        kept.put("b", 2);
        assert_eq!(kept.get(&"a"), Some(1));
        kept.put("c", 3);
        assert_eq!(["a", "b", "c"].map(|key| kept.get(&key)), [Some(1), None, Some(3)]);
    }
}
