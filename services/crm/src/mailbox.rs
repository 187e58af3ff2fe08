//! The mails of the provider `folder` in a browser, for development: `/crm/mailbox`.
//!
//! The pages exist only if `crm.mailbox_page` is set, because everybody who reaches the server can read them.

use crate::{Settings, html_response::html_response, state::CrmState};
use mailparse::{MailHeaderMap, ParsedMail};
use maud::{DOCTYPE, Markup, html};
use onceward::{prelude::*, web::axum::extract::State};
use std::{path::Path as FilePath, sync::Arc};
use uuid::Uuid;

/// Mails in the list, latest first.
const MAX_LISTED: usize = 100;
const MAX_DEPTH: usize = 10;
/// No scripts, forms or frames of other sites. A mail has its styles inline.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// Returns the pages, or no routes if they are not enabled.
pub(crate) fn routes(settings: &Settings) -> Routes<Arc<CrmState>> {
    if !settings.mailbox_page || !settings.providers.split_whitespace().any(|name| name == "folder") {
        return Routes::new();
    }
    Routes::new()
        .get("/crm/mailbox", Access::public(), list)
        .summary("Show the mails that the provider `folder` has taken. For development")
        .responds_media(200, "text/html")
        .get("/crm/mailbox/{name}", Access::public(), show)
        .summary("Show one of these mails")
        .responds_media(200, "text/html")
}

async fn list(State(state): State<Arc<CrmState>>) -> Result<Response, Problem> {
    let folder = state.settings.folder.clone();
    let mails = tokio::task::spawn_blocking(move || latest(FilePath::new(&folder))).await.map_err(Problem::internal)?;
    Ok(html_response(
        StatusCode::OK,
        POLICY,
        page(
            "Mailbox",
            &html! {
                p { "Mails that would have been sent, the latest " (MAX_LISTED) ". Nothing has left this machine." }
                @if mails.is_empty() { p { "There are none yet." } }
                ul {
                    @for (name, subject, to) in &mails {
                        li { a href={ "/crm/mailbox/" (name) } { (subject) } br; small { "To " (to) } }
                    }
                }
            },
        ),
    ))
}

async fn show(State(state): State<Arc<CrmState>>, Path(name): Path<Uuid>) -> Result<Response, Problem> {
    let path = FilePath::new(&state.settings.folder).join(format!("{name}.eml"));
    let none = |_| Problem::new(codes::NOT_FOUND).detail("There is no such mail in the folder.");
    let bytes = tokio::fs::read(path).await.map_err(none)?;
    let mail = mailparse::parse_mail(&bytes).map_err(Problem::internal)?;
    let header = |name: &str| mail.headers.get_first_value(name).unwrap_or_default();
    let (text, html_part) = (find(&mail, "text/plain", 0), find(&mail, "text/html", 0));
    Ok(html_response(
        StatusCode::OK,
        POLICY,
        page(
            &header("Subject"),
            &html! {
                dl {
                    @for name in ["From", "To", "Cc", "Date", "Message-ID"] {
                        @if !header(name).is_empty() { dt { (name) } dd { (header(name)) } }
                    }
                }
                @if let Some(content) = &html_part {
                    h2 { "HTML" }
                    iframe sandbox="" title="The HTML part" srcdoc=(content) {}
                }
                @if let Some(content) = &text { h2 { "Text" } pre { (content) } }
                h2 { "Source" }
                pre { (String::from_utf8_lossy(&bytes)) }
                p { a href="/crm/mailbox" { "All mails" } }
            },
        ),
    ))
}

/// Returns name, subject and recipient of the latest mails. File names are UUIDs in the order of time.
fn latest(folder: &FilePath) -> Vec<(Uuid, String, String)> {
    let Ok(files) = std::fs::read_dir(folder) else { return Vec::new() };
    let named = |file: std::io::Result<std::fs::DirEntry>| {
        let name = file.ok()?.file_name().into_string().ok()?;
        name.strip_suffix(".eml")?.parse::<Uuid>().ok()
    };
    let mut names: Vec<Uuid> = files.filter_map(named).collect();
    names.sort_unstable_by(|a, b| b.cmp(a));
    names.truncate(MAX_LISTED);
    let read = |name: Uuid| {
        let bytes = std::fs::read(folder.join(format!("{name}.eml"))).ok()?;
        let (headers, _) = mailparse::parse_headers(&bytes).ok()?;
        let header = |name: &str| headers.get_first_value(name).unwrap_or_default();
        Some((name, header("Subject"), header("To")))
    };
    names.into_iter().filter_map(read).collect()
}

fn find(part: &ParsedMail<'_>, media_type: &str, depth: usize) -> Option<String> {
    if depth > MAX_DEPTH {
        return None;
    }
    let is_body = part.subparts.is_empty() && part.ctype.mimetype == media_type;
    let body = is_body.then(|| part.get_body().ok()).flatten();
    body.or_else(|| part.subparts.iter().find_map(|inner| find(inner, media_type, depth + 1)))
}

fn page(title: &str, content: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="icon" href="data:,";
                style { (maud::PreEscaped(STYLE)) }
            }
            body { main { h1 { (title) } (content) } }
        }
    };
    page.into_string()
}

const STYLE: &str = "
    body { margin: 0; font: 16px/1.5 system-ui, sans-serif; }
    main { max-width: 760px; margin: 0 auto; padding: 16px; }
    h1 { font-size: 22px; overflow-wrap: anywhere; }
    dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 12px; }
    dt { font-weight: 600; } dd { margin: 0; overflow-wrap: anywhere; }
    pre, iframe { box-sizing: border-box; width: 100%; border: 1px solid #8886; border-radius: 6px; }
    pre { padding: 12px; white-space: pre-wrap; overflow-wrap: anywhere; }
    iframe { height: 480px; background: #fff; }
";
