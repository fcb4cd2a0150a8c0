//! Listings.

use std::sync::Arc;

use super::Store;
use super::given::{CREATED, add, header, id, listed, prompt, session};
use crate::event::TurnStart;
use crate::store::ReadError;
use crate::{Cursor, ListFilter, ListOrder, ListQuery, NewEvent, Page, UnixMillis};

/// Creates sessions, `(id, created at, updated at)`, each with a turn.
async fn sessions(store: &impl Store, sessions: &[(&str, i64, i64)]) {
    for &(id, created_at, updated_at) in sessions {
        let mut header = header(id);
        header.created_at = UnixMillis::new(created_at);
        store.create(&header, Vec::new()).await.unwrap();
        let turn = NewEvent::new(&TurnStart { turn: 1 });
        add(store, id, [turn.into(), prompt(updated_at)]).await;
    }
}

fn ids(page: &Page) -> Vec<&str> {
    assert_eq!(page.damaged, []);
    let ids = page.entries.iter().map(|entry| entry.header.id.as_str());
    ids.collect()
}

async fn filtered(store: &impl Store, filter: ListFilter) -> Vec<String> {
    let entries = listed(store, filter).await;
    let ids = entries.into_iter().map(|entry| entry.header.id.to_string());
    ids.collect()
}

pub async fn lists_nothing_of_an_empty_store<S: Store>(store: &Arc<S>) {
    let page = store.list(&ListQuery::default()).await.unwrap();
    assert_eq!(page, Page::default());
}

pub async fn lists_the_newest_first_in_either_order<S: Store>(store: &Arc<S>) {
    let rows = [
        ("d", 1, 9),
        ("b", 2, 7),
        ("c", 2, 7),
        ("a", 2, 5),
        ("e", 3, 3),
    ];
    sessions(&**store, &rows).await;
    for (order, expected) in [
        (ListOrder::Updated, ["d", "b", "c", "a", "e"]),
        (ListOrder::Created, ["e", "a", "b", "c", "d"]),
    ] {
        let query = ListQuery {
            order,
            ..ListQuery::default()
        };
        let page = store.list(&query).await.unwrap();
        assert_eq!(ids(&page), expected);
        assert_eq!(page.next, None);
    }
}

pub async fn shows_the_sessions_of_a_folder<S: Store>(store: &Arc<S>) {
    for (id, cwd) in [
        ("a", Some("/x")),
        ("b", Some("/x/y")),
        ("c", None),
        ("d", Some("/X")),
    ] {
        let mut header = header(id);
        header.cwd = cwd.map(Into::into);
        store.create(&header, Vec::new()).await.unwrap();
    }
    for (cwd, expected) in [
        ("/x", vec!["a"]),
        ("/x/", vec![]),
        ("%", vec![]),
        ("", vec![]),
    ] {
        let filter = ListFilter {
            cwd: Some(cwd.into()),
            ..ListFilter::default()
        };
        assert_eq!(filtered(&**store, filter).await, expected, "{cwd}");
    }
}

pub async fn shows_the_children_of_a_session<S: Store>(store: &Arc<S>) {
    for (child, parent) in [
        ("a", None),
        ("b", Some("a")),
        ("c", Some("a")),
        ("d", Some("b")),
    ] {
        let mut header = header(child);
        header.parent_session = parent.map(Into::into);
        store.create(&header, Vec::new()).await.unwrap();
    }
    for (parent, expected) in [("a", vec!["b", "c"]), ("b", vec!["d"]), ("x", vec![])] {
        let filter = ListFilter {
            parent: Some(id(parent)),
            ..ListFilter::default()
        };
        assert_eq!(filtered(&**store, filter).await, expected, "{parent}");
    }
}

pub async fn takes_an_id_prefix_to_the_letter<S: Store>(store: &Arc<S>) {
    for id in ["a%c", "abc", "abd", "Abe", "a_c", "äb"] {
        session(&**store, id, 0).await;
    }
    for (prefix, expected) in [
        ("ab", vec!["abc", "abd"]),
        ("abc", vec!["abc"]),
        ("abcd", vec![]),
        ("a%", vec!["a%c"]),
        ("a_", vec!["a_c"]),
        ("A", vec!["Abe"]),
        ("ä", vec!["äb"]),
        ("", vec!["Abe", "a%c", "a_c", "abc", "abd", "äb"]),
    ] {
        let filter = ListFilter {
            id_prefix: Some(prefix.into()),
            ..ListFilter::default()
        };
        assert_eq!(filtered(&**store, filter).await, expected, "{prefix}");
    }
}

