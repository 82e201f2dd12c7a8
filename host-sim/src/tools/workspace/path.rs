//! Paths of a workspace.

use std::fmt;

use super::PATH_BYTES_MAX;

/// A relative path in normal form: no empty, `.` or `..` segments, no control characters, at most
/// [`PATH_BYTES_MAX`] bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorkspacePath(String);

impl WorkspacePath {
    /// Normalises a path; the error says what is allowed.
    pub(super) fn parse(path: &str) -> Result<Self, String> {
        let refuse = |why: &str| Err(format!("Path {:?}: {why}", path.chars().take(80).collect::<String>()));
        if path.starts_with('/') {
            return refuse("it must be relative, without a leading `/`.");
        }
        if path.chars().any(char::is_control) {
            return refuse("control characters (NUL, line ends, …) are not allowed.");
        }
        if path.ends_with('/') {
            return refuse("it names a folder; name a file.");
        }
        let segments: Vec<&str> = path.split('/').filter(|segment| !matches!(*segment, "" | ".")).collect();
        if segments.contains(&"..") {
            return refuse("`..` is not allowed.");
        }
        let normal = segments.join("/");
        if normal.is_empty() {
            return refuse("it is empty.");
        }
        if normal.len() > PATH_BYTES_MAX {
            return refuse(&format!("{} bytes; at most {PATH_BYTES_MAX}.", normal.len()));
        }
        Ok(Self(normal))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkspacePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalised_or_refused() {
        let normal = |path: &str| WorkspacePath::parse(path).map(|path| path.0);
        assert_eq!(normal("./a//b/./c.md"), Ok("a/b/c.md".to_owned()));
        assert_eq!(normal("a..b/..c"), Ok("a..b/..c".to_owned()));
        for bad in ["", ".", "./", "/etc/passwd", "../a", "a/../b", "a/..", "a\0b", "a\nb", "a/"] {
            assert!(normal(bad).is_err(), "{bad:?}");
        }
        assert!(normal(&"a".repeat(PATH_BYTES_MAX)).is_ok());
        assert!(normal(&"a".repeat(PATH_BYTES_MAX + 1)).is_err_and(|why| why.contains("513 bytes; at most 512")));
    }
}
