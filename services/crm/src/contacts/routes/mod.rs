//! The HTTP API of contacts: parses requests, runs commands and renders responses.

mod addresses;
mod assignments;
mod contacts;
mod flags;
mod notes;
mod rules;

use crate::state::CrmState;
use onceward::Routes;
use std::sync::Arc;

const DEFAULT_PAGE_SIZE: u16 = 50;
const MAX_PAGE_SIZE: u16 = 200;

pub(crate) fn routes() -> Routes<Arc<CrmState>> {
    contacts::routes()
        .merge(addresses::routes())
        .merge(notes::routes())
        .merge(flags::routes())
        .merge(assignments::routes())
        .merge(rules::routes())
}

/// Returns the size of a page.
fn page_size(limit: Option<u16>) -> usize {
    usize::from(limit.unwrap_or(DEFAULT_PAGE_SIZE).clamp(1, MAX_PAGE_SIZE))
}

/// Returns one row more than the page shows: it indicates that another page exists.
fn fetched(page_size: usize) -> i64 {
    i64::try_from(page_size.saturating_add(1)).unwrap_or(i64::MAX)
}

/// Removes the row beyond the page, and returns whether there was one.
fn cut<T>(rows: &mut Vec<T>, page_size: usize) -> bool {
    let has_more = rows.len() > page_size;
    rows.truncate(page_size);
    has_more
}
