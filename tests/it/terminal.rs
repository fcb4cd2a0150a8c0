//! The conversation on a real terminal, read off its screen.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use minutebook_tests::{Place, need, on_path, program};
use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(30);

/// A terminal of one test's own.
struct Terminal<'a> {
    tmux: &'a Path,
    socket: String,
}

impl<'a> Terminal<'a> {
    fn start(tmux: &'a Path, place: &Place, locale: &str, args: &str) -> Self {
        let socket = place.dir().join("tmux").display().to_string();
        let command = format!(
            "env LC_ALL={locale} MINUTEBOOK_DB={} {} {args}; echo exit=$?; sleep 60",
            place.db().display(),
            program().display()
        );
        let terminal = Self { tmux, socket };
        terminal.tmux(&["new-session", "-d", "-x", "80", "-y", "24", &command]);
        terminal
    }

    fn tmux(&self, args: &[&str]) -> String {
        let ran = Command::new(self.tmux)
            .args(["-S", &self.socket, "-f", "/dev/null", "-u"])
            .args(args)
            .output()
            .unwrap();
        assert!(ran.status.success(), "{ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    }

    /// The program that runs in the terminal.
    fn process(&self) -> Pid {
        let shell = self.tmux(&["list-panes", "-F", "#{pane_pid}"]);
        let shell = shell.trim();
        let children = format!("/proc/{shell}/task/{shell}/children");
        let children = std::fs::read_to_string(children).unwrap();
        let child = children.split_whitespace().next().unwrap();
        Pid::from_raw(child.parse().unwrap()).unwrap()
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"]).trim_end().to_owned()
    }

    /// Waits until the screen shows all of these, and returns it.
    fn wait_for(&self, words: &[&str]) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if words.iter().all(|word| screen.contains(word)) {
                return screen;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "{words:?} did not come up on:\n{screen}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        let _ = Command::new(self.tmux)
            .args(["-S", &self.socket, "kill-server"])
            .output();
    }
}

#[test]
fn the_checklist_is_drawn_in_place() {
    let Some(tmux) = need(on_path("tmux"), "tmux") else {
        return;
    };
    let place = Place::new();
    let prompt = "'chat' '- read the code\n- write the fix\n- run the tests'";
    let terminal = Terminal::start(&tmux, &place, "C.UTF-8", prompt);
    let under_way = terminal.wait_for(&["1 completed · 1 in progress · 1 pending"]);
    assert!(under_way.contains("✔ read the code"), "{under_way}");
    assert!(under_way.contains("▶ write the fix"), "{under_way}");
    assert!(under_way.contains("○ run the tests"), "{under_way}");
    assert_eq!(under_way.matches("To-dos").count(), 1, "{under_way}");
    let done = terminal.wait_for(&["3 completed", "exit=0"]);
    assert_eq!(done.matches("To-dos").count(), 1, "{done}");
    assert_eq!(done.matches('✔').count(), 3, "{done}");
}

#[test]
fn a_terminal_that_cannot_show_the_glyphs_gets_plain_ones() {
    let Some(tmux) = need(on_path("tmux"), "tmux") else {
        return;
    };
    let place = Place::new();
    let terminal = Terminal::start(&tmux, &place, "C", "chat 'one thing'");
    let done = terminal.wait_for(&["1 completed", "exit=0"]);
    assert!(done.contains("[x] one thing"), "{done}");
}

#[test]
fn ctrl_c_cancels_the_turn_and_keeps_what_was_done() {
    let Some(tmux) = need(on_path("tmux"), "tmux") else {
        return;
    };
    let place = Place::new();
    let prompt = "'chat' '- a\n- b\n- c\n- d\n- e\n- f\n- g\n- h'";
    let terminal = Terminal::start(&tmux, &place, "C.UTF-8", prompt);
    terminal.wait_for(&["1 completed"]);
    terminal.tmux(&["send-keys", "C-c"]);
    terminal.wait_for(&["cancelled", "exit=130"]);
    let sessions = place.run(&["sessions", "--json"]).ok().json();
    assert_eq!(sessions[0]["openTurn"], false);
    let _ = place.run(&["verify"]).ok();
}

#[test]
fn a_conversation_goes_on_until_the_person_leaves() {
    let Some(tmux) = need(on_path("tmux"), "tmux") else {
        return;
    };
    let place = Place::new();
    let terminal = Terminal::start(&tmux, &place, "C.UTF-8", "chat");
    terminal.wait_for(&[">"]);
    terminal.tmux(&["send-keys", "first thing", "Enter"]);
    terminal.wait_for(&["1 completed"]);
    terminal.tmux(&["send-keys", "second thing", "Enter"]);
    terminal.wait_for(&["✔ second thing"]);
    terminal.tmux(&["send-keys", "C-d"]);
    terminal.wait_for(&["exit=0"]);
    let sessions = place.run(&["sessions", "--json"]).ok().json();
    assert_eq!(sessions.len(), 1);
}

#[test]
fn a_terminal_that_becomes_small_keeps_one_list() {
    let Some(tmux) = need(on_path("tmux"), "tmux") else {
        return;
    };
    let place = Place::new();
    let prompt = "'chat' '- read the whole of the code of the program, from its first line\n- b\n\
                  - c\n- d\n- e\n- f'";
    let terminal = Terminal::start(&tmux, &place, "C.UTF-8", prompt);
    terminal.wait_for(&["1 completed"]);
    let lists = || {
        let all = terminal.tmux(&["capture-pane", "-p", "-S", "-"]);
        all.matches("To-dos").count()
    };
    terminal.tmux(&["resize-window", "-x", "40", "-y", "24"]);
    terminal.wait_for(&["2 completed"]);
    assert_eq!(lists(), 1, "{}", terminal.screen());
    terminal.tmux(&["resize-window", "-x", "40", "-y", "7"]);
    let small = terminal.wait_for(&["4 completed"]);
    assert_eq!(small.matches("To-dos").count(), 1, "{small}");
    let done = terminal.wait_for(&["exit=0"]);
    assert_eq!(done.matches("To-dos").count(), 1, "{done}");
    // What the terminal itself pushed out of sight when it shrank is its own.
    assert!(lists() <= 2, "{done}");
}

#[test]
fn ctrl_c_in_a_conversation_cancels_the_turn_and_then_quits() {
    let Some(tmux) = need(on_path("tmux"), "tmux") else {
        return;
    };
    let place = Place::new();
    let terminal = Terminal::start(&tmux, &place, "C.UTF-8", "chat");
    terminal.wait_for(&[">"]);
    terminal.tmux(&["send-keys", "1. a 2. b 3. c 4. d", "Enter"]);
    terminal.wait_for(&["in progress"]);
    terminal.tmux(&["send-keys", "C-c"]);
    terminal.wait_for(&["cancelled"]);
    terminal.tmux(&["send-keys", "C-c"]);
    terminal.wait_for(&["exit="]);
    let sessions = place.run(&["sessions", "--json"]).ok().json();
    assert_eq!(sessions[0]["openTurn"], false);
}

#[test]
fn a_signal_at_the_prompt_ends_the_program() {
    let Some(tmux) = need(on_path("tmux"), "tmux") else {
        return;
    };
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let place = Place::new();
        let terminal = Terminal::start(&tmux, &place, "C.UTF-8", "chat");
        terminal.wait_for(&[">"]);
        terminal.tmux(&["send-keys", "one thing", "Enter"]);
        terminal.wait_for(&["1 completed", "nothing was executed.", "\n>"]);
        kill_process(terminal.process(), signal).unwrap();
        terminal.wait_for(&["exit=0"]);
        let _ = place.run(&["verify"]).ok();
    }
}

#[test]
fn a_line_that_is_no_text_is_refused_and_the_conversation_goes_on() {
    let Some(tmux) = need(on_path("tmux"), "tmux") else {
        return;
    };
    let place = Place::new();
    let terminal = Terminal::start(&tmux, &place, "C.UTF-8", "chat");
    terminal.wait_for(&[">"]);
    let bytes = place.dir().join("bytes");
    std::fs::write(&bytes, b"caf\xe9\n").unwrap();
    terminal.tmux(&["load-buffer", bytes.to_str().unwrap()]);
    terminal.tmux(&["paste-buffer"]);
    terminal.wait_for(&["the prompt is not UTF-8 text"]);
    terminal.tmux(&["send-keys", "one thing", "Enter"]);
    terminal.wait_for(&["1 completed"]);
    terminal.tmux(&["send-keys", "C-d"]);
    terminal.wait_for(&["exit=0"]);
}
