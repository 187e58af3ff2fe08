//! Caches values that never change: published definitions by version, sets of buckets by revision. Both caches are
//! bounded in entries and in bytes, because authors decide how large a definition is.
//!
//! Every transaction reads which version and which revision apply, so nothing here can be stale. Bucket fill counts are
//! never cached. Processes also share definitions if `surveys.cache_url` names a Redis.

use crate::{
    Settings, SurveyError, compile,
    definition::{Questionnaire, memory_bytes},
    quota::QuotaBucket,
    runtime::store,
    shared_redis::SharedRedis,
};
use onceward::Tx;
use quick_cache::{
    DefaultHashBuilder, OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};
use std::{hash::Hash, sync::Arc};
use uuid::Uuid;

/// The tenant, the survey, and the version of its definition or the revision of its buckets.
type CacheKey = (String, Uuid, i32);

/// Cached definitions and sets of buckets.
pub struct SurveyCache {
    questionnaires: BoundedCache<CacheKey, Arc<Questionnaire>>,
    buckets: BoundedCache<CacheKey, Arc<[QuotaBucket]>>,
    shared: Option<SharedRedis>,
}

impl SurveyCache {
    /// Creates a cache with the limits and the optional shared Redis from the settings.
    pub fn new(settings: &Settings) -> Self {
        let (entries, bytes) = (settings.cache_entries, settings.cache_mib << 20);
        let shared = SharedRedis::new(&settings.cache_url);
        Self { questionnaires: BoundedCache::new(entries, bytes), buckets: BoundedCache::new(entries, bytes), shared }
    }

    /// Returns a published version of a survey. Fails with [`SurveyError::OutdatedDefinition`] if today's rules reject it.
    pub async fn questionnaire(
        &self,
        tx: &Tx,
        survey_id: Uuid,
        version: i32,
    ) -> Result<Arc<Questionnaire>, SurveyError> {
        let key = (tx.tenant()?.as_str().to_owned(), survey_id, version);
        if let Some(questionnaire) = self.questionnaires.get(&key) {
            return Ok(questionnaire);
        }
        let questionnaire = Arc::new(match self.shared_questionnaire(&key).await {
            Some(questionnaire) => questionnaire,
            None => self.stored_questionnaire(tx, &key).await?,
        });
        self.questionnaires.insert(key, questionnaire.clone(), questionnaire.bytes());
        Ok(questionnaire)
    }

    async fn shared_questionnaire(&self, key: &CacheKey) -> Option<Questionnaire> {
        let text = self.shared.as_ref()?.get(&redis_key(key)).await?;
        compile::compile(serde_json::from_str(&text).ok()?).await.ok()
    }

    async fn stored_questionnaire(&self, tx: &Tx, key: &CacheKey) -> Result<Questionnaire, SurveyError> {
        let (_, survey_id, version) = key;
        let definition = store::find_published(tx, *survey_id, *version).await?;
        // The rules may have become stricter since publication.
        let questionnaire = compile::compile(definition).await.map_err(|error| match error {
            SurveyError::InvalidDefinition(faults) => {
                SurveyError::OutdatedDefinition { survey_id: *survey_id, version: *version, faults }
            }
            other => other,
        })?;
        if let Some(shared) = &self.shared
            && let Ok(text) = serde_json::to_string(questionnaire.definition())
        {
            shared.set(&redis_key(key), &text).await;
        }
        Ok(questionnaire)
    }

    /// Returns the buckets in force at a revision.
    pub async fn buckets(&self, tx: &Tx, survey_id: Uuid, revision: i32) -> Result<Arc<[QuotaBucket]>, SurveyError> {
        let key = (tx.tenant()?.as_str().to_owned(), survey_id, revision);
        if let Some(buckets) = self.buckets.get(&key) {
            return Ok(buckets);
        }
        let buckets: Arc<[QuotaBucket]> = store::find_buckets(tx, survey_id, revision).await?.into();
        let bytes = buckets.iter().map(|bucket| memory_bytes(&bucket.condition)).fold(0, usize::saturating_add);
        self.buckets.insert(key, buckets.clone(), bytes);
        Ok(buckets)
    }
}

