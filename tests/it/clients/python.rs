//! The official Python library.

use super::sdk::{self, Sdk};

#[test]
fn a_client_sees_a_turn_as_it_goes() {
    Sdk::python().iter().for_each(sdk::shows_a_turn_as_it_goes);
}

#[test]
fn a_client_sees_a_session_of_an_earlier_process() {
    Sdk::python()
        .iter()
        .for_each(sdk::shows_a_session_of_an_earlier_process);
}

#[test]
fn a_client_stops_a_turn_and_goes_on() {
    Sdk::python().iter().for_each(sdk::stops_a_turn_and_goes_on);
}

#[test]
fn a_client_is_told_that_a_session_is_unknown() {
    Sdk::python()
        .iter()
        .for_each(sdk::is_told_that_a_session_is_unknown);
}

#[test]
fn a_client_may_go_away_in_the_middle_of_a_turn() {
    Sdk::python()
        .iter()
        .for_each(sdk::may_go_away_in_the_middle_of_a_turn);
}

#[test]
fn a_client_finds_the_session_of_an_agent_that_was_killed() {
    Sdk::python()
        .iter()
        .for_each(sdk::finds_the_session_of_an_agent_that_was_killed);
}
