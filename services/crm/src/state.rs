//! What the service's routes, consumers and tasks share.

use crate::{
    CrmError, Settings,
    artifacts::Objects,
    keys::CrmKeys,
    sending::provider::{ProviderSlot, providers},
    templates::TemplateCache,
};
use std::sync::{Arc, OnceLock};

/// The settings, the keys, the caches and the ways to the outside world.
pub(crate) struct CrmState {
    pub settings: Settings,
    pub keys: CrmKeys,
    pub templates: TemplateCache,
    objects: OnceLock<Result<Objects, String>>,
    providers: OnceLock<Result<Vec<ProviderSlot>, String>>,
}

impl CrmState {
    pub(crate) fn new(settings: Settings) -> Arc<Self> {
        let keys = CrmKeys::new(&settings);
        let templates = TemplateCache::default();
        Arc::new(Self { settings, keys, templates, objects: OnceLock::new(), providers: OnceLock::new() })
    }

    /// Returns the store of objects, which is opened on first use. Fails if `crm.objects` cannot be used.
    pub(crate) fn objects(&self) -> Result<&Objects, CrmError> {
        let open = || Objects::open(&self.settings.objects).map_err(|error| error.to_string());
        self.objects.get_or_init(open).as_ref().map_err(|error| CrmError::Other(error.clone()))
    }

    /// Returns the providers in the order in which they are asked. Fails if one cannot be set up.
    pub(crate) fn providers(&self) -> Result<&[ProviderSlot], CrmError> {
        let create = || providers(&self.settings).map_err(|error| error.to_string());
        match self.providers.get_or_init(create) {
            Ok(providers) => Ok(providers),
            Err(error) => Err(CrmError::Other(error.clone())),
        }
    }
}
