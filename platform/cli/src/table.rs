//! Tables for people: aligned columns that fit the terminal, and complete lines if the output is not a terminal.

use std::{io::IsTerminal, os::fd::AsFd};

/// The space between two columns.
const GAP: usize = 2;
/// How far lines below a row are indented.
const INDENT: usize = 4;
/// No text is cut to less than this.
const MIN_WIDTH: usize = 8;

/// Arguments of commands that print a table.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct WidthArgs {
    /// Do not wrap or cut lines to the width of the terminal
    #[arg(long)]
    pub wide: bool,
}

impl WidthArgs {
    /// Returns the width that lines must fit: that of the terminal, or `None` when the output goes elsewhere.
    pub fn columns(self) -> Option<usize> {
        self.columns_of(std::io::stdout())
    }

    /// Prints `text` after `prefix` in lines that fit. Those after the first are indented like the text.
    pub fn print_wrapped(self, prefix: &str, text: &str) {
        print!("{}", paragraph(prefix, text, prefix.chars().count(), self.columns()));
    }

    /// Like [`WidthArgs::print_wrapped`], on standard error.
    pub fn eprint_wrapped(self, prefix: &str, text: &str) {
        let columns = self.columns_of(std::io::stderr());
        eprint!("{}", paragraph(prefix, text, prefix.chars().count(), columns));
    }

