//! The files to check, read once.

use std::fs;
use std::path::Path;

use super::Finding;
use super::tokens::{Token, tokens};
use crate::error::XtaskError;

/// The folders of our own files. They exclude build output and data.
const FOLDERS: &[&str] = &["platform", "services", "server", "examples", "tools", "docs"];

/// One text file.
#[derive(Debug)]
pub(super) struct TextFile {
    /// The path from the root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

impl TextFile {
    /// Returns the lines with their numbers, from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    pub(super) fn tokens(&self) -> Vec<Token<'_>> {
        tokens(&self.text)
    }

    /// Returns whether this file is an integration test.
    pub(super) fn is_test(&self) -> bool {
        self.path.contains("/tests/")
    }

    /// Returns the line from which everything is test code: the first line of an integration test, otherwise the line
    /// of `mod tests`, which closes a module by convention.
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
pub(super) struct SourceTree {
    pub(super) files: Vec<TextFile>,
}

impl SourceTree {
    pub(super) fn read(root: &Path) -> Result<SourceTree, XtaskError> {
        let mut source = SourceTree::default();
        for folder in FOLDERS {
            source.read_folder(root, Path::new(folder))?;
        }
        // Only files at the root: its folders are listed above.
        for entry in fs::read_dir(root).map_err(XtaskError::of("list the workspace"))?.flatten() {
            if entry.path().is_file() {
                source.read_file(root, Path::new(&entry.file_name()))?;
            }
        }
        source.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(source)
    }

    fn read_folder(&mut self, root: &Path, folder: &Path) -> Result<(), XtaskError> {
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

    fn read_file(&mut self, root: &Path, path: &Path) -> Result<(), XtaskError> {
        let bytes = fs::read(root.join(path)).map_err(XtaskError::of(format_args!("read {}", path.display())))?;
        // A file that is not text has nothing to check, but its path counts as existing.
        let text = String::from_utf8(bytes).unwrap_or_default();
        self.files.push(TextFile { path: path.to_string_lossy().into_owned(), text });
        Ok(())
    }

    pub(super) fn rust_files(&self) -> impl Iterator<Item = &TextFile> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// Returns the Cargo.toml of each member, without the root's.
    pub(super) fn manifests(&self) -> impl Iterator<Item = &TextFile> {
        self.files.iter().filter(|file| file.path.ends_with("/Cargo.toml"))
    }

    pub(super) fn file(&self, path: &str) -> Option<&TextFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Returns a file that a check requires, or a finding if it is absent.
    pub(super) fn required(&self, path: &str, why: &str) -> Result<&TextFile, Finding> {
        self.file(path).ok_or_else(|| Finding::new(path, 1, format!("this file does not exist; {why}")))
    }

    /// Returns whether a file or folder with this path from the root exists.
    pub(super) fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let inside = format!("{path}/");
        self.files.iter().any(|file| file.path == path || file.path.starts_with(&inside))
    }
}

#[cfg(test)]
impl SourceTree {
    /// Creates a workspace that contains these files.
    pub(super) fn of(files: &[(&str, &str)]) -> SourceTree {
        let file = |(path, text): &(&str, &str)| TextFile { path: path.to_string(), text: text.to_string() };
        SourceTree { files: files.iter().map(file).collect() }
    }
}
