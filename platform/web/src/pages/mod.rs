//! Pages for people with a browser: the home page at `/`, the API as a document, and the meaning of problems.
//!
//! The server renders everything, without scripts and without external resources. A program that requests the same
//! addresses gets JSON or Markdown: see [`prefers_html`].

mod docs;
mod home;
mod markdown;
mod problem;
mod schema;

use axum::{
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use maud::{DOCTYPE, Markup, html};

pub(crate) use docs::docs;
pub(crate) use home::{HomePage, home};
pub(crate) use problem::{problem, problems};

/// The path of the style sheet.
pub(crate) const STYLE_PATH: &str = "/assets/onceward.css";
const STYLE: &str = include_str!("assets/onceward.css");
/// Forbids all scripts and external resources.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src data:; form-action 'none'; base-uri 'none'; \
                      frame-ancestors 'none'";
const PROGRAM_MEDIA_TYPES: &[&str] = &["application/json", "application/problem+json", "text/markdown"];

/// Returns whether the `Accept` header prefers HTML to formats for programs. `*/*` alone does not.
pub(crate) fn prefers_html(headers: &HeaderMap) -> bool {
    let accept: Vec<&str> = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let accept = accept.join(",");
    let quality = |media: &str| {
        let ranges = accept.split(',').map(|range| range.split(';').map(str::trim));
        let matching = ranges.filter_map(|mut range| range.next()?.eq_ignore_ascii_case(media).then_some(range));
        let qualities = matching.map(|mut parameters| {
            parameters.find_map(|parameter| parameter.strip_prefix("q=")?.parse::<f32>().ok()).unwrap_or(1.0)
        });
        qualities.fold(0.0, f32::max)
    };
    let html = quality("text/html");
    html > 0.0 && PROGRAM_MEDIA_TYPES.iter().all(|media| html >= quality(media))
}

/// Renders a whole page under `title`.
fn page(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="icon" href="data:,";
                link rel="stylesheet" href=(STYLE_PATH);
            }
            body {
                header.top {
                    nav aria-label="Pages" {
                        a.brand href="/" { "Onceward" }
                        a href="/docs" { "API" }
                        a href="/problems" { "Problems" }
                        a href="/health/ready" { "Health" }
                        a href="/metrics" { "Metrics" }
                    }
                }
                (body)
                footer { "Onceward " (env!("CARGO_PKG_VERSION")) }
            }
        }
    };
    page.into_string()
}

/// Sends a page with a content security policy that blocks everything else.
pub(crate) fn respond(html: impl Into<axum::body::Body>) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-cache"),
        (header::VARY, "accept"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, html.into()).into_response()
}

/// Serves the pages' style sheet.
pub(crate) async fn style() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/css; charset=utf-8"),
        (header::CACHE_CONTROL, "public, max-age=300"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, STYLE).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn is_html_preferred(accept: &'static str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        prefers_html(&headers)
    }

    #[test]
    fn browsers_get_pages_and_programs_do_not() {
        assert!(is_html_preferred("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"));
        assert!(is_html_preferred("text/html;q=0.9, application/json;q=0.5"));
        assert!(is_html_preferred("TEXT/HTML"));
        for programs in
            ["*/*", "application/json", "application/json, text/html;q=0.5", "text/html;q=0", "text/markdown"]
        {
            assert!(!is_html_preferred(programs), "{programs}");
        }
        assert!(!prefers_html(&HeaderMap::new()));
    }
}