    fn columns_of(self, stream: impl AsFd + IsTerminal) -> Option<usize> {
        if self.wide || !stream.is_terminal() {
            return None;
        }
        terminal_size::terminal_size_of(stream).map(|(width, _)| usize::from(width.0))
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct TableColumn {
    title: &'static str,
    kind: ColumnKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnKind {
    /// Never cut, right-aligned.
    Number,
    /// Never cut.
    Fixed,
    /// Cut where the terminal is too narrow.
    Text,
    /// Printed in full below the row where the terminal is too narrow.
    Below,
}

/// A column of numbers.
pub const fn number(title: &'static str) -> TableColumn {
    TableColumn { title, kind: ColumnKind::Number }
}

/// A column that is never cut, such as a time.
pub const fn fixed(title: &'static str) -> TableColumn {
    TableColumn { title, kind: ColumnKind::Fixed }
}

/// A column that is cut, with an ellipsis, where the terminal is too narrow.
pub const fn text(title: &'static str) -> TableColumn {
    TableColumn { title, kind: ColumnKind::Text }
}

/// A column that moves to its own lines below the row where the terminal is too narrow. Columns of this kind come last.
pub const fn below(title: &'static str) -> TableColumn {
    TableColumn { title, kind: ColumnKind::Below }
}

/// A table with column titles.
pub struct TextTable {
    columns: Vec<TableColumn>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// Creates an empty table.
    pub fn new(columns: &[TableColumn]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with one cell per column. Line breaks and other control characters become spaces.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl ToString>) {
        let plain = |cell: String| cell.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        self.rows.push(cells.into_iter().map(|cell| plain(cell.to_string())).collect());
    }

    /// Prints the table to standard output, followed by the line `none` if it is empty.
    pub fn print(&self, width: WidthArgs, none: &str) {
        print!("{}", self.render(width.columns()));
        if self.rows.is_empty() {
            println!("{none}");
        }
    }

    /// Returns the lines, no longer than `width` as far as cells can be cut.
    pub fn render(&self, width: Option<usize>) -> String {
        let mut widths = self.natural_widths();
        let fits = |widths: &[usize]| width.is_none_or(|width| total(widths) <= width);
        let inline = if fits(&widths) { self.columns.len() } else { self.first_below() };
        widths.truncate(inline);
        while !fits(&widths) && self.shrink(&mut widths) {}
        let titles: Vec<String> = self.columns.iter().map(|column| column.title.to_owned()).collect();
        let mut lines = vec![self.line(&titles, &widths)];
        for row in &self.rows {
            lines.push(self.line(row, &widths));
            let rest: Vec<&str> = row.iter().skip(inline).map(String::as_str).filter(|cell| *cell != "-").collect();
            let room = width.unwrap_or(usize::MAX).saturating_sub(INDENT).max(MIN_WIDTH);
            lines.extend(wrap(&rest.join("  "), room).into_iter().map(|line| format!("{}{line}", " ".repeat(INDENT))));
        }
        lines.into_iter().map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    fn natural_widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|column| column.title.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        widths
    }

    fn first_below(&self) -> usize {
        self.columns.iter().position(|column| column.kind == ColumnKind::Below).unwrap_or(self.columns.len())
    }

    /// Removes one character from the widest column that may be cut. Returns `false` if no column can be cut further.
    fn shrink(&self, widths: &mut [usize]) -> bool {
        let cut = self.columns.iter().zip(widths.iter_mut()).filter(|(column, _)| column.kind == ColumnKind::Text);
        match cut.map(|(_, width)| width).max_by_key(|width| **width) {
            Some(width) if *width > MIN_WIDTH => {
                *width -= 1;
                true
            }
            _ => false,
        }
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let cells = self.columns.iter().zip(cells).zip(widths).map(|((column, cell), width)| {
            let cell = truncate(cell, *width);
            let space = " ".repeat(width.saturating_sub(cell.chars().count()));
            if column.kind == ColumnKind::Number { space + &cell } else { cell + &space }
        });
        cells.collect::<Vec<_>>().join(&" ".repeat(GAP))
    }
}

/// Returns `text` after `prefix`, in lines no longer than `width`. Those after the first are indented by `indent`.
pub fn paragraph(prefix: &str, text: &str, indent: usize, width: Option<usize>) -> String {
    let Some(width) = width else { return format!("{prefix}{text}\n") };
    let room = width.saturating_sub(indent.max(prefix.chars().count())).max(MIN_WIDTH);
    let mut lines = wrap(text, room).into_iter();
    let mut shown = format!("{prefix}{}\n", lines.next().unwrap_or_default().trim_end());
    lines.for_each(|line| shown.push_str(&format!("{}{}\n", " ".repeat(indent), line.trim_end())));
    shown
}

fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Returns the text cut to `width`, with an ellipsis if anything was cut.
fn truncate(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// Returns lines of at most `width` characters, broken between words where possible.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let room = width.saturating_sub(line.chars().count() + usize::from(!line.is_empty()));
        if word.chars().count() > room && !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        for character in word.chars() {
            if line.chars().count() == width {
                lines.push(std::mem::take(&mut line));
            }
            line.push(character);
        }
    }
    lines.extend(Some(line).filter(|line| !line.trim().is_empty()));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const ERROR: &str = "the handler failed: \"quantity\" is required, and nothing can be reserved without it";

    fn dead_letters() -> TextTable {
        let mut table = TextTable::new(&[number("id"), fixed("when"), text("queue"), below("last error")]);
        table.row(["7", "2026-11-17T05:33:00Z", "orders.reserve-and-confirm.v1", ERROR]);
        table
    }

    #[test]
    fn without_a_terminal_no_line_is_cut() {
        let printed = dead_letters().render(None);
        assert_eq!(printed.lines().count(), 2);
        assert!(printed.contains(ERROR) && printed.contains("orders.reserve-and-confirm.v1"), "{printed}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_the_error_is_complete() {
        for width in [40, 60, 80, 100] {
            let printed = dead_letters().render(Some(width));
            assert!(printed.lines().all(|line| line.chars().count() <= width), "{width}:\n{printed}");
            let words: Vec<&str> = printed.split_whitespace().collect();
            assert!(words.join(" ").contains(ERROR), "{width}:\n{printed}");
        }
        assert!(dead_letters().render(Some(40)).contains('…'));
    }

    #[test]
    fn columns_are_aligned_and_control_characters_are_not_printed() {
        let mut table = TextTable::new(&[text("name"), number("count")]);
        table.row(["a\n\u{1b}[31m", "5"]);
        table.row(["long-name", "12"]);
        assert_eq!(table.render(None), "name       count\na  [31m        5\nlong-name     12\n");
    }

    #[test]
    fn a_paragraph_fits_the_terminal_and_is_one_line_without_one() {
        assert_eq!(paragraph("relay  ", ERROR, 7, None), format!("relay  {ERROR}\n"));
        for width in [20, 40, 80] {
            let shown = paragraph("relay  ", ERROR, 7, Some(width));
            assert!(shown.lines().all(|line| line.chars().count() <= width), "{width}:\n{shown}");
            assert!(shown.lines().skip(1).all(|line| line.starts_with("       ")), "{width}:\n{shown}");
            let words: Vec<&str> = shown.split_whitespace().skip(1).collect();
            assert_eq!(words.join(" "), ERROR, "{width}:\n{shown}");
        }
        assert_eq!(paragraph("bus", "", 3, Some(80)), "bus\n");
    }

    #[test]
    fn a_word_longer_than_the_line_is_broken() {
        assert_eq!(wrap("abcdefgh ij", 5), ["abcde", "fgh", "ij"]);
        assert!(wrap("", 5).is_empty());
    }
}
