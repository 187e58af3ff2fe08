//! The files that checks look at, read once.

use std::fs;
use std::path::Path;

use super::Finding;
use super::tokens::{Token, tokens};
use crate::failure::Failure;

/// Where our own files are. Build output and data folders are not among them.
const FOLDERS: &[&str] = &["crates", "examples", "xtask", "docs"];

/// One text file.
#[derive(Debug)]
pub(super) struct TextFile {
    /// From the root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

impl TextFile {
    /// Lines with their numbers, from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    pub(super) fn tokens(&self) -> Vec<Token<'_>> {
        tokens(&self.text)
    }

    /// Whether this file is an integration test.
    pub(super) fn is_test(&self) -> bool {
        self.path.contains("/tests/")
    }

    /// The line from which on everything is a test: the first in an integration test, else where `mod tests` begins,
    /// which by our habit closes a module.
    pub(super) fn tests_from(&self) -> usize {
        if self.is_test() {
            return 1;
        }
        let lines: Vec<&str> = self.text.lines().collect();
        let begins = lines.windows(2).position(|pair| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod tests"));
        begins.map_or(usize::MAX, |index| index + 1)
    }
}

/// All text files of the workspace.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) files: Vec<TextFile>,
}

impl Source {
    pub(super) fn read(root: &Path) -> Result<Source, Failure> {
        let mut source = Source::default();
        for folder in FOLDERS {
            source.read_folder(root, Path::new(folder))?;
        }
        // At the root, only files: its folders are listed above.
        for entry in fs::read_dir(root).map_err(Failure::of("list the workspace"))?.flatten() {
            if entry.path().is_file() {
                source.read_file(root, Path::new(&entry.file_name()))?;
            }
        }
        source.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(source)
    }

    fn read_folder(&mut self, root: &Path, folder: &Path) -> Result<(), Failure> {
        let Ok(entries) = fs::read_dir(root.join(folder)) else {
            return Ok(());
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let path = folder.join(&name);
            if name == "target" || name.to_string_lossy().starts_with('.') {
                continue;
            }
            if entry.path().is_dir() {
                self.read_folder(root, &path)?;
            } else {
                self.read_file(root, &path)?;
            }
        }
        Ok(())
    }

    fn read_file(&mut self, root: &Path, path: &Path) -> Result<(), Failure> {
        let bytes = fs::read(root.join(path)).map_err(Failure::of(format_args!("read {}", path.display())))?;
        // What is not text has nothing to check, but its path counts as existing.
        let text = String::from_utf8(bytes).unwrap_or_default();
        self.files.push(TextFile { path: path.to_string_lossy().into_owned(), text });
        Ok(())
    }

    pub(super) fn rust_files(&self) -> impl Iterator<Item = &TextFile> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// The Cargo.toml of each member, without the root's.
    pub(super) fn manifests(&self) -> impl Iterator<Item = &TextFile> {
        self.files.iter().filter(|file| file.path.ends_with("/Cargo.toml"))
    }

    pub(super) fn file(&self, path: &str) -> Option<&TextFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// A file that a check cannot do without: absent, that is the finding.
    pub(super) fn required(&self, path: &str, why: &str) -> Result<&TextFile, Finding> {
        self.file(path).ok_or_else(|| Finding::new(path, 1, format!("this file does not exist; {why}")))
    }

    /// Whether a file or folder of this name exists, from the root.
    pub(super) fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let inside = format!("{path}/");
        self.files.iter().any(|file| file.path == path || file.path.starts_with(&inside))
    }
}

#[cfg(test)]
impl Source {
    /// A workspace made of these files.
    pub(super) fn of(files: &[(&str, &str)]) -> Source {
        let file = |(path, text): &(&str, &str)| TextFile { path: path.to_string(), text: text.to_string() };
        Source { files: files.iter().map(file).collect() }
    }
}
