//! Many at once, right after the start, when nothing is known yet of routes and lanes.

use crate::support::{
    bus::{Bus, on_buses},
    shop::Shop,
};
use futures_util::future::join_all;
use serde_json::json;

/// More than there are database connections, so that commands would have to wait for each other's.
const TENANTS: usize = 64;

on_buses!(a_burst_of_first_orders_from_many_tenants_is_accepted);
async fn a_burst_of_first_orders_from_many_tenants_is_accepted(bus: Bus) {
    let shop = Shop::taking_orders_only(&bus).await;
    assert!(TENANTS > shop.platform.config().database.pool_size);
    let orders = (0..TENANTS).map(|number| {
        let (api, token) = (shop.api.clone(), shop.platform.token(&format!("tenant-{number}")));
        async move { api.place(&token, "first", &json!({"sku": "cup", "quantity": 1})).await }
    });
    let answers = join_all(orders).await;
    let refused: Vec<_> = answers.iter().filter(|a| a.status != 202).collect();
    assert!(refused.is_empty(), "{} of {TENANTS} were refused, the first with {}", refused.len(), refused[0].body);
}
