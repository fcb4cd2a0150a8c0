//! Input that cannot be used gets a message, a documented exit code, and loses nothing.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Command, Stdio};

use minutebook_tests::{Place, Ran, program, root};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

fn refused(ran: &Ran, code: i32, words: &[&str]) {
    assert_eq!(ran.code, Some(code), "{ran:?}");
    for word in words {
        assert!(ran.err.contains(word), "{word:?} is not in {}", ran.err);
    }
    assert!(!ran.err.contains("panicked"), "{}", ran.err);
}

fn chatted(place: &Place) -> String {
    let printed = place.run(&["chat", "one thing", "--json"]).ok().json();
    printed[0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn an_id_that_names_nothing_or_several_sessions() {
    let place = Place::new();
    let fixture = root()
        .join("tests/fixtures/valve-gear.jsonl")
        .display()
        .to_string();
    let _ = place.run(&["import", &fixture]).ok();
    let text = fs::read_to_string(&fixture)
        .unwrap()
        .replacen("0d5f2c6a", "0d5f2c6b", 1);
    let _ = place.pipe(&["import", "-"], text).ok();
    for command in ["show", "events", "todos", "export", "verify"] {
        refused(&place.run(&[command, "ffff"]), 3, &["ffff"]);
        refused(
            &place.run(&[command, "0d5f"]),
            3,
            &["several", "0d5f2c6a", "0d5f2c6b"],
        );
        refused(&place.run(&[command, ""]), 3, &["give an id"]);
    }
    refused(
        &place.run(&["chat", "hi", "--session", "ffff"]),
        3,
        &["ffff"],
    );
}

#[test]
fn an_import_of_a_session_that_is_there() {
    let place = Place::new();
    let fixture = root()
        .join("tests/fixtures/valve-gear.jsonl")
        .display()
        .to_string();
    let _ = place.run(&["import", &fixture]).ok();
    refused(
        &place.run(&["import", &fixture]),
        5,
        &["exists already", "--new-id"],
    );
    let _ = place.run(&["import", &fixture, "--new-id"]).ok();
}

#[test]
fn files_that_are_no_database_of_ours() {
    let place = Place::new();
    let path = |name: &str| place.dir().join(name);
    let try_it = |name: &str| place.run(&["sessions", "--db", path(name).to_str().unwrap()]);

    fs::write(
        path("text"),
        "this is no database, and long enough to be looked at\n".repeat(40),
    )
    .unwrap();
    refused(&try_it("text"), 4, &["text", "is not an SQLite database"]);
    fs::create_dir(path("folder")).unwrap();
    refused(&try_it("folder"), 4, &["folder"]);
    symlink(path("text"), path("link")).unwrap();
    refused(&try_it("link"), 4, &["symbolic link"]);
    symlink(path("nothing"), path("dangling")).unwrap();
    refused(&try_it("dangling"), 4, &["symbolic link"]);
    assert!(!path("nothing").exists());
    let text = fs::read_to_string(path("text")).unwrap();
    assert!(
        text.starts_with("this is no database"),
        "the file was left as it was"
    );
}

#[test]
fn logs_that_are_broken_at_a_line() {
    let place = Place::new();
    let header = r#"{"type":"session","version":0,"id":"a","createdAt":1}"#;
    let start = r#"{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}"#;
    let import = |lines: &[&str]| place.pipe(&["import", "-"], lines.join("\n"));

    refused(&import(&[]), 5, &["line 1", "empty"]);
    refused(&import(&[start]), 5, &["line 1", "header"]);
    refused(&import(&["{"]), 5, &["line 1", "not JSON"]);
    refused(
        &import(&[&header.replace("0", "9")]),
        5,
        &["line 1", "newer build"],
    );
    refused(
        &import(&[header, start, "{\"type\":"]),
        5,
        &["line 3", "not JSON"],
    );
    refused(
        &import(&[header, &start.replace(":0,", ":4,")]),
        5,
        &["line 2", "where 0 is due"],
    );
    refused(
        &import(&[header, start, start]),
        5,
        &["line 3", "where 1 is due"],
    );
    let second = start.replace("\"seq\":0", "\"seq\":1");
    refused(
        &import(&[header, start, &second]),
        5,
        &["line 3", "turn 1 is open"],
    );
    let surface = start.replace("\"data\"", "\"surfaceOp\":\"append\",\"data\"");
    refused(&import(&[header, &surface]), 5, &["line 2", "surface"]);
    let unknown =
        r#"{"type":"acme/new","seq":0,"time":1,"data":{"n":123456789012345678901234567890}}"#;
    refused(&import(&[header, unknown]), 5, &["line 2", "acme/new"]);
    refused(
        &place.run(&["import", "missing.jsonl"]),
        5,
        &["missing.jsonl"],
    );
    assert_eq!(place.run(&["sessions", "--all", "--json"]).ok().out, "");

    let kept = place
        .pipe(
            &["import", "-", "--keep-unknown"],
            [header, unknown].join("\n"),
        )
        .ok();
    assert!(kept.out.contains("acme/new"), "{kept:?}");
    assert_eq!(
        place.run(&["events", "a", "--json"]).ok().out.trim_end(),
        unknown
    );
    let _ = place.run(&["verify", "a"]).ok();
    let _ = place.run(&["show", "a"]).ok();
    refused(
        &place.run(&["chat", "hi", "--session", "a"]),
        4,
        &["acme/new", "event 0"],
    );
}

#[test]
fn an_empty_prompt_writes_nothing() {
    let place = Place::new();
    for prompt in ["", " \n\t "] {
        refused(&place.run(&["chat", prompt]), 5, &["prompt is empty"]);
        refused(&place.pipe(&["chat"], prompt), 5, &["prompt is empty"]);
    }
    refused(&place.pipe(&["chat"], [0xff, 0xfe, b'a']), 5, &["UTF-8"]);
    assert!(!place.db().exists());
}

#[test]
fn a_model_that_is_none() {
    let place = Place::new();
    refused(
        &place.run(&["chat", "hi", "--model", "gpt"]),
        5,
        &["gpt", "offline"],
    );
    refused(
        &place.run(&["chat", "hi", "--model", "script:none.json"]),
        5,
        &["none.json"],
    );
    let script = place.dir().join("bad.json");
    fs::write(&script, "{\"responses\":[{\"txt\":1}]}").unwrap();
    let model = format!("script:{}", script.display());
    refused(
        &place.run(&["chat", "hi", "--model", &model]),
        5,
        &["bad.json", "line 1", "txt"],
    );
}

#[test]
fn a_second_writer_on_one_session_is_told_who_has_it() {
    let place = Place::new();
    let id = chatted(&place);
    let mut first = place
        .command(&[
            "chat",
            "1. a\n2. b\n3. c\n4. d\n5. e",
            "--session",
            &id,
            "--json",
        ])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let process = first.id().to_string();
    // Wait until the first has begun to write.
    let before = place.run(&["events", &id]).ok().out.lines().count();
    while place.run(&["events", &id]).ok().out.lines().count() == before {}
    refused(
        &place.run(&["chat", "me too", "--session", &id]),
        6,
        &[&process, "since"],
    );
    assert!(first.wait().unwrap().success());
    let _ = place.run(&["verify"]).ok();
    let _ = place.run(&["chat", "me too", "--session", &id]).ok();
}

#[test]
fn a_read_only_folder() {
    let place = Place::new();
    let folder = place.dir().join("closed");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).unwrap();
    // Root may write anywhere; there the case cannot be made.
    let probe = folder.join("probe");
    if fs::write(&probe, "").is_ok() {
        fs::remove_file(probe).unwrap();
        return;
    }
    let db = folder.join("x.db");
    refused(
        &place.run(&["chat", "hi", "--db", db.to_str().unwrap()]),
        4,
        &["x.db"],
    );
}

#[test]
fn reading_makes_no_database() {
    let place = Place::new();
    let missing = [
        "no database at",
        "minutebook.db",
        "`minutebook chat` makes one",
    ];
    for args in [
        &["show", "a"][..],
        &["events", "a"],
        &["todos", "a"],
        &["verify"],
        &["export", "a"],
        &["sessions"],
        &["chat", "hi", "--session", "a"],
    ] {
        refused(&place.run(args), 4, &missing);
    }
    assert!(!place.db().exists());

    // Where nobody chose a place, there is nothing to be missed; an empty variable chooses none.
    let elsewhere = place.dir().join("share");
    let by_default = |args: &[&str]| {
        let mut command = place.command(args);
        command
            .env("MINUTEBOOK_DB", "")
            .env("XDG_DATA_HOME", &elsewhere);
        Ran::from(command.output().unwrap())
    };
    assert!(
        by_default(&["sessions"])
            .ok()
            .out
            .contains("no sessions yet")
    );
    assert_eq!(by_default(&["sessions", "--json"]).ok().out, "");
    refused(&by_default(&["verify"]), 4, &["no database at"]);
    assert!(!elsewhere.exists());
    let _ = by_default(&["chat", "one thing"]).ok();
    assert!(elsewhere.join("minutebook/minutebook.db").exists());
}

#[test]
fn a_prompt_that_is_too_long_writes_nothing() {
    let place = Place::new();
    let ran = place.pipe(&["chat"], vec![b'a'; 64 * 1024 * 1024 + 1]);
    refused(&ran, 5, &["longer than 64 MiB"]);
    assert!(!place.db().exists());
}

#[test]
fn a_level_of_logging_that_is_none() {
    let place = Place::new();
    refused(
        &place.run(&["models", "--log", "loud"]),
        2,
        &["loud", "error, warn, info, debug, trace"],
    );
    let mut command = place.command(&["models"]);
    let ran = Ran::from(command.env("MINUTEBOOK_LOG", "").output().unwrap());
    let _ = ran.ok();
}

#[test]
fn of_several_imports_the_sound_ones_come_in() {
    let place = Place::new();
    let file = |name: &str, text: &str| {
        let path = place.dir().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let header =
        |id: &str| format!(r#"{{"type":"session","version":0,"id":"{id}","createdAt":1}}"#);
    let (a, b) = (file("a", &header("aaa")), file("b", &header("bbb")));
    let broken = file("broken", "{");
    let ran = place.run(&["import", &a, &broken, "missing.jsonl", &a, &b]);
    refused(
        &ran,
        5,
        &[
            "broken cannot be imported",
            "missing.jsonl cannot",
            "exists already",
        ],
    );
    assert_eq!(ran.err.matches("--new-id").count(), 1, "{ran:?}");
    let imported: Vec<&str> = ran.out.lines().collect();
    assert_eq!(imported.len(), 2, "{ran:?}");
    assert_eq!(
        place
            .run(&["sessions", "--all", "--json"])
            .ok()
            .json()
            .len(),
        2
    );
}

#[test]
fn a_message_of_20_mb_is_kept() {
    let place = Place::new();
    let script = place.dir().join("script.json");
    fs::write(&script, r#"{"responses":[{"text":"noted"}]}"#).unwrap();
    let model = format!("script:{}", script.display());
    let prompt = "0123456789abcde\n".repeat(20 * 1024 * 1024 / 16);
    let chat = place.pipe(&["chat", "--model", &model], &prompt).ok();
    let id = chat
        .out
        .lines()
        .next()
        .unwrap()
        .strip_prefix("session ")
        .unwrap()
        .to_owned();
    let events = place.run(&["events", &id, "--json"]).ok().json();
    let said = events
        .iter()
        .find(|event| event["type"] == "user/message")
        .unwrap();
    assert_eq!(
        said["data"]["content"][0]["text"].as_str(),
        Some(prompt.trim_end())
    );
    let _ = place.run(&["verify"]).ok();
}

#[test]
fn arguments_that_are_wrong_become_results_that_the_model_reads() {
    let place = Place::new();
    let many: Vec<String> = (0..10_000)
        .map(|n| format!(r#"{{"content":"item {n}","status":"pending"}}"#))
        .collect();
    let calls = [
        r#"{"todos":"[{\"content\":\"a\",\"status\":\"pending\"}]"}"#.to_owned(),
        format!(r#"{{"todos":[{}]}}"#, many.join(",")),
        r#"{"todos":[{"content":"a","status":"cancelled","priority":"high":"x"}]}"#.to_owned(),
    ];
    for arguments in calls {
        let script = serde_json::json!({ "responses": [
            { "tool_calls": [{ "name": "todo_write", "arguments": arguments }] },
            { "text": "I see." },
        ]});
        let file = place.dir().join("script.json");
        fs::write(&file, script.to_string()).unwrap();
        let model = format!("script:{}", file.display());
        let printed = place
            .run(&["chat", "go", "--json", "--model", &model])
            .ok()
            .json();
        assert!(printed.iter().all(|event| event["type"] != "todo/write"));
        let result = printed
            .iter()
            .find(|event| event["type"] == "tool/result")
            .unwrap();
        let block = &result["data"]["message"]["content"][0];
        assert_eq!(block["isError"], true);
        let text = block["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("Error: ") && text.len() < 2_000, "{text}");
    }
    let _ = place.run(&["verify"]).ok();
}

#[test]
fn a_disk_that_is_full_loses_nothing_that_was_acknowledged() {
    let place = Place::new();
    let id = chatted(&place);
    let before = place.run(&["export", &id]).ok().out;
    let script = place.dir().join("script.json");
    // Without a pattern, so that it takes its room.
    let mut number = 1_u64;
    let letters = std::iter::repeat_with(|| {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b'0' + u8::try_from(number >> 58).unwrap())
    });
    let long: String = letters.take(800_000).collect();
    fs::write(
        &script,
        serde_json::json!({ "responses": [{ "text": long }] }).to_string(),
    )
    .unwrap();
    // A limit on the size of files stands in for a disk without room.
    let ran = Command::new("bash")
        .arg("-c")
        .arg("trap '' XFSZ; ulimit -f 400; exec \"$@\"")
        .args([
            "bash",
            program().to_str().unwrap(),
            "chat",
            "more",
            "--session",
            &id,
        ])
        .args(["--model", &format!("script:{}", script.display())])
        .env("MINUTEBOOK_DB", place.db())
        .output()
        .unwrap();
    refused(&Ran::from(ran), 1, &["nothing was appended", &id]);
    let after = place.run(&["export", &id]).ok().out;
    assert!(after.starts_with(&before));
    let _ = place.run(&["verify"]).ok();
    let _ = place.run(&["chat", "again", "--session", &id]).ok();
    let _ = place.run(&["verify"]).ok();
}

#[tokio::test]
async fn a_damaged_event_is_named_and_the_rest_stays_readable() {
    let place = Place::new();
    let fixture = root()
        .join("tests/fixtures/valve-gear.jsonl")
        .display()
        .to_string();
    let _ = place.run(&["import", &fixture]).ok();
    let sound = chatted(&place);
    let mut database = SqliteConnectOptions::new()
        .filename(place.db())
        .connect()
        .await
        .unwrap();
    for sql in [
        "drop trigger record_is_never_changed",
        "update record set data = '{\"turn\":' where seq = 64 and session = 1",
    ] {
        sqlx::query(sql).execute(&mut database).await.unwrap();
    }
    database.close().await.unwrap();

    let id = "0d5f2c6a";
    let lists = place.run(&["todos", id]);
    // The row that is damaged holds all later events, and with them what may have ended the list.
    assert!(lists.out.contains("unless a damaged event"), "{lists:?}");
    for command in ["show", "events", "todos"] {
        let ran = place.run(&[command, id]);
        refused(&ran, 4, &["event 64", "damaged"]);
        assert!(ran.out.lines().count() > 8, "{command}: {ran:?}");
    }
    assert_eq!(place.run(&["events", id, "--json"]).json().len(), 64);
    refused(&place.run(&["export", id]), 4, &["event 64"]);
    let out = place.dir().join("out.jsonl");
    let to_file = ["export", id, "--output", out.to_str().unwrap()];
    refused(&place.run(&to_file), 4, &["event 64", "out.jsonl"]);
    assert!(!out.exists());
    refused(
        &place.run(&["chat", "go on", "--session", id]),
        4,
        &["event 64"],
    );
    let verified = place.run(&["verify"]);
    assert_eq!(verified.code, Some(7), "{verified:?}");
    assert!(verified.out.contains("decode at event 64"), "{verified:?}");
    let _ = place.run(&["verify", &sound]).ok();
    assert_eq!(place.run(&["sessions", "--json"]).ok().json().len(), 2);
}

#[tokio::test]
async fn a_damaged_header_is_named_and_the_other_sessions_stay_usable() {
    let place = Place::new();
    let (lost, sound) = (chatted(&place), chatted(&place));
    let mut database = SqliteConnectOptions::new()
        .filename(place.db())
        .connect()
        .await
        .unwrap();
    sqlx::query("update session set header = '{' where id = ?")
        .bind(&lost)
        .execute(&mut database)
        .await
        .unwrap();
    database.close().await.unwrap();

    let listed = place.run(&["sessions", "--json"]);
    refused(&listed, 4, &[&lost, "header"]);
    assert_eq!(listed.json().len(), 1);
    refused(&place.run(&["show", &lost]), 4, &[&lost, "header"]);
    for args in [&["verify"][..], &["verify", &lost[..6]]] {
        let verified = place.run(args);
        assert_eq!(verified.code, Some(7), "{verified:?}");
        assert!(
            verified.out.contains(&format!("{lost}: FAULTY")),
            "{verified:?}"
        );
    }
    let _ = place.run(&["verify", &sound]).ok();
    let _ = place.run(&["show", &sound]).ok();
}

#[tokio::test]
async fn damage_behind_the_last_list_hides_no_list_and_opens_no_turn() {
    let place = Place::new();
    let id = chatted(&place);
    let whole = place.run(&["todos", &id, "--json"]).ok().json();
    let last = whole.last().unwrap()["seq"].as_i64().unwrap();
    let end = place.run(&["events", &id, "--json"]).ok().json().len() - 1;
    assert!(i64::try_from(end).unwrap() > last + 1);
    let mut database = SqliteConnectOptions::new()
        .filename(place.db())
        .connect()
        .await
        .unwrap();
    sqlx::query("drop trigger record_is_never_changed")
        .execute(&mut database)
        .await
        .unwrap();
    sqlx::query("update record set data = '{' where seq > ?")
        .bind(last)
        .execute(&mut database)
        .await
        .unwrap();
    database.close().await.unwrap();

    let damaged = place.run(&["todos", &id, "--json"]);
    refused(&damaged, 4, &["damaged"]);
    assert_eq!(damaged.json(), whole);
    let told = place.run(&["todos", &id]);
    assert!(told.out.contains("unless a damaged event"), "{told:?}");

    let verified = place.run(&["verify", &id]);
    assert_eq!(verified.code, Some(7));
    assert!(!verified.out.contains("a turn is open"), "{verified:?}");
    let verified = place.run(&["verify", &id, "--json"]).json();
    assert_eq!(verified[0]["openTurn"], false);
}

/// What a log of others could bring to a terminal.
const HOSTILE: [char; 8] = [
    '\u{1b}',
    '\u{0}',
    '\u{9b}',
    '\u{202e}',
    '\u{ad}',
    '\u{200c}',
    '\u{e0041}',
    '\u{7f}',
];

/// A log in which everything that can be chosen is hostile; `kind` is a type of its own.
fn hostile_log(id: &str, kind: Option<&str>) -> String {
    let evil = |name: &str| format!("{name}{}\nFORGED {name}", String::from_iter(HOSTILE));
    let text = |text: &str| serde_json::json!([{ "type": "text", "text": text }]);
    let list = |content: &str| serde_json::json!({ "todos": [{ "content": content, "status": "in_progress" }] });
    let model = serde_json::json!({ "kind": "model", "provider": evil("p"), "model": evil("m") });
    let call = serde_json::json!({ "type": "tool-call", "id": "c", "name": evil("tool"),
        "arguments": evil("arguments") });
    let result = serde_json::json!({ "type": "tool-result", "toolCallId": "c",
        "content": text(&evil("result")), "isError": true });
    let mut events = vec![
        ("turn/start", serde_json::json!({ "turn": 1 }), false),
        (
            "step/start",
            serde_json::json!({ "turn": 1, "step": 1 }),
            false,
        ),
        (
            "user/message",
            serde_json::json!({ "id": "m1", "role": "user",
            "content": text("hello"), "source": { "kind": "user" } }),
            true,
        ),
        (
            "user/message",
            serde_json::json!({ "id": "m0", "role": "user",
            "content": text(&evil("note")), "source": { "kind": evil("source") } }),
            true,
        ),
        (
            "session/title",
            serde_json::json!({ "title": evil("title"), "messageSeqs": [2],
            "source": { "kind": "fallback" } }),
            false,
        ),
        (
            "assistant/message",
            serde_json::json!({ "turn": 1, "step": 1, "message": { "id": "m2",
            "role": "assistant", "content": [call], "source": model } }),
            true,
        ),
        (
            "tool/call",
            serde_json::json!({ "turn": 1, "step": 1, "callId": "c",
            "name": evil("tool"), "arguments": evil("arguments") }),
            false,
        ),
        ("todo/write", list(&evil("first")), false),
        ("todo/write", list(&evil("second")), false),
        (
            "tool/result",
            serde_json::json!({ "turn": 1, "step": 1, "message": { "id": "m3",
            "role": "user", "content": [result],
            "source": { "kind": "tool", "callId": "c" } } }),
            true,
        ),
        (
            "step/end",
            serde_json::json!({ "turn": 1, "step": 1 }),
            false,
        ),
        (
            "turn/end",
            serde_json::json!({ "turn": 1, "reason": { "kind": "error",
            "error": { "message": evil("failure"), "code": evil("code") } } }),
            false,
        ),
    ];
    if let Some(kind) = kind {
        events.push((kind, serde_json::json!({ "x": evil("x") }), false));
    }
    let header = serde_json::json!({ "type": "session", "version": 0, "id": id, "createdAt": 1,
        "cwd": evil("/cwd"), "parentSession": evil("parent") });
    let mut lines = vec![header.to_string()];
    for (seq, (kind, data, surfaces)) in events.into_iter().enumerate() {
        let mut event =
            serde_json::json!({ "type": kind, "seq": seq, "time": 1 + seq, "data": data });
        if surfaces {
            event["surfaceOp"] = "append".into();
            if kind != "user/message" {
                let sources = if kind == "tool/result" { &[6][..] } else { &[] };
                event["sourceEventSeqs"] = serde_json::json!(sources);
            }
        }
        lines.push(event.to_string());
    }
    lines.join("\n")
}

#[test]
fn what_a_log_of_others_says_is_shown_harmlessly_by_every_command() {
    let place = Place::new();
    let chars = String::from_iter(HOSTILE);
    let kind = format!("acme/{chars}\nFORGED type");
    let ids = ["evil1", "evil2", "\u{1b}[2J\u{202e}"].map(|id| format!("{id}{chars}\nFORGED id"));
    let logs = [
        hostile_log(&ids[0], None),
        hostile_log(&ids[1], Some(&kind)),
        hostile_log(&ids[2], None),
    ];
    let mut ran = Vec::new();
    let mut run = |name: &str, code: i32, one: Ran| {
        assert_eq!(one.code, Some(code), "{name}: {one:?}");
        ran.push((name.to_owned(), one));
    };
    for log in &logs {
        let import = ["import", "-", "--keep-unknown"];
        run("import", 0, place.pipe(&import, log));
    }
    run(
        "import again",
        5,
        place.pipe(&["import", "-", "--keep-unknown"], &logs[0]),
    );
    run(
        "import of an unknown type",
        5,
        place.pipe(&["import", "-"], &logs[1]),
    );
    run("sessions", 0, place.run(&["sessions"]));
    run(
        "a page of sessions",
        0,
        place.run(&["sessions", "--limit", "1"]),
    );
    for id in ["evil1", "evil2"] {
        for command in ["show", "events", "todos", "verify"] {
            run(command, 0, place.run(&[command, id]));
        }
    }
    run("verify all", 0, place.run(&["verify"]));
    run("an id of several", 3, place.run(&["show", "evil"]));
    run(
        "chat",
        0,
        place.run(&["chat", "one thing", "--session", "evil1"]),
    );
    let script = place.dir().join("script.json");
    let calls = serde_json::json!([{ "name": format!("tool{chars}\nFORGED"),
        "arguments": format!("{chars}\nFORGED") }]);
    let responses = serde_json::json!([{ "text": &chars, "tool_calls": calls },
        { "error": { "message": format!("m{chars}\nFORGED"), "code": format!("c{chars}") } }]);
    fs::write(
        &script,
        serde_json::json!({ "responses": responses }).to_string(),
    )
    .unwrap();
    let model = format!("script:{}", script.display());
    let chat = ["chat", "go", "--session", "evil1", "--model", &model];
    run("a scripted chat", 8, place.run(&chat));
    run(
        "chat with an unknown type",
        4,
        place.run(&["chat", "x", "--session", "evil2"]),
    );
    for (name, Ran { out, err, .. }) in &ran {
        for text in [out, err] {
            assert!(!text.contains(HOSTILE), "{name}: {text:?}");
            assert!(!text.contains("panicked"), "{name}: {text}");
            // Nothing that belongs on one line begins another.
            let forged = text.lines().find(|line| line.starts_with("FORGED"));
            assert!(forged.is_none(), "{name}: {text}");
        }
    }
}
