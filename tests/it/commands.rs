//! What the commands print, on a log of the project's own.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use minutebook_tests::{Place, root};
use serde_json::Value;

const ID: &str = "0d5f2c6a-5a55-4b0e-9f3b-2f6a7c1d9e10";

fn with_fixture() -> Place {
    let place = Place::new();
    let _ = place.run(&["import", &fixture()]).ok();
    place
}

fn fixture() -> String {
    root()
        .join("tests/fixtures/valve-gear.jsonl")
        .display()
        .to_string()
}

#[test]
fn an_import_says_what_came_in() {
    let place = Place::new();
    let ran = place
        .pipe(&["import", "-"], std::fs::read(fixture()).unwrap())
        .ok();
    insta::assert_snapshot!(ran.out, @"imported 0d5f2c6a-5a55-4b0e-9f3b-2f6a7c1d9e10: 90 events from -");
}

#[test]
fn an_export_gives_back_what_was_imported() {
    let place = with_fixture();
    let out = place.dir().join("out.jsonl");
    let _ = place
        .run(&["export", ID, "--output", out.to_str().unwrap()])
        .ok();
    let once = std::fs::read_to_string(&out).unwrap();
    assert_eq!(once, place.run(&["export", ID]).ok().out);

    let other = Place::new();
    let _ = other.run(&["import", out.to_str().unwrap()]).ok();
    assert_eq!(other.run(&["export", ID]).ok().out, once);
    let again = place.run(&["export", ID, "--output", out.to_str().unwrap()]);
    assert_eq!(
        again.code,
        Some(1),
        "an existing file is not overwritten: {again:?}"
    );
}

#[test]
fn sessions_are_listed_with_title_and_length() {
    let place = with_fixture();
    insta::assert_snapshot!(place.run(&["sessions"]).ok().out);
    insta::assert_snapshot!(place.run(&["sessions", "--json"]).ok().out);
}

#[test]
fn a_listing_is_paged_without_a_gap_or_a_double() {
    let place = with_fixture();
    for _ in 0..4 {
        let _ = place.run(&["import", "--new-id", &fixture()]).ok();
    }
    let whole = place.run(&["sessions", "--json"]).ok().json();
    assert_eq!(whole.len(), 5);
    let mut paged = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let mut args = vec!["sessions", "--limit", "2"];
        args.extend(after.iter().flat_map(|cursor| ["--after", cursor]));
        let page = place.run(&args).ok().out;
        let (rows, more): (Vec<&str>, Vec<&str>) =
            page.lines().partition(|line| !line.starts_with("more: "));
        paged.extend(rows.iter().map(|row| row[..8].to_owned()));
        let Some(more) = more.first() else { break };
        let quoted = more.strip_prefix("more: minutebook sessions --limit 2 --after ");
        after = quoted.map(|cursor| cursor.trim_matches('\'').to_owned());
    }
    let ids: Vec<String> = whole
        .iter()
        .map(|line| line["id"].as_str().unwrap()[..8].to_owned())
        .collect();
    assert_eq!(paged, ids);
}

#[test]
fn a_page_names_the_whole_command_for_the_next() {
    let place = Place::new();
    let folder = place.dir().join("it's here");
    std::fs::create_dir(&folder).unwrap();
    for _ in 0..3 {
        let mut chat = place.command(&["chat", "one thing"]);
        assert!(chat.current_dir(&folder).output().unwrap().status.success());
    }
    let db = place.db().display().to_string();
    let mut args = vec!["sessions", "--all", "--limit", "1", "--db", &db];
    args.extend(["--cwd", folder.to_str().unwrap()]);
    let mut page = place.run(&args).ok().out;
    for _ in 0..2 {
        let (_, more) = page.split_once("more: minutebook ").unwrap();
        assert!(
            more.contains("--all") && more.contains("--limit 1"),
            "{more}"
        );
        let command = format!("{} {more}", minutebook_tests::program().display());
        let mut shell = std::process::Command::new("sh");
        let ran = shell.args(["-c", &command]).output().unwrap();
        page = minutebook_tests::Ran::from(ran).ok().out;
        assert_eq!(page.matches(" events ").count(), 1, "{page}");
    }
    assert!(!page.contains("more: "), "{page}");
}

#[test]
fn a_folder_may_be_written_in_any_way() {
    let place = with_fixture();
    for folder in [
        "/home/ada/engine",
        "/home/ada/engine/",
        "/home/ada/./x/../engine",
    ] {
        let listed = place.run(&["sessions", "--cwd", folder, "--json"]).ok();
        assert_eq!(listed.json().len(), 1, "{folder}");
    }
    let none = place.run(&["sessions", "--cwd", "/home/ada"]).ok().out;
    assert_eq!(none.trim_end(), "no sessions in this folder");
    let _ = place.run(&["chat", "one thing"]).ok();
    for folder in [".", "./", "x/.."] {
        let listed = place.run(&["sessions", "--cwd", folder, "--json"]).ok();
        assert_eq!(listed.json().len(), 1, "{folder}");
    }
}