/// The key of a definition in the shared Redis.
fn redis_key((tenant, survey_id, version): &CacheKey) -> String {
    format!("onceward:surveys:definition:{tenant}:{survey_id}:{version}")
}

/// A cache with a limit on its entries and on their bytes. When it is full, it evicts entries that are rarely used.
struct BoundedCache<K, V> {
    cache: Cache<K, SizedEntry<V>, EntryWeighter>,
}

#[derive(Clone)]
struct SizedEntry<V> {
    value: V,
    bytes: u64,
}

/// Weighs an entry by its bytes, but at least by its share of the cache if that were full of entries. So the limit on
/// the total weight is a limit on the entries too.
#[derive(Clone)]
struct EntryWeighter {
    weight_min: u64,
}

impl<K, V> Weighter<K, SizedEntry<V>> for EntryWeighter {
    fn weight(&self, _: &K, entry: &SizedEntry<V>) -> u64 {
        entry.bytes.max(self.weight_min)
    }
}

impl<K: Eq + Hash, V: Clone> BoundedCache<K, V> {
    fn new(entries_max: usize, bytes_max: usize) -> Self {
        let (entries_max, bytes_max) = (entries_max.max(1), bytes_max as u64);
        // One shard, because each shard would be limited to a part of the bytes, and large entries would not fit.
        let options = OptionsBuilder::new()
            .shards(1)
            .estimated_items_capacity(entries_max)
            .weight_capacity(bytes_max)
            .build()
            .expect("both capacities are set");
        let weighter = EntryWeighter { weight_min: bytes_max.div_ceil(entries_max as u64).max(1) };
        let cache = Cache::with_options(options, weighter, DefaultHashBuilder::default(), DefaultLifecycle::default());
        Self { cache }
    }

    fn get(&self, key: &K) -> Option<V> {
        self.cache.get(key).map(|entry| entry.value)
    }

    /// Stores the value, unless it alone exceeds the limit on bytes.
    fn insert(&self, key: K, value: V, bytes: usize) {
        self.cache.insert(key, SizedEntry { value, bytes: bytes as u64 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_full_cache_keeps_the_entry_that_was_used() {
        let cache = BoundedCache::new(2, 100);
        cache.insert("a", 1, 1);
        cache.insert("b", 2, 1);
        assert_eq!(cache.get(&"a"), Some(1));
        cache.insert("c", 3, 1);
        assert_eq!(["a", "b", "c"].map(|key| cache.get(&key)), [Some(1), None, Some(3)]);
    }

    #[test]
    fn the_cache_is_bounded_in_entries() {
        let cache = BoundedCache::new(10, 1_000);
        for number in 0..100 {
            cache.insert(number, number, 1);
        }
        assert_eq!(cache.cache.len(), 10);
    }

    #[test]
    fn the_cache_is_bounded_in_bytes() {
        let cache = BoundedCache::new(100, 1_000);
        cache.insert("a", 1, 400);
        cache.insert("b", 2, 400);
        cache.insert("b", 3, 500);
        assert_eq!(["a", "b"].map(|key| cache.get(&key)), [Some(1), Some(3)], "a replaced value is counted once");
        cache.insert("c", 4, 600);
        assert!(cache.cache.weight() <= 1_000, "{}", cache.cache.weight());
        cache.insert("d", 5, 1_100);
        assert_eq!(cache.get(&"d"), None, "the value alone exceeds the limit");
        assert!(cache.cache.weight() <= 1_000, "{}", cache.cache.weight());
    }

    #[test]
    fn the_size_of_a_questionnaire_includes_its_texts_and_patterns() {
        let questionnaire = |question: serde_json::Value| {
            Questionnaire::new(
                serde_json::from_value(json!({"pages": [{"id": "p", "questions": [question]}]})).unwrap(),
            )
            .unwrap()
        };
        let text = |text: &str| json!({"id": "q", "text": text, "type": "text"});
        let plain = questionnaire(text("?")).bytes();
        assert!(plain < 2_000, "{plain}");
        assert!(questionnaire(text(&"?".repeat(10_000))).bytes() >= plain + 9_999);
        let mut with_pattern = text("?");
        with_pattern["pattern"] = "[a-z]+".into();
        assert!(questionnaire(with_pattern).bytes() > plain + (16 << 10));
    }
}
