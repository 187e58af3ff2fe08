//! Many concurrent commands right after the start, when no routes or lanes are cached.

use crate::support::{
    bus::{Bus, on_buses},
    fixture::OrdersFixture,
};
use futures_util::future::join_all;
use serde_json::json;

/// More than the number of database connections, so that commands would have to wait for each other's.
const TENANTS: usize = 64;

on_buses!(a_burst_of_first_orders_from_many_tenants_is_accepted);
async fn a_burst_of_first_orders_from_many_tenants_is_accepted(bus: Bus) {
    let fixture = OrdersFixture::start_without_consumers(&bus).await;
    assert!(TENANTS > fixture.platform.config().database.pool_size);
    let orders = (0..TENANTS).map(|number| {
        let (api, token) = (fixture.api.clone(), fixture.platform.token(&format!("tenant-{number}")));
        async move { api.place(&token, "first", &json!({"sku": "cup", "quantity": 1})).await }
    });
    let responses = join_all(orders).await;
    let rejected: Vec<_> = responses.iter().filter(|response| response.status != 202).collect();
    assert!(rejected.is_empty(), "{} of {TENANTS} were rejected, the first with {}", rejected.len(), rejected[0].body);
}
