//! `/problems` and `/problems/<code>`.

use super::{markdown, page};
use crate::ProblemCode;
use maud::html;
use std::collections::BTreeMap;

/// Renders the page of one code.
pub(crate) fn problem(code: &ProblemCode) -> String {
    let body = html! {
        main.text {
            p.crumb { a href="/problems" { "Problems" } " / " code { (code.code) } }
            (markdown::to_html(code.page))
        }
    };
    page(code.title, &body)
}

/// Renders the list of all codes.
pub(crate) fn problems(codes: &BTreeMap<&'static str, ProblemCode>) -> String {
    let body = html! {
        main {
            h1 { "Problems" }
            p.lead { "Every error response is a problem document (RFC 9457). Its " code { "code" }
                " is one of these; its " code { "type" } " is the URL of the page." }
            table {
                thead { tr { th { "Code" } th.number { "Status" } th { "Meaning" } } }
                tbody {
                    @for code in codes.values() {
                        tr {
                            td { a href={ "/problems/" (code.code) } { code { (code.code) } } }
                            td.number { (code.status) }
                            td { (code.title) }
                        }
                    }
                }
            }
        }
    };
    page("Problems", &body)
}
