//! `/`: the running services, and links to the other pages.

use super::page;
use crate::Routes;
use maud::html;
use serde_json::{Value, json};

/// The home page, as HTML and as JSON.
pub(crate) struct HomePage {
    pub html: String,
    pub json: Value,
}

/// Builds the home page of a server with these services.
pub(crate) fn home(services: &[(&'static str, Routes)]) -> HomePage {
    let names: Vec<&str> = services.iter().map(|(name, _)| *name).collect();
    let json = json!({
        "name": "Onceward", "version": env!("CARGO_PKG_VERSION"), "services": names, "docs": "/docs",
        "openapi": "/openapi.json", "problems": "/problems", "health": "/health/ready", "metrics": "/metrics",
    });
    HomePage { html: page("Onceward", &body(services)), json }
}

fn body(services: &[(&'static str, Routes)]) -> maud::Markup {
    let links = [
        ("/docs", "API reference", "Every route with its role, its request body and its responses."),
        ("/openapi.json", "OpenAPI 3.1", "The same description for programs and code generators."),
        ("/problems", "Problem pages", "What each error code means, and what to do about it."),
        ("/health/ready", "Readiness", "Whether this instance accepts traffic, and which check fails if it does not."),
    ];
    html! {
        main {
            h1 { "Onceward is running" }
            p.lead { "Services whose effects happen once. Every API request needs a token: "
                code { "Authorization: Bearer …" } "; " code { "onceward token issue" } " creates one with the local key." }
            ul.cards {
                @for (href, title, text) in links {
                    li { a href=(href) { strong { (title) } span { (text) } } }
                }
            }
            h2 { "Services" }
            table.services {
                thead { tr { th { "Service" } th.number { "Routes" } th { "First route" } } }
                tbody {
                    @for (name, routes) in services {
                        tr {
                            td { a href={ "/docs#" (name) } { (name) } }
                            td.number { (routes.specs().count()) }
                            td { @if let Some(first) = routes.specs().next() {
                                span class={ "method " (first.method.as_str().to_ascii_lowercase()) } { (first.method) }
                                " " code { (first.path) }
                            } }
                        }
                    }
                }
            }
        }
    }
}
