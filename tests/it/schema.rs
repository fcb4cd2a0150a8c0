//! The schema, made by sqlx-cli and made by the program.

use std::path::Path;
use std::process::Command;

use minutebook_tests::{Place, need, on_path, root};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Row as _};

async fn schema(path: &Path) -> Vec<(String, String, Option<String>)> {
    let mut connection = SqliteConnectOptions::new()
        .filename(path)
        .connect()
        .await
        .unwrap();
    let rows = sqlx::query("select type, name, sql from sqlite_schema order by type, name")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let application_id: i64 = sqlx::query_scalar("pragma application_id")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
    let mut schema: Vec<_> = rows
        .iter()
        .map(|row| (row.get(0), row.get(1), row.get(2)))
        .collect();
    schema.push((
        "pragma".into(),
        "application_id".into(),
        Some(application_id.to_string()),
    ));
    schema
}

fn sqlx_cli(sqlx: &Path, place: &Place, args: &[&str]) {
    let url = format!("sqlite://{}", place.dir().join("cli.db").display());
    let ran = Command::new(sqlx)
        .args(args)
        .args(["--database-url", &url])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
}

#[tokio::test]
async fn sqlx_migrate_run_and_the_program_make_the_same_schema() {
    let Some(sqlx) = need(on_path("sqlx"), "sqlx-cli") else {
        return;
    };
    let place = Place::new();
    let by_cli = place.dir().join("cli.db");
    sqlx_cli(&sqlx, &place, &["database", "create"]);
    sqlx_cli(
        &sqlx,
        &place,
        &["migrate", "run", "--source", "migrations/sqlite"],
    );
    let _ = place.run(&["chat", "one thing"]).ok();
    assert_eq!(schema(&by_cli).await, schema(&place.db()).await);

    // Each goes on with what the other made.
    sqlx_cli(
        &sqlx,
        &place,
        &["migrate", "run", "--source", "migrations/sqlite"],
    );
    let _ = place
        .run(&["chat", "one thing", "--db", by_cli.to_str().unwrap()])
        .ok();
    let _ = place
        .run(&["verify", "--db", by_cli.to_str().unwrap()])
        .ok();
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_both_versions() {
    let place = Place::new();
    let _ = place.run(&["chat", "one thing"]).ok();
    let mut connection = SqliteConnectOptions::new()
        .filename(place.db())
        .connect()
        .await
        .unwrap();
    sqlx::query(
        "insert into _sqlx_migrations (version, description, success, checksum, execution_time) \
         values (99, 'from the future', true, x'00', 0)",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
    let ran = place.run(&["chat", "one thing"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert!(
        ran.err.contains("version 99") && ran.err.contains("up to version 1"),
        "{ran:?}"
    );
}
