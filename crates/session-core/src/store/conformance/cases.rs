//! Every case, once.

/// One `#[tokio::test]` for each case of the [suite](crate::store::conformance). The argument is a
/// future that makes a store without sessions, or a
/// [`Fresh`](crate::store::conformance::Fresh) one; it is evaluated anew for each test.
#[macro_export]
macro_rules! conformance_tests {
    ($make:expr) => {
        $crate::__conformance_cases!([$crate::__conformance_test][$make]);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_test {
    ([$make:expr] $($subject:ident::$case:ident,)*) => {$(
        #[::tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            let fresh = $crate::store::conformance::Fresh::from($make.await);
            $crate::store::conformance::$subject::$case(fresh.store()).await;
        }
    )*};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_cases {
    ([$($to:tt)*] $with:tt) => {
        $($to)*! { $with
            create::creates_a_session_without_events,
            create::keeps_the_header_to_the_letter,
            create::begins_a_log_with_its_seed,
            create::refuses_an_id_that_exists_and_leaves_its_session_alone,
            create::refuses_a_misnumbered_seed_and_creates_nothing,
            create::lets_one_of_many_creators_of_an_id_win,
            create::tells_ids_apart_to_the_letter,
            create::a_creation_that_is_dropped_half_way_is_whole_or_nothing,
            fork::a_child_begins_with_what_it_inherits,
            fork::a_child_of_an_empty_session_is_empty,
            fork::reads_any_range_across_the_seam_in_either_direction,
            fork::reads_over_the_borders_of_pages_and_of_sessions,
            fork::a_child_and_its_origin_go_on_by_themselves,
            fork::a_child_of_the_whole_log_does_not_grow_with_its_origin,
            fork::a_child_counts_its_positions_from_what_it_inherits,
            fork::a_fork_of_a_fork_reads_through_all_of_them,
            fork::a_fork_may_end_in_what_its_origin_inherited,
            fork::refuses_to_fork_onto_an_id_that_exists,
            fork::refuses_to_fork_a_session_that_is_not_there,
            fork::refuses_to_fork_beyond_the_end_of_a_log,
            fork::refuses_a_seed_that_does_not_follow_what_is_inherited,
            fork::the_catalogue_counts_what_is_inherited_like_an_append,
            fork::a_child_keeps_its_header_to_the_letter,
            fork::checkpoints_of_the_origin_are_not_the_childs,
            fork::a_session_that_is_leased_can_be_forked_and_the_child_is_free,
            fork::wakes_for_a_fork_and_for_what_is_appended_to_it,
            fork::a_fork_that_is_dropped_half_way_is_whole_or_nothing,
            fork::lets_one_of_many_forks_onto_an_id_win,
            append::reads_back_what_was_appended,
            append::refuses_a_stale_belief_and_writes_nothing,
            append::refuses_a_belief_that_is_ahead_and_writes_nothing,
            append::refuses_a_misnumbered_batch_and_writes_nothing,
            append::refuses_an_unknown_session,
            append::an_empty_batch_changes_nothing,
            append::takes_a_batch_of_thousands_whole,
            append::lets_one_of_many_writers_win_each_position,
            append::keeps_logs_apart_that_are_written_at_once,
            append::a_refused_append_harms_no_other,
            append::an_append_that_is_dropped_half_way_is_whole_or_nothing,
            read::an_empty_log_reads_as_empty,
            read::an_unknown_session_is_not_found,
            read::reads_any_range_in_either_direction,
            read::reads_over_the_borders_of_pages,
            read::keeps_payloads_to_the_letter,
            read::keeps_payloads_of_megabytes,
            read::keeps_the_surface_metadata_and_the_order_of_sources,
            read::keeps_the_mark_of_ignorable_events,
            read::keeps_times_before_the_epoch_and_out_of_order,
            read::keeps_any_type,
            read::a_log_can_grow_while_it_is_read,
            catalogue::counts_the_events,
            catalogue::keeps_the_last_title,
            catalogue::keeps_a_title_to_the_letter,
            catalogue::a_session_is_blank_until_a_turn_starts,
            catalogue::a_session_is_open_from_the_start_of_a_turn_to_its_end,
            catalogue::only_a_person_who_speaks_updates_a_session,
            catalogue::a_prompt_from_the_past_does_not_set_a_session_back,
            catalogue::a_seed_counts_like_an_append,
            catalogue::the_listing_and_the_entry_agree,
            list::lists_nothing_of_an_empty_store,
            list::lists_the_newest_first_in_either_order,
            list::shows_the_sessions_of_a_folder,
            list::shows_the_children_of_a_session,
            list::takes_an_id_prefix_to_the_letter,
            list::hides_blank_sessions_unless_asked_for,
            list::all_conditions_of_a_filter_must_hold,
            list::pages_over_equal_times_show_each_session_once,
            list::a_cursor_survives_being_written_down,
            list::a_cursor_goes_on_after_its_session_moved,
            list::refuses_a_cursor_of_another_order,
            list::a_page_that_is_exactly_full_is_the_last,
            lease::a_lease_lets_its_holder_append,
            lease::a_lease_that_is_held_is_refused_with_its_holder,
            lease::the_same_owner_asking_again_gets_a_newer_token,
            lease::an_older_token_is_fenced_and_writes_nothing,
            lease::a_released_token_is_fenced,
            lease::a_released_lease_can_be_taken,
            lease::a_holder_that_is_gone_loses_the_lease,
            lease::giving_back_a_lease_that_was_taken_over_leaves_it_with_its_holder,
            lease::tokens_only_count_up,
            lease::an_append_that_shows_no_token_is_not_fenced,
            lease::a_session_that_is_unknown_has_no_lease,
            lease::one_of_many_askers_gets_the_lease,
            lease::leases_of_different_sessions_do_not_meet,
            checkpoint::a_session_without_checkpoints_has_none,
            checkpoint::loads_what_was_saved,
            checkpoint::keeps_a_state_to_the_letter,
            checkpoint::replaces_the_row_of_the_same_key,
            checkpoint::passes_over_an_older_row,
            checkpoint::another_state_version_replaces_even_a_newer_row,
            checkpoint::refuses_rows_ahead_of_the_log_and_saves_none,
            checkpoint::refuses_the_rows_of_an_unknown_session,
            checkpoint::keeps_the_rows_of_sessions_apart,
            watch::wakes_once_the_change_can_be_read,
            watch::wakes_for_a_change_that_came_while_nobody_waited,
            watch::wakes_for_a_new_session,
            watch::a_dropped_wait_loses_no_wake_up,
            watch::a_listener_that_is_far_behind_is_still_woken,
            watch::a_follower_meets_history_and_live_tail_without_a_seam,
            watch::followers_of_many_sessions_see_each_their_own,
        }
    };
}
