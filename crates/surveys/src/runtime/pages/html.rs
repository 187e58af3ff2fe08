//! The pages themselves.

use super::question;
use crate::{
    definition::{AnswerFault, Page},
    events::TerminationReason,
    runtime::store::Status,
};
use maud::{DOCTYPE, Markup, html};
use serde_json::{Map, Value};

/// A page of questions, and where it stands.
pub(super) struct Sheet<'f> {
    pub(super) title: &'f str,
    pub(super) page: &'f Page,
    /// The number of the submit that this page leads to.
    pub(super) attempt: i32,
    pub(super) path: String,
    /// The page before it.
    pub(super) back: Option<String>,
    pub(super) percent: usize,
}

pub(super) fn start(title: &str, link: &str, key: &str, begun: Option<&str>) -> String {
    let main = html! {
        h1 { (title) }
        @if let Some(path) = begun {
            p { "You have begun this survey in this browser." }
            p { a.button href=(path) { "Go on where you were" } }
        }
        form method="post" action={ "/s/" (link) } {
            input type="hidden" name="key" value=(key);
            button.second[begun.is_some()] type="submit" { @if begun.is_some() { "Begin anew" } @else { "Begin" } }
        }
        p.note { "A cookie keeps your place, so that you can go on later in this browser. Nothing else is kept in it." }
    };
    document(title, &main)
}

/// A page with `answers` filled in, and with what is wrong with them.
pub(super) fn question_page(sheet: &Sheet<'_>, answers: &Map<String, Value>, faults: &[AnswerFault]) -> String {
    let Sheet { title, page, attempt, path, back, percent } = sheet;
    let fault = |id: &str| faults.iter().find(|fault| fault.question == id).map(question::complaint);
    let heading = page.title.as_deref().unwrap_or(title);
    let main = html! {
        (progress(*percent))
        @if !faults.is_empty() { (summary(page, faults)) }
        @if page.title.is_some() { p.kind { (title) } }
        h1 { (heading) }
        // What is wrong is said by us, beside the field and in one place, and not by each browser in its own way.
        form method="post" action=(path) novalidate {
            input type="hidden" name="page" value=(page.id);
            input type="hidden" name="attempt" value=(attempt);
            @for (index, asked) in page.questions.iter().enumerate() {
                (question::question(index, asked, answers.get(&asked.id), fault(&asked.id).as_deref()))
            }
            div.actions {
                button type="submit" { "Continue" }
                @if let Some(back) = back { a href=(earlier(path, back)) { "Back" } }
            }
        }
    };
    let title = if faults.is_empty() { heading.to_owned() } else { format!("Error: {heading}") };
    document(&title, &main)
}

/// Everything is answered.
pub(super) fn last(title: &str, path: &str, back: Option<&str>) -> String {
    let main = html! {
        (progress(100))
        h1 { "You have answered everything" }
        p { "Send your answers to finish “" (title) "”." }
        form method="post" action={ (path) "/complete" } {
            div.actions {
                button type="submit" { "Send my answers" }
                @if let Some(back) = back { a href=(earlier(path, back)) { "Back" } }
            }
        }
    };
    document(title, &main)
}

/// The session is over.
pub(super) fn ended(title: &str, status: Status) -> String {
    let (heading, text) = match status {
        Status::Completed => ("Thank you", "Your answers have been sent."),
        Status::Terminated(TerminationReason::ScreenedOut | TerminationReason::QuotaFull) => {
            ("Thank you for your interest", "This survey looks for other participants at the moment.")
        }
        Status::Terminated(TerminationReason::Expired) => {
            ("This session has ended", "It was silent for too long. Begin again from the link that you were given.")
        }
        Status::Active | Status::Terminated(TerminationReason::Abandoned | TerminationReason::ByRespondent) => {
            ("This session has ended", "You can close this page.")
        }
    };
    let main = html! {
        p.kind { (title) }
        h1 { (heading) }
        p { (text) }
    };
    document(heading, &main)
}

pub(super) fn notice(title: &str, text: &str) -> String {
    document(title, &html! { h1 { (title) } p { (text) } })
}

fn earlier(path: &str, page: &str) -> String {
    format!("{path}?{}", form_urlencoded::Serializer::new(String::new()).append_pair("page", page).finish())
}

fn progress(percent: usize) -> Markup {
    html! {
        div.progress {
            label for="progress" { "Progress" }
            progress id="progress" max="100" value=(percent) {}
            span { (percent) " %" }
        }
    }
}

/// Each complaint leads to its field.
fn summary(page: &Page, faults: &[AnswerFault]) -> Markup {
    let place = |fault: &AnswerFault| page.questions.iter().position(|one| one.id == fault.question);
    html! {
        div.summary role="alert" tabindex="-1" autofocus aria-labelledby="wrong" {
            h2 id="wrong" { "Something is missing or wrong" }
            ul {
                @for fault in faults {
                    @if let Some(index) = place(fault) {
                        li {
                            a href={ "#" (question::first_id(index, &page.questions[index])) } {
                                (page.questions[index].text) " " (question::complaint(fault))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn document(title: &str, main: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { (title) }
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/s/assets/survey.css";
            }
            body { main { (main) } }
        }
    };
    page.into_string()
}
