//! Renders the pages.

use super::question;
use crate::{
    definition::{AnswerFault, SurveyPage},
    events::TerminationReason,
    runtime::store::SessionStatus,
};
use maud::{DOCTYPE, Markup, html};
use serde_json::{Map, Value};

/// A page of questions and its position on the path.
pub(super) struct QuestionPage<'f> {
    pub(super) title: &'f str,
    pub(super) page: &'f SurveyPage,
    /// The attempt number of the submit from this page.
    pub(super) attempt: i32,
    pub(super) session_path: String,
    /// The id of the previous page.
    pub(super) previous: Option<String>,
    /// The page's number on the respondent's path, from 1.
    pub(super) number: usize,
    /// The maximum number of pages on that path.
    pub(super) number_max: usize,
}

pub(super) fn start(title: &str, link: &str, key: &str, started: Option<&str>) -> String {
    let main = html! {
        h1 { (title) }
        @if let Some(path) = started {
            p { "You have already started this survey in this browser." }
            p { a.button href=(path) { "Continue where you left off" } }
        }
        form method="post" action={ "/s/" (link) } {
            input type="hidden" name="key" value=(key);
            button.second[started.is_some()] type="submit" { @if started.is_some() { "Start again" } @else { "Start" } }
        }
        p.note { "A cookie remembers your session, so that you can continue later in this browser. It contains nothing else." }
    };
    document(title, &main)
}

/// Renders a page with `answers` filled in and their faults.
pub(super) fn question_page(
    question_page: &QuestionPage<'_>,
    answers: &Map<String, Value>,
    faults: &[AnswerFault],
) -> String {
    let QuestionPage { title, page, attempt, session_path, previous, number, number_max } = question_page;
    let fault = |id: &str| faults.iter().find(|fault| fault.question == id).map(question::fault_sentence);
    let heading = page.title.as_deref().unwrap_or(title);
    let main = html! {
        (progress(*number, *number_max))
        @if !faults.is_empty() { (summary(page, faults)) }
        @if page.title.is_some() { p.kind { (title) } }
        h1 { (heading) }
        // The server reports faults, beside the field and in a summary, instead of each browser in its own way.
        form method="post" action=(session_path) novalidate {
            input type="hidden" name="page" value=(page.id);
            input type="hidden" name="attempt" value=(attempt);
            @for (index, question) in page.questions.iter().enumerate() {
                (question::render(index, question, answers.get(&question.id), fault(&question.id).as_deref()))
            }
            div.actions {
                button type="submit" { "Continue" }
                @if let Some(previous) = previous { a href=(page_url(session_path, previous)) { "Back" } }
            }
        }
    };
    let title = if faults.is_empty() { heading.to_owned() } else { format!("Error: {heading}") };
    document(&title, &main)
}

/// Renders the page after everything is answered.
pub(super) fn last(title: &str, session_path: &str, previous: Option<&str>) -> String {
    let main = html! {
        h1 { "You have answered everything" }
        p { "Submit your answers to finish “" (title) "”." }
        form method="post" action={ (session_path) "/complete" } {
            div.actions {
                button type="submit" { "Submit my answers" }
                @if let Some(previous) = previous { a href=(page_url(session_path, previous)) { "Back" } }
            }
        }
    };
    document(title, &main)
}

/// Renders the page of a session that has ended.
pub(super) fn ended(title: &str, status: SessionStatus) -> String {
    let (heading, text) = match status {
        SessionStatus::Completed => ("Thank you", "Your answers have been submitted."),
        SessionStatus::Terminated(TerminationReason::ScreenedOut | TerminationReason::QuotaFull) => {
            ("Thank you for your interest", "This survey is currently looking for other participants.")
        }
        SessionStatus::Terminated(TerminationReason::Expired) => {
            ("This session has ended", "It was inactive for too long. Start again from the link that you received.")
        }
        SessionStatus::Active
        | SessionStatus::Terminated(TerminationReason::Abandoned | TerminationReason::ByRespondent) => {
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

fn page_url(session_path: &str, page: &str) -> String {
    format!("{session_path}?{}", form_urlencoded::Serializer::new(String::new()).append_pair("page", page).finish())
}

fn progress(number: usize, number_max: usize) -> Markup {
    html! {
        div.progress {
            label for="progress" { "Page " (number) " of " (number_max) }
            progress id="progress" max=(number_max) value=(number.saturating_sub(1)) {}
        }
    }
}

/// Renders the list of faults; each links to its field.
fn summary(page: &SurveyPage, faults: &[AnswerFault]) -> Markup {
    let question_index = |fault: &AnswerFault| page.questions.iter().position(|one| one.id == fault.question);
    html! {
        div.summary role="alert" tabindex="-1" autofocus aria-labelledby="wrong" {
            h2 id="wrong" { "Some answers are missing or invalid" }
            ul {
                @for fault in faults {
                    @if fault.question.is_empty() { li { (fault.message) } }
                    @if let Some(index) = question_index(fault) {
                        li {
                            a href={ "#" (question::first_id(index, &page.questions[index])) } {
                                (page.questions[index].text) " " (question::fault_sentence(fault))
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
