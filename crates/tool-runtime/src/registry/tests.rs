use std::sync::Mutex;

use async_trait::async_trait;
use futures::future::BoxFuture;
use serde_json::json;

use super::*;
use crate::ToolSuccess;

type Present = Box<dyn Fn(&Value) -> Option<CallPresentation> + Send + Sync>;

/// A tool whose parts tests replace.
struct Probe {
    definition: ToolDefinition,
    run: Box<dyn Fn(Value) -> Result<ToolSuccess, ToolFailure> + Send + Sync>,
    present: Present,
    parallel: Box<dyn Fn(&Value) -> bool + Send + Sync>,
}

impl Probe {
    /// Takes an optional integer `n` and gives back its arguments.
    fn named(name: &str) -> Self {
        let parameters = json!({
            "type": "object",
            "properties": { "n": { "type": "integer" } },
            "additionalProperties": false,
        });
        Self {
            definition: ToolDefinition::new(name, "", parameters),
            run: Box::new(|arguments| {
                let text = arguments.to_string();
                Ok(ToolSuccess::text(arguments, text))
            }),
            present: Box::new(|_| None),
            parallel: Box::new(|_| true),
        }
    }
}

#[async_trait]
impl Tool for Probe {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn is_parallel_safe(&self, arguments: &Value) -> bool {
        (self.parallel)(arguments)
    }

    fn present(&self, arguments: &Value) -> Option<CallPresentation> {
        (self.present)(arguments)
    }

    async fn run(&self, arguments: Value, _: &ToolContext) -> Result<ToolSuccess, ToolFailure> {
        (self.run)(arguments)
    }
}

async fn run(tools: &ToolRegistry, name: &str, arguments: &str) -> ToolOutcome {
    tools
        .run(name, arguments, &ToolContext::ownerless("call-1"))
        .await
}

async fn failure(tools: &ToolRegistry, name: &str, arguments: &str) -> (String, String) {
    let outcome = run(tools, name, arguments).await;
    assert!(outcome.is_error, "{outcome:?}");
    assert_eq!(outcome.value, None);
    let text = outcome.text();
    (outcome.error.expect("a code").code, text)
}

fn with(probe: Probe) -> (ToolRegistry, ToolGuard) {
    let tools = ToolRegistry::default();
    let guard = tools.register(Arc::new(probe)).unwrap();
    (tools, guard)
}

fn names(tools: &ToolRegistry) -> Vec<String> {
    tools
        .definitions()
        .into_iter()
        .map(|tool| tool.name)
        .collect()
}

#[test]
fn tools_are_listed_in_the_order_of_their_registration_until_their_guards_drop() {
    let tools = ToolRegistry::default();
    let register = |name| tools.register(Arc::new(Probe::named(name))).unwrap();
    let (b, a, _c) = (register("b"), register("a"), register("c"));
    assert_eq!(names(&tools), ["b", "a", "c"]);
    drop(a);
    assert_eq!(names(&tools.clone()), ["b", "c"]);
    drop(b);
    let _b = register("b");
    assert_eq!(names(&tools), ["c", "b"]);
}

#[test]
fn a_guard_may_outlive_its_registry() {
    let (tools, guard) = with(Probe::named("a"));
    drop(tools);
    drop(guard);
}

#[test]
fn a_tool_may_own_the_guard_of_another() {
    let tools = ToolRegistry::default();
    let inner = tools.register(Arc::new(Probe::named("inner"))).unwrap();
    let inner = Mutex::new(inner);
    let mut probe = Probe::named("outer");
    probe.parallel = Box::new(move |_| inner.lock().is_ok());
    let outer = tools.register(Arc::new(probe)).unwrap();
    assert_eq!(names(&tools), ["inner", "outer"]);
    drop(outer);
    assert!(names(&tools).is_empty());
}

#[tokio::test]
async fn a_call_in_progress_outlives_its_registration() {
    let tools = ToolRegistry::default();
    let guard: Arc<Mutex<Option<ToolGuard>>> = Arc::default();
    let mut probe = Probe::named("leaver");
    probe.run = Box::new({
        let guard = Arc::clone(&guard);
        move |_| {
            drop(guard.lock().unwrap().take());
            Ok(ToolSuccess::text(json!(null), "gone"))
        }
    });
    *guard.lock().unwrap() = Some(tools.register(Arc::new(probe)).unwrap());
    assert_eq!(run(&tools, "leaver", "{}").await.text(), "gone");
    assert!(names(&tools).is_empty());
}

#[test]
fn a_name_is_given_once_and_the_first_keeps_it() {
    let (tools, _guard) = with(Probe::named("a"));
    let mut second = Probe::named("a");
    second.definition.description = "second".to_owned();
    let refused = tools.register(Arc::new(second)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        r#"a tool named "a" is registered already"#
    );
    assert_eq!(tools.definitions()[0].description, "");
}

