//! What the tests across crates share: the program as its user has it, and the real clients.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

/// The examples of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The root of the repository.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests lie in the repository")
        .into()
}

/// The program, built from this tree.
///
/// # Panics
///
/// Panics when it does not build.
#[must_use]
pub fn program() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let built = Command::new(env!("CARGO"))
                .args(["build", "--quiet", "--package", "minutebook"])
                .current_dir(root())
                .status()
                .expect("cargo runs");
            assert!(built.success(), "the program does not build");
            // target/debug/deps/it-… → target/debug
            let deps = env::current_exe().expect("a test has a path");
            let folder = deps.ancestors().nth(2).expect("tests are built into deps");
            folder.join("minutebook")
        })
        .clone()
}

/// A database and a working folder of one test's own.
#[derive(Debug)]
pub struct Place {
    dir: TempDir,
}

impl Place {
    /// A fresh place.
    ///
    /// # Panics
    ///
    /// Panics when there is no room for it.
    #[must_use]
    pub fn new() -> Self {
        Self {
            dir: tempfile::tempdir().expect("a temporary folder"),
        }
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The database.
    #[must_use]
    pub fn db(&self) -> PathBuf {
        self.dir().join("data").join("minutebook.db")
    }

    /// The program on this database, in this folder, with nothing of the tester's environment
    /// that it reads.
    #[must_use]
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(args)
            .current_dir(self.dir())
            .env("MINUTEBOOK_DB", self.db())
            .env_remove("MINUTEBOOK_LOG")
            .env_remove("MINUTEBOOK_ALLOW_NETWORK_FILE_SYSTEM")
            .env("HOME", self.dir())
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    ///
    /// # Panics
    ///
    /// Panics when it does not start.
    #[must_use]
    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::from(self.command(args).output().expect("the program starts"))
    }

    /// Runs the program with this text on standard input.
    ///
    /// # Panics
    ///
    /// Panics when it does not start.
    #[must_use]
    pub fn pipe(&self, args: &[&str], input: impl AsRef<[u8]>) -> Ran {
        let file = self.dir().join("stdin");
        std::fs::write(&file, input).expect("a file for standard input");
        let input = std::fs::File::open(file).expect("the file just written");
        Ran::from(
            self.command(args)
                .stdin(input)
                .output()
                .expect("the program starts"),
        )
    }
}

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

/// What the program printed, and how it ended.
#[derive(Debug)]
pub struct Ran {
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// The exit code; none when a signal ended it.
    pub code: Option<i32>,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            code: output.status.code(),
        }
    }
}

impl Ran {
    /// The same, once it is known to have ended well.
    ///
    /// # Panics
    ///
    /// Panics when it did not.
    #[must_use]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// Standard output as one JSON document a line.
    ///
    /// # Panics
    ///
    /// Panics when a line is none.
    #[must_use]
    pub fn json(&self) -> Vec<Value> {
        let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        self.out.lines().map(read).collect()
    }
}

/// A part that a machine may lack. Where it is missing, the test says so and passes; where nothing
/// may be skipped (`MINUTEBOOK_TEST_ALL=1`, as in CI), it fails.
///
/// # Panics
///
/// Panics when the part is missing and nothing may be skipped.
#[must_use]
pub fn need<T>(part: Option<T>, what: &str) -> Option<T> {
    if part.is_none() {
        #[expect(
            clippy::disallowed_methods,
            reason = "tests are told what must be present"
        )]
        let all = env::var("MINUTEBOOK_TEST_ALL").is_ok_and(|value| value == "1");
        assert!(
            !all,
            "{what} is missing, and nothing may be skipped; run ./scripts/test"
        );
        #[expect(clippy::print_stderr, reason = "a test names what it skips")]
        {
            eprintln!("skipped: {what} is missing; ./scripts/test installs it");
        }
    }
    part
}

/// A program on the path.
#[must_use]
pub fn on_path(name: &str) -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "tests look for programs")]
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// The npm packages of `tests/clients`, where they are installed.
#[must_use]
pub fn node_modules() -> Option<PathBuf> {
    let folder = root().join("tests/clients/node_modules");
    folder.is_dir().then_some(folder)
}

/// The Python of `tests/clients`, where it is installed.
#[must_use]
pub fn python() -> Option<PathBuf> {
    let file = root().join("tests/clients/.venv/bin/python");
    file.is_file().then_some(file)
}