#[test]
fn the_mark_of_an_open_turn_is_explained() {
    let place = with_fixture();
    assert!(!place.run(&["sessions"]).ok().out.contains('*'));
    let header = r#"{"type":"session","version":0,"id":"open","createdAt":1}"#;
    let start = r#"{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}"#;
    let _ = place
        .pipe(&["import", "-"], format!("{header}\n{start}"))
        .ok();
    let listed = place.run(&["sessions"]).ok().out;
    assert!(listed.contains("open    *"), "{listed}");
    assert!(listed.contains("1 event "), "{listed}");
    assert!(listed.contains("* a turn is open"), "{listed}");
}

#[test]
fn a_session_reads_like_a_conversation() {
    let place = with_fixture();
    insta::assert_snapshot!(place.run(&["show", "0d5f"]).ok().out);
}

#[test]
fn todos_shows_every_list_and_what_changed() {
    let place = with_fixture();
    insta::assert_snapshot!(place.run(&["todos", ID]).ok().out);
    insta::assert_snapshot!(place.run(&["todos", ID, "--json"]).ok().out);
}

#[test]
fn events_are_read_from_a_position() {
    let place = with_fixture();
    insta::assert_snapshot!(place.run(&["events", ID, "--from", "86"]).ok().out);
    let wire = place
        .run(&["events", ID, "--from", "86", "--json"])
        .ok()
        .out;
    let stored = std::fs::read_to_string(fixture()).unwrap();
    assert_eq!(wire.lines().last(), stored.lines().last());
}

#[test]
fn options_may_stand_before_or_after_the_command() {
    let place = with_fixture();
    let (db, elsewhere) = (place.db(), Place::new());
    let db = db.to_str().unwrap();
    let before = elsewhere.run(&["--json", "--db", db, "sessions"]).ok().out;
    let after = elsewhere.run(&["sessions", "--json", "--db", db]).ok().out;
    assert_eq!(before, after);
    assert!(before.contains(ID));
}

#[test]
fn a_sound_database_passes_verification() {
    let place = with_fixture();
    insta::assert_snapshot!(place.run(&["verify"]).ok().out, @r"
    0d5f2c6a-5a55-4b0e-9f3b-2f6a7c1d9e10: ok, 90 events
    1 session, 90 events, 0 faults
    ");
}

#[test]
fn models_lists_what_can_be_used() {
    let models = Place::new().run(&["models", "--json"]).ok().json();
    let ids: Vec<&Value> = models.iter().map(|model| &model["id"]).collect();
    assert_eq!(ids, ["offline", "script:FILE"]);
}

#[test]
fn the_help_needs_no_manual() {
    let place = Place::new();
    insta::assert_snapshot!(place.run(&["--help"]).ok().out);
    for command in [
        "chat", "acp", "sessions", "show", "events", "todos", "verify", "models", "import",
        "export",
    ] {
        let help = place.run(&[command, "--help"]).ok().out;
        assert!(help.contains("Usage: minutebook"), "{help}");
        assert!(help.contains("--db <PATH>"), "{help}");
    }
}

#[test]
fn following_sees_what_another_process_appends() {
    let place = Place::new();
    let first = place.run(&["chat", "one thing", "--json"]).ok().json();
    let id = first[0]["id"].as_str().unwrap().to_owned();
    let mut follower = place
        .command(&["events", &id, "--follow", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    for event in &first[1..] {
        assert_eq!(next(), *event);
    }
    // The follower holds no lease, so the session can be opened while it looks on.
    let second = place
        .run(&["chat", "another", "--session", &id, "--json"])
        .ok()
        .json();
    let mark = next();
    assert_eq!(mark["type"], "session/end-seed");
    for event in second[1..]
        .iter()
        .filter(|event| event["type"] != "session/end-seed")
    {
        assert_eq!(next(), *event);
    }
    follower.kill().unwrap();
    follower.wait().unwrap();
}

#[test]
fn a_local_database_is_used_whatever_is_said_of_network_file_systems() {
    let place = with_fixture();
    let expected = place.run(&["sessions", "--json"]).ok().out;
    let allowed = place.run(&["sessions", "--json", "--allow-network-file-system"]);
    assert_eq!(allowed.ok().out, expected);
    for value in ["", "0", "no", "1", "yes"] {
        let mut command = place.command(&["sessions", "--json"]);
        command.env("MINUTEBOOK_ALLOW_NETWORK_FILE_SYSTEM", value);
        let ran = minutebook_tests::Ran::from(command.output().unwrap());
        assert_eq!(ran.ok().out, expected, "{value:?}");
    }
}
