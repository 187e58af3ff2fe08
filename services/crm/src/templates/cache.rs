//! Compiled templates in memory. A version never changes, so an entry never becomes wrong.

use super::StoredTemplate;
use onceward::TenantId;
use quick_cache::sync::Cache;
use std::sync::Arc;

/// Templates in memory at the most, over all tenants.
const CACHED_TEMPLATES: usize = 1_000;

/// The tenant, the template and its version.
type CacheKey = (TenantId, String, i32);

/// The versions that were used last.
pub(crate) struct TemplateCache(Cache<CacheKey, Arc<StoredTemplate>>);

impl Default for TemplateCache {
    fn default() -> Self {
        Self(Cache::new(CACHED_TEMPLATES))
    }
}

impl TemplateCache {
    pub(super) fn get(&self, tenant: &TenantId, template_id: &str, version: i32) -> Option<Arc<StoredTemplate>> {
        self.0.get(&(tenant.clone(), template_id.to_owned(), version))
    }

    pub(super) fn insert(&self, tenant: &TenantId, template: &Arc<StoredTemplate>) {
        self.0.insert((tenant.clone(), template.template_id.clone(), template.version), template.clone());
    }
}
