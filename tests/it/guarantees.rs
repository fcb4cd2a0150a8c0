//! The tables of the README and of `docs/rules.md` name tests that exist.

use std::fs;
use std::path::Path;

use minutebook_tests::root;

fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "node_modules" && name != ".venv" && name != "target" {
            sources(&path, text);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            text.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// The names in backticks in the last column of each row.
fn pins(tables: &str) -> Vec<&str> {
    let rows = tables
        .lines()
        .filter(|line| line.starts_with("| ") && !line.contains("pinned by"));
    rows.flat_map(|row| {
        let pins = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let names: Vec<&str> = pins.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test is named by: {row}");
        names
    })
    .collect()
}

#[test]
fn every_guarantee_and_limit_names_a_test_that_exists() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let mut text = String::new();
    sources(&root().join("crates"), &mut text);
    sources(&root().join("tests"), &mut text);
    let (_, tables) = readme.split_once("## Guarantees").unwrap();
    let (tables, _) = tables.split_once("## License").unwrap();
    let names = pins(tables);
    for name in &names {
        assert!(
            text.contains(&format!("fn {name}(")),
            "there is no test {name}"
        );
    }
    assert!(names.len() > 20);
}

#[test]
fn every_rule_of_the_log_names_tests_that_exist_where_it_says() {
    let rules = fs::read_to_string(root().join("docs/rules.md")).unwrap();
    let names = pins(&rules);
    let cases = fs::read_to_string(root().join(CONFORMANCE).join("cases.rs")).unwrap();
    for name in &names {
        let (path, test) = name.split_once("::").unwrap();
        let file = fs::read_to_string(root().join(path));
        let file = file.unwrap_or_else(|error| panic!("{name}: {error}"));
        let is_there = if path.starts_with(CONFORMANCE) {
            cases.contains(&format!("::{test},")) && file.contains(&format!("fn {test}<"))
        } else {
            is_test(&file, test)
        };
        assert!(is_there, "there is no test {name}");
    }
    assert!(names.len() > 150);
}

const CONFORMANCE: &str = "crates/session-core/src/store/conformance";

/// Whether the function stands right below an attribute that makes it a test.
fn is_test(file: &str, name: &str) -> bool {
    let mut above = "";
    file.lines().any(|line| {
        let attribute = std::mem::replace(&mut above, line.trim());
        line.contains(&format!("fn {name}("))
            && attribute.ends_with(']')
            && attribute.contains("test")
    })
}
