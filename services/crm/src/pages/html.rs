//! Renders the pages.

use super::form::{CLASS, MARKER, NONE};
use crate::links::PREFERENCES_PATH;
use maud::{DOCTYPE, Markup, html};
use onceward_mail::class::MailClass;

/// A class that a recipient may choose, and its state.
pub(super) struct ClassChoice {
    pub class: MailClass,
    /// Whether the recipient has not unsubscribed from it.
    pub is_subscribed: bool,
    /// Whether it is not sent for another reason, such as a complaint.
    pub is_blocked: bool,
}

/// What the preference page shows.
pub(super) struct Preferences {
    pub token: String,
    pub masked_address: Option<String>,
    pub choices: Vec<ClassChoice>,
}

pub(super) fn preferences(preferences: &Preferences, is_saved: bool) -> String {
    let Preferences { token, masked_address, choices } = preferences;
    let title = if is_saved { "Your preferences are saved" } else { "Email preferences" };
    let main = html! {
        h1 { (title) }
        @if is_saved { (summary(choices)) }
        @if let Some(address) = masked_address { p { "For " strong { (address) } } }
        form method="post" action={ (PREFERENCES_PATH) (token) "/preferences" } {
            input type="hidden" name=(MARKER) value="1";
            fieldset {
                legend { "Send me" }
                @for choice in choices { (check_box(choice)) }
            }
            div.actions {
                button type="submit" { "Save preferences" }
                button.second type="submit" name=(NONE) value="1" { "Unsubscribe from all of these" }
            }
        }
        p.note {
            "Legal notices, messages that protect your account, and answers to what you do yourself are always sent."
        }
    };
    document(title, &main)
}

fn summary(choices: &[ClassChoice]) -> Markup {
    html! {
        ul.summary role="status" {
            @for choice in choices {
                li { (name(choice.class)) ": " strong { @if choice.is_subscribed { "subscribed" } @else { "unsubscribed" } } }
            }
        }
    }
}

fn check_box(choice: &ClassChoice) -> Markup {
    let ClassChoice { class, is_subscribed, is_blocked } = choice;
    html! {
        div.choice {
            input type="checkbox" id=(class) name=(CLASS) value=(class) checked[*is_subscribed]
                aria-describedby={ (class) "-text" };
            label for=(class) {
                (name(*class))
                span.text id={ (class) "-text" } {
                    (description(*class))
                    @if *is_blocked { " Nothing of this kind is sent to this address at the moment." }
                }
            }
        }
    }
}

pub(super) fn unsubscribed(class: MailClass, token: &str) -> String {
    let title = "You are unsubscribed";
    let main = html! {
        h1 { (title) }
        p { "You will not receive any more mail of this kind: " strong { (name(class)) } "." }
        p { a href={ (PREFERENCES_PATH) (token) } { "Change your preferences" } }
    };
    document(title, &main)
}

pub(super) fn notice(title: &str, text: &str) -> String {
    document(title, &html! { h1 { (title) } p { (text) } })
}

fn name(class: MailClass) -> &'static str {
    match class {
        MailClass::Legal => "Legal notices",
        MailClass::Security => "Security messages",
        MailClass::Transactional => "Receipts and answers",
        MailClass::Relationship => "Help and reminders",
        MailClass::Marketing => "News and offers",
    }
}

fn description(class: MailClass) -> &'static str {
    match class {
        MailClass::Relationship => "Tips, surveys and reminders about what you have with us.",
        MailClass::Marketing => "Advertising, events and new products.",
        MailClass::Legal | MailClass::Security | MailClass::Transactional => "Always sent.",
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
                link rel="stylesheet" href="/crm/assets/preferences.css";
            }
            body { main { (main) } }
        }
    };
    page.into_string()
}
