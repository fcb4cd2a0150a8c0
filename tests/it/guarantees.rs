//! The tables of the README name tests that exist.

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

#[test]
fn every_guarantee_and_limit_names_a_test_that_exists() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let mut text = String::new();
    sources(&root().join("crates"), &mut text);
    sources(&root().join("tests"), &mut text);
    let (_, tables) = readme.split_once("## Guarantees").unwrap();
    let (tables, _) = tables.split_once("## License").unwrap();
    let rows = tables
        .lines()
        .filter(|line| line.starts_with("| ") && !line.contains("pinned by"));
    let mut count = 0;
    for row in rows {
        let pins = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let names: Vec<&str> = pins.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test is named by: {row}");
        for name in names {
            assert!(
                text.contains(&format!("fn {name}(")),
                "there is no test {name}"
            );
            count += 1;
        }
    }
    assert!(count > 20);
}
