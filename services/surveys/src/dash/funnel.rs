//! The funnel: for every page, how many sessions reached it, are on it, left on it or were turned away there.
//!
//! A session's position is the page that its respondent sees. Routing may skip a page; a session beyond it still counts
//! as having reached it. So for each page, `reached` equals `here + left + turned_away` plus the `reached` of the next
//! page.

use super::{
    consumer::{END, START},
    snapshot::PositionCount,
};
use serde::Serialize;

/// States of sessions that ended early without being turned away.
const LEFT: [&str; 3] = ["abandoned", "expired", "by_respondent"];
const TURNED_AWAY: [&str; 2] = ["screened_out", "quota_full"];

/// A page of the published definition.
pub(super) struct PublishedPage {
    pub(super) page_id: String,
    pub(super) title: Option<String>,
}

/// The number of idle active sessions on one page.
pub(super) struct IdleSessions {
    pub(super) page_id: String,
    pub(super) sessions: i64,
}

/// A page's session counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct FunnelPage {
    /// Empty for the last entry: everything is answered but not yet completed.
    pub(crate) page_id: String,
    pub(crate) title: Option<String>,
    pub(crate) page_index: usize,
    /// Sessions that reached this page or a later one.
    pub(crate) reached: i64,
    /// Active sessions on this page.
    pub(crate) here: i64,
    /// Sessions that ended early on this page, or have been idle for so long that they count as gone.
    pub(crate) left: i64,
    /// Sessions turned away by an answer on this page or by a full bucket.
    pub(crate) turned_away: i64,
}

/// Returns the pages in order, followed by the end. Pages that only earlier versions have are inserted at their former
/// index.
pub(super) fn pages(
    published: &[PublishedPage],
    positions: &[PositionCount],
    idle: &[IdleSessions],
) -> Vec<FunnelPage> {
    let mut pages: Vec<FunnelPage> = published
        .iter()
        .enumerate()
        .map(|(index, one)| FunnelPage {
            page_id: one.page_id.clone(),
            title: one.title.clone(),
            page_index: index,
            ..FunnelPage::default()
        })
        .collect();
    for PositionCount { page_id, page_index, .. } in positions {
        let is_listed = [START, END].contains(&page_id.as_str()) || pages.iter().any(|page| page.page_id == *page_id);
        if !is_listed {
            let index = usize::try_from(*page_index).unwrap_or(0).min(pages.len());
            pages.insert(index, FunnelPage { page_id: page_id.clone(), ..FunnelPage::default() });
        }
    }
    pages.push(FunnelPage::default());
    let end = pages.len() - 1;
    let index_of = |page_id: &str| match page_id {
        START => 0,
        END => end,
        id => pages.iter().position(|page| page.page_id == id).unwrap_or(0),
    };
    let indexes: Vec<usize> = positions.iter().map(|position| index_of(&position.page_id)).collect();
    let idle: Vec<(usize, i64)> = idle.iter().map(|one| (index_of(&one.page_id), one.sessions)).collect();
    for (position, index) in positions.iter().zip(indexes) {
        pages[..=index].iter_mut().for_each(|page| page.reached += position.sessions);
        match position.state.as_str() {
            "active" => pages[index].here += position.sessions,
            state if LEFT.contains(&state) => pages[index].left += position.sessions,
            state if TURNED_AWAY.contains(&state) => pages[index].turned_away += position.sessions,
            _ => {}
        }
    }
    for (index, sessions) in idle {
        let sessions = sessions.min(pages[index].here);
        pages[index].here -= sessions;
        pages[index].left += sessions;
    }
    pages.iter_mut().enumerate().for_each(|(index, page)| page.page_index = index);
    pages
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn position(page_id: &str, page_index: i32, state: &str, sessions: i64) -> PositionCount {
        let state = state.to_owned();
        PositionCount {
            collector_id: Uuid::nil(),
            collector_name: None,
            page_id: page_id.to_owned(),
            page_index,
            state,
            sessions,
        }
    }

    fn row(page: &FunnelPage) -> (&str, i64, i64, i64, i64) {
        (&page.page_id, page.reached, page.here, page.left, page.turned_away)
    }

    #[test]
    fn every_page_is_listed_and_its_counts_add_up_with_the_next_page() {
        let published =
            ["who", "what", "why"].map(|id| PublishedPage { page_id: id.into(), title: Some(id.to_uppercase()) });
        let positions = [
            position(START, 0, "active", 3),
            position(START, 0, "abandoned", 2),
            position("who", 0, "screened_out", 4),
            position("why", 2, "active", 5),
            position("why", 2, "quota_full", 1),
            position(END, i32::MAX, "active", 1),
            position(END, i32::MAX, "completed", 10),
        ];
        let idle =
            [IdleSessions { page_id: START.into(), sessions: 2 }, IdleSessions { page_id: "why".into(), sessions: 1 }];
        let pages = pages(&published, &positions, &idle);
        let rows: Vec<_> = pages.iter().map(row).collect();
        assert_eq!(
            rows,
            [("who", 26, 1, 4, 4), ("what", 17, 0, 0, 0), ("why", 17, 4, 1, 1), ("", 11, 1, 0, 0)],
            "a page without sessions is listed too"
        );
        assert_eq!(pages[0].title.as_deref(), Some("WHO"));
        for pair in pages.windows(2) {
            let [page, next] = pair else { unreachable!("a window has two pages") };
            assert_eq!(page.reached, page.here + page.left + page.turned_away + next.reached);
        }
    }

    #[test]
    fn a_page_of_an_earlier_version_keeps_its_index() {
        let published = ["a", "c"].map(|id| PublishedPage { page_id: id.into(), title: None });
        let pages = pages(&published, &[position("b", 1, "active", 2), position(END, i32::MAX, "completed", 1)], &[]);
        let ids: Vec<_> = pages.iter().map(|page| (page.page_id.as_str(), page.reached)).collect();
        assert_eq!(ids, [("a", 3), ("b", 3), ("c", 1), ("", 1)]);
    }
}