pub async fn hides_blank_sessions_unless_asked_for<S: Store>(store: &Arc<S>) {
    session(&**store, "blank", 2).await;
    sessions(&**store, &[("begun", 1, 1)]).await;
    let page = store.list(&ListQuery::default()).await.unwrap();
    assert_eq!(ids(&page), ["begun"]);
    let all = filtered(&**store, ListFilter::default()).await;
    assert_eq!(all, ["blank", "begun"]);
}

pub async fn all_conditions_of_a_filter_must_hold<S: Store>(store: &Arc<S>) {
    for (child, cwd, parent) in [
        ("aa", "/x", "p"),
        ("ab", "/x", "q"),
        ("ac", "/y", "p"),
        ("ba", "/x", "p"),
    ] {
        let mut header = header(child);
        header.cwd = Some(cwd.into());
        header.parent_session = Some(parent.into());
        store.create(&header, Vec::new()).await.unwrap();
    }
    let filter = ListFilter {
        cwd: Some("/x".into()),
        parent: Some(id("p")),
        id_prefix: Some("a".into()),
        include_blank: true,
    };
    assert_eq!(filtered(&**store, filter).await, ["aa"]);
}

pub async fn pages_over_equal_times_show_each_session_once<S: Store>(store: &Arc<S>) {
    let rows = [
        ("g", 1, 4),
        ("a", 1, 5),
        ("b", 1, 5),
        ("c", 1, 5),
        ("d", 1, 5),
        ("e", 1, 5),
        ("f", 1, 6),
    ];
    sessions(&**store, &rows).await;
    for (order, expected) in [
        (ListOrder::Updated, ["f", "a", "b", "c", "d", "e", "g"]),
        (ListOrder::Created, ["a", "b", "c", "d", "e", "f", "g"]),
    ] {
        for limit in [1, 2, 3] {
            let seen = walk(&**store, order, limit).await;
            assert_eq!(seen, expected, "{order:?} by {limit}");
        }
    }
}

async fn walk(store: &impl Store, order: ListOrder, limit: u32) -> Vec<String> {
    let mut query = ListQuery {
        order,
        limit,
        ..ListQuery::default()
    };
    let mut seen = Vec::new();
    loop {
        let page = store.list(&query).await.unwrap();
        assert!(page.entries.len() <= limit as usize);
        assert!(!page.entries.is_empty(), "a page promised more");
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        query.after = page.next;
        if query.after.is_none() {
            return seen;
        }
    }
}

pub async fn a_cursor_survives_being_written_down<S: Store>(store: &Arc<S>) {
    sessions(&**store, &[("a~b 'c'", 1, 5), ("z", 1, 5)]).await;
    let mut query = ListQuery {
        limit: 1,
        ..ListQuery::default()
    };
    let first = store.list(&query).await.unwrap();
    assert_eq!(ids(&first), ["a~b 'c'"]);
    let word = first.next.unwrap().to_string();
    query.after = Some(word.parse::<Cursor>().unwrap());
    assert_eq!(ids(&store.list(&query).await.unwrap()), ["z"]);
}

pub async fn a_cursor_goes_on_after_its_session_moved<S: Store>(store: &Arc<S>) {
    sessions(&**store, &[("a", 1, 30), ("b", 1, 20), ("c", 1, 10)]).await;
    let mut query = ListQuery {
        limit: 2,
        ..ListQuery::default()
    };
    let first = store.list(&query).await.unwrap();
    assert_eq!(ids(&first), ["a", "b"]);
    add(&**store, "b", [prompt(99)]).await;
    query.after = first.next;
    assert_eq!(ids(&store.list(&query).await.unwrap()), ["c"]);
}

pub async fn refuses_a_cursor_of_another_order<S: Store>(store: &Arc<S>) {
    let after = Cursor::new(ListOrder::Created, CREATED, id("a"));
    let query = ListQuery {
        after: Some(after),
        ..ListQuery::default()
    };
    let refused = store.list(&query).await.unwrap_err();
    assert!(matches!(refused, ReadError::Cursor(_)), "{refused}");
}

pub async fn a_page_that_is_exactly_full_is_the_last<S: Store>(store: &Arc<S>) {
    sessions(&**store, &[("a", 1, 5), ("b", 1, 5)]).await;
    let query = ListQuery {
        limit: 2,
        ..ListQuery::default()
    };
    let page = store.list(&query).await.unwrap();
    assert_eq!((ids(&page), &page.next), (vec!["a", "b"], &None));
}
