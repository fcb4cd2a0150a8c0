//! Every store passes the one suite.

mod memory {
    use session_core::MemoryStore;

    session_core::conformance_tests!(async { MemoryStore::new() });
}

mod sqlite {
    use session_core::SqliteStore;
    use session_core::store::conformance::Fresh;

    async fn fresh() -> Fresh<SqliteStore> {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(folder.path().join("sessions.db")).await;
        Fresh::keeping(store.unwrap(), folder)
    }

    session_core::conformance_tests!(fresh());
}
