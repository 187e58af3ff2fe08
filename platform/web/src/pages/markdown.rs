//! Renders the Markdown of problem pages as HTML: headings, paragraphs, lists, fenced code; bold, code and links.

use maud::{Markup, PreEscaped, html};

/// Renders a page. Anything that is not one of the forms above stays text.
pub(super) fn to_html(text: &str) -> Markup {
    let mut blocks: Vec<Markup> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim().is_empty() {
            continue;
        }
        if line.starts_with("```") {
            let code: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            blocks.push(html! { pre { code { (code.join("\n")) } } });
        } else if let Some(heading) = line.strip_prefix("## ") {
            blocks.push(html! { h2 { (inline(heading)) } });
        } else if let Some(heading) = line.strip_prefix("# ") {
            blocks.push(html! { h1 { (inline(heading)) } });
        } else if let Some(item) = line.strip_prefix("- ") {
            let mut items = vec![item.to_owned()];
            while let Some(next) = lines.next_if(|next| next.starts_with("- ") || next.starts_with("  ")) {
                match (next.strip_prefix("- "), items.last_mut()) {
                    (None, Some(last)) => last.push_str(&format!(" {}", next.trim())),
                    (item, _) => items.push(item.unwrap_or(next).to_owned()),
                }
            }
            blocks.push(html! { ul { @for item in &items { li { (inline(item)) } } } });
        } else {
            let mut paragraph = line.to_owned();
            while let Some(next) = lines.next_if(|next| is_text(next)) {
                paragraph.push(' ');
                paragraph.push_str(next.trim());
            }
            blocks.push(html! { p { (inline(&paragraph)) } });
        }
    }
    html! { @for block in &blocks { (block) } }
}

/// Returns whether a line continues a paragraph.
fn is_text(line: &str) -> bool {
    !line.trim().is_empty() && !["```", "# ", "## ", "- "].iter().any(|begin| line.starts_with(begin))
}

/// Renders bold, code and links within a line.
fn inline(text: &str) -> Markup {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*', '[']) {
        let (plain, marked) = rest.split_at(at);
        out.push_str(&html! { (plain) }.into_string());
        match code(marked).or_else(|| bold(marked)).or_else(|| link(marked)) {
            Some((markup, after)) => {
                out.push_str(&markup.into_string());
                rest = after;
            }
            None => {
                let (mark, after) = marked.split_at(1);
                out.push_str(mark);
                rest = after;
            }
        }
    }
    out.push_str(&html! { (rest) }.into_string());
    PreEscaped(out)
}

fn code(text: &str) -> Option<(Markup, &str)> {
    let (inside, after) = text.strip_prefix('`')?.split_once('`')?;
    Some((html! { code { (inside) } }, after))
}

fn bold(text: &str) -> Option<(Markup, &str)> {
    let (inside, after) = text.strip_prefix("**")?.split_once("**")?;
    Some((html! { strong { (inline(inside)) } }, after))
}

/// Parses a link. Only links to our own pages and to the web are accepted: nothing that a browser would run.
fn link(text: &str) -> Option<(Markup, &str)> {
    let (inside, after) = text.strip_prefix('[')?.split_once("](")?;
    let (address, after) = after.split_once(')')?;
    let is_safe = address.starts_with('/') || address.starts_with("https://") || address.starts_with("http://");
    is_safe.then(|| (html! { a href=(address) { (inside) } }, after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::codes;

    fn check(markdown: &str, html: &str) {
        assert_eq!(to_html(markdown).into_string(), html);
    }

    #[test]
    fn supported_markdown_becomes_html() {
        check("# A `b` (4)\n\ntext\ngoes <on>", "<h1>A <code>b</code> (4)</h1><p>text goes &lt;on&gt;</p>");
        check("**What to do:** see `/x`.", "<p><strong>What to do:</strong> see <code>/x</code>.</p>");
        check("- one\n  and\n- two", "<ul><li>one and</li><li>two</li></ul>");
        check("```\nlet a = \"<\";\n```", "<pre><code>let a = &quot;&lt;&quot;;</code></pre>");
        check("[here](/docs) [not](javascript:x)", "<p><a href=\"/docs\">here</a> [not](javascript:x)</p>");
        check("2 * 3 ` and [", "<p>2 * 3 ` and [</p>");
    }

    #[test]
    fn platform_pages_contain_no_unrendered_markdown() {
        for code in codes::ALL {
            let html = to_html(code.page).into_string();
            assert!(html.starts_with("<h1>") && !html.contains("**") && !html.contains('`'), "{}: {html}", code.code);
        }
    }
}