#[test]
fn a_name_that_models_do_not_take_is_refused() {
    let tools = ToolRegistry::default();
    let long = "a".repeat(65);
    for name in ["", "a b", "a.b", "ä", "a/b", "a\0", long.as_str()] {
        let refused = tools.register(Arc::new(Probe::named(name))).unwrap_err();
        let name = name.to_owned();
        assert_eq!(refused, RegisterError::BadName { name });
    }
    let fits = ["a", "A-z_09", &long[1..]];
    let guards = fits.map(|name| tools.register(Arc::new(Probe::named(name))).unwrap());
    assert_eq!(names(&tools), fits);
    drop(guards);
}

#[test]
fn a_schema_that_is_none_is_refused_with_the_reason() {
    let tools = ToolRegistry::default();
    let mut probe = Probe::named("a");
    probe.definition.parameters = json!({ "type": "object", "required": "n" });
    let refused = tools.register(Arc::new(probe)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        r#"the parameters of tool "a" cannot be used"#
    );
    let reason = std::error::Error::source(&refused).unwrap().to_string();
    assert!(reason.starts_with("not a usable JSON schema: "), "{reason}");
    assert!(names(&tools).is_empty());
}

#[tokio::test]
async fn a_success_is_its_content_and_its_value() {
    let (tools, _guard) = with(Probe::named("a"));
    let outcome = run(&tools, "a", r#"{"n":1}"#).await;
    assert!(!outcome.is_error);
    assert_eq!(outcome.text(), r#"{"n":1}"#);
    assert_eq!(outcome.value, Some(json!({ "n": 1 })));
    assert_eq!(outcome.error, None);
}

#[tokio::test]
async fn a_failure_reads_error_and_its_message() {
    for (failure, code) in [
        (ToolFailure::new("no such file"), None),
        (ToolFailure::coded("ENOENT", "no such file"), Some("ENOENT")),
    ] {
        let mut probe = Probe::named("a");
        probe.run = Box::new(move |_| Err(failure.clone()));
        let (tools, _guard) = with(probe);
        let outcome = run(&tools, "a", "{}").await;
        assert!(outcome.is_error);
        assert_eq!(outcome.text(), "Error: no such file");
        assert_eq!(outcome.error.as_ref().map(|info| &*info.code), code);
        assert_eq!(outcome.value, None);
    }
}

#[tokio::test]
async fn no_arguments_are_an_empty_object() {
    let (tools, _guard) = with(Probe::named("a"));
    for nothing in ["", "  \n\t"] {
        assert_eq!(run(&tools, "a", nothing).await.value, Some(json!({})));
    }
    assert!(tools.is_parallel_safe("a", ""));
}

#[tokio::test]
async fn text_that_is_not_json_is_answered_with_the_place_of_the_fault() {
    let (tools, _guard) = with(Probe::named("a"));
    for (arguments, message) in [
        (
            r#"{"n":1"#,
            "not JSON: EOF while parsing an object at line 1 column 6",
        ),
        (
            "{'n': 1}",
            "not JSON: key must be a string at line 1 column 2",
        ),
        (
            r#"{"n":1} {"n":2}"#,
            "not JSON: trailing characters at line 1 column 9",
        ),
        (
            r#"{"n":"\ud800"}"#,
            "not JSON: unexpected end of hex escape at line 1 column 13",
        ),
    ] {
        let (code, text) = failure(&tools, "a", arguments).await;
        assert_eq!(code, "INVALID_ARGS");
        assert_eq!(
            text,
            format!("Error: invalid arguments: arguments: {message}")
        );
    }
    let deep = "[".repeat(1_000_000);
    let (_, text) = failure(&tools, "a", &deep).await;
    assert!(text.contains("recursion limit exceeded"), "{text}");
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_answered_with_their_paths_and_never_run() {
    let mut probe = Probe::named("a");
    probe.run = Box::new(|_| unreachable!("arguments do not fit"));
    let (tools, _guard) = with(probe);
    for (arguments, message) in [
        (
            r#"{"n":"1"}"#,
            r#"arguments.n: expected an integer, got "1""#,
        ),
        (
            r#"{"m":1}"#,
            r#"arguments: unknown key "m", expected only "n""#,
        ),
        ("null", "arguments: expected an object, got null"),
        (
            r#""{\"n\":1}""#,
            r#"arguments: expected an object, got "{\"n\":1}" (send the object itself, not text that holds it)"#,
        ),
    ] {
        let (code, text) = failure(&tools, "a", arguments).await;
        assert_eq!(code, "INVALID_ARGS");
        assert_eq!(text, format!("Error: invalid arguments: {message}"));
    }
}

#[tokio::test]
async fn of_a_repeated_key_the_last_value_counts() {
    let (tools, _guard) = with(Probe::named("a"));
    let outcome = run(&tools, "a", r#"{"n":"x","n":2}"#).await;
    assert_eq!(outcome.value, Some(json!({ "n": 2 })));
    assert!(run(&tools, "a", r#"{"n":2,"n":"x"}"#).await.is_error);
}

#[tokio::test]
async fn an_unknown_tool_is_answered_with_the_known_ones() {
    let tools = ToolRegistry::default();
    let (code, text) = failure(&tools, "x", "{}").await;
    assert_eq!(code, "UNKNOWN_TOOL");
    assert_eq!(text, r#"Error: unknown tool "x"; there are none"#);

    let guards = ["b", "a"].map(|name| tools.register(Arc::new(Probe::named(name))).unwrap());
    let (_, text) = failure(&tools, "x", "not even JSON").await;
    assert_eq!(text, r#"Error: unknown tool "x"; there are: b, a"#);
    let (_, text) = failure(&tools, &"x".repeat(10_000), "").await;
    assert!(text.len() < 200, "{text}");
    drop(guards);
}

#[tokio::test]
async fn a_panic_is_a_failure_and_the_tool_can_be_called_again() {
    let mut probe = Probe::named("a");
    probe.run = Box::new(|arguments| match arguments["n"].as_i64() {
        Some(0) => panic!("a secret"),
        _ => Ok(ToolSuccess::text(json!(null), "fine")),
    });
    let (tools, _guard) = with(probe);
    let (code, text) = failure(&tools, "a", r#"{"n":0}"#).await;
    assert_eq!(code, "PANIC");
    assert_eq!(text, r#"Error: the tool "a" failed unexpectedly"#);
    assert_eq!(run(&tools, "a", r#"{"n":1}"#).await.text(), "fine");
}

/// Panics before there is a future to await.
struct Hasty;

impl Tool for Hasty {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition::new("hasty", "", json!({ "type": "object" }))
    }

    fn run<'a, 'b, 'c>(
        &'a self,
        _: Value,
        _: &'b ToolContext,
    ) -> BoxFuture<'c, Result<ToolSuccess, ToolFailure>>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        panic!("at once")
    }
}

#[tokio::test]
async fn a_panic_before_the_first_await_is_a_failure_as_well() {
    let tools = ToolRegistry::default();
    let _guard = tools.register(Arc::new(Hasty)).unwrap();
    assert_eq!(failure(&tools, "hasty", "").await.0, "PANIC");
}

#[test]
fn a_tool_presents_its_own_calls() {
    let mut probe = Probe::named("a");
    probe.present = Box::new(|arguments| {
        arguments["n"].as_i64().map(|n| CallPresentation {
            title: format!("Counts to {n}"),
            kind: ToolKind::Think,
            raw_input: None,
            locations: vec!["/n".into()],
        })
    });
    let (tools, _guard) = with(probe);
    assert_eq!(tools.present("a", r#"{"n":3}"#).title, "Counts to 3");

    let plain = |raw_input| CallPresentation {
        title: "a".to_owned(),
        kind: ToolKind::Other,
        raw_input: Some(raw_input),
        locations: Vec::new(),
    };
    assert_eq!(tools.present("a", ""), plain(json!({})));
    assert_eq!(tools.present("a", r#"{"n":"#), plain(json!(r#"{"n":"#)));
}

#[test]
fn a_call_that_nobody_can_present_shows_its_name_and_arguments() {
    let mut probe = Probe::named("a");
    probe.present = Box::new(|_| panic!("not mine"));
    let (tools, _guard) = with(probe);
    for name in ["a", "unknown"] {
        let shown = tools.present(name, r#"{"n":3}"#);
        assert_eq!(shown.title, name);
        assert_eq!(shown.raw_input, Some(json!({ "n": 3 })));
    }
}

#[test]
fn a_call_runs_beside_others_only_when_its_tool_says_so_of_arguments_that_fit() {
    let mut even = Probe::named("even");
    even.parallel = Box::new(|arguments| arguments["n"].as_i64().unwrap() % 2 == 0);
    let (tools, _guard) = with(even);
    assert!(tools.is_parallel_safe("even", r#"{"n":2}"#));
    for (name, arguments) in [
        ("even", r#"{"n":1}"#),
        ("even", r#"{"n":2,"m":1}"#),
        ("even", "not JSON"),
        ("unknown", r#"{"n":2}"#),
        // It panics for want of `n`.
        ("even", "{}"),
    ] {
        assert!(!tools.is_parallel_safe(name, arguments), "{arguments}");
    }
    let _hasty = tools.register(Arc::new(Hasty)).unwrap();
    assert!(!tools.is_parallel_safe("hasty", "{}"));
}
