"""Which test carries which row of the fault table in docs/reliability.md: every row has at least one.

A test is named as `file::function`, the file below tests/. `NOT_MET` lists what a row asks for beyond what its tests
hold, with the reason; docs/reliability.md says the same.
"""

from __future__ import annotations

HTTP = "engine/test_engine_http.py::test_"
ENGINE = "engine/test_engine.py::test_"
CLASSIFY = "engine/test_classify.py::test_"
LANE = "engine/test_lane.py::test_"
LIMITER = "engine/test_limiter.py::test_"
CACHE = "engine/test_cache.py::test_"
CARE = "engine/test_cache_care.py::test_"
PARTS = "engine/test_parts.py::test_"
ERRORS = "commands/test_eval_errors.py::test_"
EVAL = "commands/test_eval_command.py::test_"
RESUME = "commands/test_kill_resume.py::test_"
READING = "judges/test_reply_text.py::test_"
MODEL = "judges/test_model.py::test_"
AUTHOR = "judges/test_model_author.py::test_"
LOADING = "adapters/test_adapter_dataset.py::test_"
TABLES = "adapters/test_adapter_tables.py::test_"
BANK = "scoring/test_bank_files.py::test_"
FIT = "fit/test_fit_training.py::test_"
STORE = "training/test_store.py::test_"
SECTIONS = ("a_network", "b_limits", "c_output", "d_process", "g_artefacts")
A, B, C, D, G = (f"reliability/test_6{section}.py::test_row_" for section in SECTIONS)
KILLS = "reliability/test_kills.py::test_row_"
FUZZ = "reliability/test_fuzzing.py::test_row_"

ROWS: dict[int, tuple[str, ...]] = {
    # 6A: network and transport
    1: (
        f"{HTTP}an_endpoint_that_is_not_there_is_given_up_in_time",
        f"{ERRORS}nothing_listening_is_exit_six",
        f"{HTTP}an_outage_in_the_middle_costs_nothing_but_time",
        "engine/test_breaker.py::test_it_opens_when_half_of_twenty_calls_in_ten_seconds_fail",
    ),
    2: (f"{A}002_unknown_host_at_the_start",),
    3: (f"{A}003_names_that_fail_to_resolve_now_and_then",),
    4: (f"{A}004_a_black_hole_that_opens",),
    5: (f"{A}005_certificates",),
    6: (f"{A}006_a_reset_in_the_handshake",),
    7: (f"{HTTP}each_fault_changes_nothing_but_the_number_of_calls", f"{ENGINE}calls_that_were_lost_are_counted"),
    8: (
        f"{HTTP}each_fault_changes_nothing_but_the_number_of_calls",
        "simulation/test_sim_wire.py::test_reset_in_the_body",
    ),
    9: (
        f"{HTTP}a_server_that_closes_after_each_reply_loses_nothing",
        f"{A}009_a_stale_connection_is_no_try",
        f"{A}009_only_the_first_is_free",
    ),
    10: (
        f"{HTTP}each_fault_changes_nothing_but_the_number_of_calls",
        "simulation/test_sim_wire.py::test_truncation_against_the_stated_length",
    ),
    11: (f"{A}011_close_delimited_truncation", f"{PARTS}a_completion_cut_anywhere_is_noticed"),
    12: (f"{HTTP}each_fault_changes_nothing_but_the_number_of_calls", "simulation/test_sim_wire.py::test_hang"),
    13: (f"{A}013_a_drip_is_closed_and_not_used_again", f"{HTTP}each_fault_changes_nothing_but_the_number_of_calls"),
    14: (f"{A}014_a_reply_that_is_always_too_large", f"{HTTP}huge_and_compressed_bodies_stop_at_the_cap"),
    15: (f"{HTTP}huge_and_compressed_bodies_stop_at_the_cap", "simulation/test_sim_wire.py::test_gzip_bomb"),
    16: (
        f"{HTTP}each_fault_changes_nothing_but_the_number_of_calls",
        f"{HTTP}no_garbage_on_the_wire_is_more_than_a_lost_call",
    ),
    17: (f"{A}017_a_sign_in_page_for_ever", f"{HTTP}each_fault_changes_nothing_but_the_number_of_calls"),
    18: (
        f"{HTTP}the_key_is_not_sent_to_where_a_redirect_points",
        f"{ERRORS}what_the_endpoint_refuses_ends_the_run_with_exit_four",
    ),
    19: (
        f"{HTTP}no_garbage_on_the_wire_is_more_than_a_lost_call",
        f"{HTTP}each_fault_changes_nothing_but_the_number_of_calls",
    ),
    20: (
        f"{A}020_an_answer_before_the_question_was_read",
        f"{A}020_what_came_before_anything_was_asked_answers_nothing",
        f"{A}020_no_direct_verdict_is_taken_from_another_pairs_reply",
        f"{A}020_no_verdict_is_taken_from_a_reply_about_other_rubrics_of_the_same_pair",
        f"{A}020_an_endpoint_that_once_sent_too_much_gets_a_connection_for_each_unsigned_question",
        f"{HTTP}no_garbage_on_the_wire_is_more_than_a_lost_call",
    ),
    21: (f"{A}021_too_few_file_descriptors", f"{A}021_fewer_calls_at_a_time_and_said_once"),
    22: (
        f"{HTTP}proxies_are_not_for_this_machine",
        "engine/test_proxies.py::test_an_endpoint_is_asked_through_its_proxy",
    ),
    23: (
        "engine/test_admission.py::test_row_023_one_dead_of_three_endpoints",
        f"{LANE}when_all_are_down_a_call_waits_for_the_first_of_them",
        f"{LANE}one_that_is_down_is_left_alone_and_tried_again",
    ),
    # 6B: HTTP status and limits
    24: (
        f"{B}024_the_same_refusal_from_the_start",
        f"{B}024_a_refusal_now_and_then",
        "engine/test_poison.py::test_twenty_refusals_alike_among_the_first_are_our_own_fault",
        f"{CLASSIFY}other_refusals_fail_the_item_at_once",
    ),
    25: (
        f"{CLASSIFY}requests_that_can_never_fit_are_named_as_such",
        f"{HTTP}a_context_that_is_too_small_halves_the_list_of_rubrics",
        f"{HTTP}a_pair_that_fits_nowhere_is_context_too_long",
    ),
    26: (f"{ENGINE}a_refusal_is_asked_again_once", f"{CLASSIFY}content_filters_are_refusals"),
    27: (f"{HTTP}fatal_answers_end_the_run_with_few_more_calls", f"{EVAL}the_key_is_nowhere"),
    28: (f"{HTTP}an_unknown_model_and_a_wrong_path_are_told_apart", f"{ERRORS}an_unknown_model_is_exit_four"),
    29: (
        f"{CLASSIFY}key_quota_model_and_redirects_stop_the_run",
        f"{HTTP}fatal_answers_end_the_run_with_few_more_calls",
        f"{ERRORS}what_the_endpoint_refuses_ends_the_run_with_exit_four",
    ),
    30: (
        f"{ENGINE}a_rate_limit_pauses_every_call",
        f"{ENGINE}rate_limits_are_not_counted_as_tries",
        f"{LIMITER}rejections_halve_it_once_for_all_calls_that_were_under_way",
        f"{HTTP}the_endpoints_limits_are_kept_without_losing_a_call",
    ),
    31: (f"{CLASSIFY}how_long_to_wait_is_read_from_every_spelling",),
    32: (f"{CLASSIFY}no_header_text_breaks_the_classifier", f"{CLASSIFY}how_long_to_wait_is_read_from_every_spelling"),
    33: (f"{CLASSIFY}rate_limits_carry_what_the_endpoint_asks_for",),
    34: (
        "engine/test_rates.py::test_a_rate_that_only_refusals_tell_is_found_and_used",
        f"{LANE}a_rate_limit_without_a_time_still_pauses",
        f"{HTTP}each_fault_changes_nothing_but_the_number_of_calls",
    ),
    35: (
        f"{LANE}a_pause_holds_every_call_and_the_later_deadline_counts",
        f"{LANE}of_all_deadlines_the_latest_counts",
    ),
    36: (
        f"{CLASSIFY}server_trouble_is_tried_again_and_may_have_been_billed",
        f"{HTTP}each_fault_changes_nothing_but_the_number_of_calls",
    ),
    37: (
        f"{B}037_one_poisoned_pair_of_many",
        "engine/test_poison.py::test_the_same_failure_eight_times_while_others_succeed_is_poison",
        "engine/test_poison.py::test_an_outage_gives_nothing_up",
        f"{ENGINE}one_poisoned_question_is_given_up_while_others_go_on",
        f"{EVAL}unscored_pairs_are_named_and_can_be_accepted_or_asked_again",
    ),
    38: (f"{CLASSIFY}other_refusals_fail_the_item_at_once",),
    39: (
        f"{CLASSIFY}an_error_inside_a_200_is_what_its_code_says",
        f"{HTTP}each_fault_changes_nothing_but_the_number_of_calls",
    ),
    40: (f"{B}040_a_gateway_that_replays",),
    41: (
        f"{LIMITER}an_overload_that_collapses_is_answered_by_fewer_calls",
        f"{LIMITER}goodput_is_within_a_tenth_of_the_best_fixed_limit",
        f"{LIMITER}goodput_of_an_endpoint_that_thrashes",
    ),
    42: (
        f"{ERRORS}caps_end_the_run_with_exit_four_and_keep_what_is_paid",
        f"{ENGINE}the_call_cap_is_never_exceeded",
        f"{ENGINE}the_dollar_cap_is_overshot_by_no_more_than_what_is_in_flight",
        f"{HTTP}a_budget_stop_keeps_what_was_paid",
    ),
    # 6C: model output
    43: (f"{ENGINE}an_empty_reply_is_never_an_answer", f"{ENGINE}a_judge_that_never_makes_sense_is_a_parse_error"),
    44: (
        f"{ENGINE}a_truncated_reply_gets_twice_the_room_once",
        f"{ENGINE}a_truncated_reply_is_no_answer_however_it_reads",
    ),
    45: (
        f"{READING}the_verdicts_are_found_wherever_an_honest_judge_puts_them",
        f"{READING}broken_but_whole_json_is_mended_when_asking_again_did_not_help",
    ),
    46: (
        f"{C}046_answers_that_differ_are_ambiguous",
        f"{FUZZ}046_of_many_answers_none_is_guessed",
        f"{READING}several_answers_are_flagged_and_contradictions_too",
    ),
    47: (
        f"{C}047_only_documented_spellings",
        f"{C}047_values_that_are_no_text",
        f"{FUZZ}047_damaged_replies_in_large_numbers",
        f"{READING}any_text_at_all_is_read_or_rejected",
    ),
    48: (f"{MODEL}missing_rubrics_are_asked_again_alone", f"{MODEL}rubrics_that_stay_missing_are_left_out_and_flagged"),
    49: (
        f"{READING}a_row_that_stands_twice_with_a_broken_one_is_missing_and_the_others_stay",
        f"{HTTP}each_fault_changes_nothing_but_the_number_of_calls",
    ),
    50: (f"{C}050_rows_in_any_order",),
    51: ("scoring/test_methods.py::test_delta_cell_by_cell", f"{READING}what_is_no_verdict_is_rejected_with_a_reason"),
    52: (
        "scoring/test_methods.py::test_delta_cell_by_cell",
        f"{MODEL}contradictory_rows_are_flagged_wherever_they_came_from",
    ),
    53: (
        f"{FUZZ}053_forged_answers_are_inert",
        f"{FUZZ}053_judges_that_quote_are_asked_again_and_never_turned_round",
        f"{READING}a_quotation_that_ends_a_row_takes_no_verdict",
        f"{C}053_brackets_decide_where_all_say_the_same",
        f"{MODEL}what_a_judge_quotes_from_a_candidate_never_counts",
        f"{MODEL}an_attack_gains_nothing_over_plain_text_of_its_length",
    ),
    54: (
        f"{READING}lone_surrogates_in_a_reply_can_be_stored",
        f"{MODEL}texts_that_utf8_cannot_hold_are_sent_all_the_same",
    ),
    55: (
        f"{EVAL}an_endpoint_that_answers_as_another_model_is_noted",
        f"{C}055_another_model_is_told_once_or_refused",
        f"{C}055_which_names_are_the_models_own",
    ),
    56: (f"{PARTS}absurd_usage_counts_as_unknown", f"{HTTP}each_fault_changes_nothing_but_the_number_of_calls"),
    57: (
        f"{AUTHOR}at_most_six_rubrics_are_taken",
        f"{AUTHOR}ten_thousand_forged_entries_cost_little",
        "training/test_leaks.py::test_thirteen_words_of_a_response_or_of_the_prompt_are_a_quote",
        "training/test_leaks.py::test_length",
    ),
    58: ("training/test_support.py::test_a_probe_that_is_no_other_response_is_discarded", f"{AUTHOR}a_probe_is_text"),
    # 6D: process, host, storage
    59: (
        f"{KILLS}059_killed_at_random_moments",
        f"{KILLS}059_killed_at_commit_boundaries",
        f"{KILLS}059_a_server_killed_while_clients_ask",
        f"{RESUME}after_kill_nine_a_resumed_run_is_the_run_that_was_never_killed",
        "commands/test_train_kills.py::test_killed_at_stage_after_stage_the_bank_is_that_of_a_run_without_a_stop",
    ),
    60: (f"{RESUME}a_signal_drains_writes_a_partial_run_and_says_how_to_go_on",),
    61: (f"{RESUME}a_second_signal_ends_the_process_at_once", f"{KILLS}061_killed_at_every_rename_of_the_report"),
    62: (
        f"{D}062_a_closed_terminal_is_a_stop_like_any_other",
        f"{RESUME}a_signal_drains_writes_a_partial_run_and_says_how_to_go_on",
    ),
    63: ("commands/test_main.py::test_a_reader_that_leaves_early_is_no_error",),
    64: (f"{D}064_stopped_and_continued",),
    65: (f"{D}065_no_more_memory", f"{KILLS}059_killed_at_random_moments"),
    66: (
        f"{KILLS}066_disk_full_at_the_nth_write",
        f"{ERRORS}a_disk_that_fills_up_is_exit_five_and_a_later_run_completes",
        f"{CACHE}real_mounts_behave_like_the_stand_ins",
        f"{CACHE}a_disk_that_has_room_again_loses_nothing",
    ),
    67: (
        f"{D}067_a_disk_too_small_is_told_before_the_first_call",
        "commands/test_space.py::test_what_the_cache_holds_needs_no_more_room",
        "commands/test_doctor_and_cache.py::test_a_bad_cache_a_full_disk_and_bad_data_are_found",
    ),
    68: (
        f"{KILLS}068_io_errors_of_syncs_opens_and_renames",
        f"{CACHE}a_disk_that_stays_broken_is_a_storage_error_that_says_why",
    ),
    69: (f"{ERRORS}a_read_only_cache_serves_what_it_has", f"{CACHE}real_mounts_behave_like_the_stand_ins"),
    70: (f"{HTTP}offline_opens_no_socket", f"{ERRORS}a_read_only_cache_serves_what_it_has"),
    71: (
        f"{D}071_a_page_full_of_garbage",
        f"{D}071_what_can_be_read_is_saved_into_a_new_file",
        f"{CARE}damaged_pages_cost_the_rows_on_them",
        f"{CARE}the_tree_above_the_rows_is_not_needed",
        f"{CACHE}garbage_in_the_middle_of_the_file_costs_some_rows_and_no_crash",
    ),
    72: (f"{CACHE}a_file_that_is_no_database_is_refused_and_kept", f"{CACHE}an_empty_database_file_is_refused"),
    73: (f"{CACHE}any_flipped_bit_in_a_row_is_noticed", f"{EVAL}damaged_cache_rows_are_asked_again_and_noted"),
    74: (f"{D}074_a_log_cut_at_any_place", f"{PARTS}a_torn_or_foreign_line_costs_only_itself"),
    75: (
        "engine/test_claims.py::test_row_075_four_processes_pay_once_for_each_question",
        "engine/test_claims.py::test_row_075_a_killed_holder_costs_what_it_had_in_flight",
        f"{CACHE}processes_that_write_one_cache_at_once_all_succeed",
        f"{RESUME}two_runs_at_once_share_one_cache",
    ),
    76: (f"{D}076_a_lock_that_stays", f"{CACHE}a_lock_held_by_another_program_delays_and_does_not_lose"),
    77: (
        f"{D}077_a_cache_on_a_network_is_warned_about",
        "commands/test_doctor_and_cache.py::test_a_cache_on_a_network_or_in_memory_is_warned_about",
    ),
    78: (f"{D}078_a_clock_that_jumps", f"{CLASSIFY}how_long_to_wait_is_read_from_every_spelling"),
    79: (
        f"{D}079_a_forked_child",
        "engine/test_claims.py::test_row_079_a_fork_after_opening_is_noticed",
        "engine/test_user_code.py::test_a_child_of_a_fork_that_closes_the_engine_takes_nothing_from_its_parent",
    ),
    80: (
        f"{D}080_another_event_loop",
        "serving/test_serving_pairs.py::test_a_script_without_an_event_loop_can_judge_too",
    ),
    81: (f"{READING}a_megabyte_made_to_be_slow_is_not_slow",),
    82: (f"{LANE}items_are_taken_only_when_a_worker_is_free",),
    83: (
        f"{LANE}calls_cancelled_while_waiting_leave_no_trace",
        f"{ENGINE}cancelled_calls_leak_no_slot",
        "engine/test_user_code.py::test_cancelled_at_any_moment_and_asked_again_nothing_kept_is_paid_twice",
        f"{ENGINE}when_the_caller_is_cancelled_a_joiner_takes_over",
        "engine/test_user_code.py::test_an_interrupt_in_one_call_does_not_hang_those_who_joined_it",
        "engine/test_user_code.py::test_an_engine_that_is_closed_while_it_is_asked_sends_nothing_more",
    ),
    84: (
        f"{LANE}leaving_early_cancels_what_is_left",
        f"{LANE}an_error_in_the_work_reaches_the_consumer_and_ends_the_rest",
    ),
    85: (f"{D}085_a_disk_slower_than_the_network",),
    86: (f"{EVAL}a_second_run_costs_nothing",),
    # 6E: data sets
    87: (
        f"{ERRORS}wrong_data_is_named_by_file_row_and_column",
        f"{LOADING}a_missing_column_lists_what_there_is_and_the_nearest",
    ),
    88: (
        f"{LOADING}whatever_is_no_text_is_invalid_and_counted",
        f"{LOADING}lenient_loading_skips_and_counts_invalid_rows",
    ),
    89: (f"{LOADING}empty_responses_are_legal", f"{LOADING}an_invalid_row_is_named_with_column_expected_and_found"),
    90: (
        f"{LOADING}identical_responses_are_kept_and_noted",
        "commands/test_train_commands.py::test_pairs_without_two_different_responses_are_refused",
    ),
    91: (
        f"{LOADING}the_same_row_twice_gives_two_pairs_with_ids_of_their_own",
        f"{LOADING}one_id_with_two_contents_is_numbered_and_told",
    ),
    92: (
        f"{TABLES}characters_that_cannot_be_sent_are_replaced_and_counted",
        f"{TABLES}any_text_survives_but_for_what_cannot_be_sent",
        f"{TABLES}a_byte_order_mark_is_dropped",
    ),
    93: (f"{TABLES}fields_of_ten_megabytes_are_read", f"{HTTP}a_pair_that_fits_nowhere_is_context_too_long"),
    94: (
        f"{LOADING}nothing_usable_is_an_error_that_says_why",
        f"{LOADING}one_row_is_enough",
        "evaluation/test_metrics.py::test_nothing_judged_gives_no_number",
    ),
    95: (
        f"{LOADING}other_counts_are_noted_for_a_users_file_and_refused_for_an_official_one",
        f"{LOADING}labels_that_fall_otherwise_than_officially_are_noted",
    ),
    96: (
        f"{TABLES}a_gzip_bomb_stops_at_the_cap",
        f"{TABLES}truncated_gzip_files_are_refused_in_one_line",
        f"{TABLES}truncated_and_false_parquet_files_are_refused",
        f"{TABLES}a_parquet_header_that_promises_too_much_is_refused",
        f"{G}096_row_097_row_098_hostile_data_is_refused",
        "reliability/test_fuzz_files.py::test_some_damaged_files",
    ),
    97: (f"{G}096_row_097_row_098_hostile_data_is_refused",),
    98: (f"{G}098_scripts_beside_data_are_never_run", f"{G}096_row_097_row_098_hostile_data_is_refused"),
    99: (f"{LOADING}ids_are_data_and_touch_no_file",),
    100: (
        "training/test_decontaminate.py::test_a_run_of_thirteen_words_is_found_in_prompt_and_responses",
        "commands/test_train_commands.py::test_overlap_with_a_benchmark_is_left_out_and_named",
    ),
    # 6F: bank, features, fit
    101: (f"{BANK}a_bank_with_no_rubrics_says_what_to_do",),
    102: (
        f"{FIT}one_rubric_works",
        "commands/test_train_commands.py::test_one_rubric_and_prompts_without_a_word_give_a_bank_that_works",
    ),
    103: ("training/test_rounds.py::test_a_bank_is_never_left_empty",),
    104: (
        "training/test_merge.py::test_near_identical_texts_become_one_and_keep_what_they_knew",
        "vocabulary/test_similarity.py::test_similarity_is_symmetric_and_within_bounds",
        "training/test_leaks.py::test_length",
    ),
    105: (
        "fit/test_fit_tfidf.py::test_texts_without_words_give_an_empty_vocabulary",
        "fit/test_fit_selector.py::test_an_unseen_prompt_gets_alpha_from_the_biases",
    ),
    106: (
        f"{FIT}a_non_finite_step_is_undone_at_half_the_rate",
        f"{FIT}numbers_that_stay_bad_end_the_fit_with_the_step",
    ),
    107: (
        f"{FIT}ties_are_refused_and_cost_log_two",
        "commands/test_train_commands.py::test_a_store_with_nothing_to_learn_from_ends_with_eight",
    ),
    108: (
        "fit/test_fit_arrays.py::test_a_bad_z_is_refused_with_its_value",
        "fit/test_fit_arrays.py::test_a_missing_entry_is_not_zero",
    ),
    109: (
        "fit/test_fit_sparsemax.py::test_on_the_simplex_at_any_scale",
        "fit/test_fit_sparsemax.py::test_equals_the_slow_reference",
    ),
    110: (f"{FIT}one_sided_pairs_converge_and_are_told", f"{FIT}a_collapsed_bank_is_told"),
    111: (
        "training/test_support.py::test_support_rows_are_the_hardest_first_with_ties_in_row_order_and_at_most_so_many",
    ),
    112: (f"{FIT}a_killed_fit_resumes_to_the_same_bytes",),
    113: (f"{FIT}slices_give_the_same_fit", f"{FIT}memory_that_is_never_enough_is_exit_8"),
    114: (f"{FIT}an_interrupted_write_leaves_the_old_checkpoint",),
    # 6G: malicious or damaged artefacts, leaks
    115: (
        f"{G}115_row_117_hostile_banks_are_refused",
        f"{G}115_files_beside_a_bank_are_not_opened",
        f"{G}115_no_unpickler_is_used_to_judge",
        f"{STORE}pickles_in_an_npz_are_not_opened",
        "test_layers.py::test_nothing_that_runs_code_is_used_to_store_data",
    ),
    116: (
        f"{G}116_hostile_cache_rows_are_asked_again",
        f"{G}116_hostile_cache_settings_are_refused",
        f"{CACHE}rows_that_name_files_neither_read_nor_delete_them",
    ),
    117: (
        f"{G}115_row_117_hostile_banks_are_refused",
        f"{STORE}hostile_npz_files_are_refused",
        f"{BANK}hostile_selectors_are_refused",
    ),
    118: (
        f"{BANK}parts_of_another_fit_are_refused_with_both_digests",
        f"{BANK}every_flipped_byte_is_noticed",
        f"{BANK}arrays_that_are_not_finite_are_refused",
    ),
    119: (
        f"{CACHE}a_folder_that_others_may_write_to_is_refused",
        f"{CACHE}a_symbolic_link_a_file_and_a_foreign_owner_are_refused",
        f"{CACHE}row_119_links_inside_a_cache_are_not_followed",
    ),
    120: (
        "reliability/test_sentinel.py::test_row_120_the_key_is_nowhere",
        "reliability/test_sentinel.py::test_row_120_the_key_is_in_no_traceback",
    ),
    121: (f"{PARTS}base_urls_with_keys_or_without_sense_are_refused",),
    122: (
        "evaluation/test_report_browser.py::test_attacks_in_every_field_are_inert",
        "evaluation/test_report.py::test_hostile_texts_add_no_element_and_no_attribute",
    ),
    123: (
        "evaluation/test_tables.py::test_csv_formulas_are_guarded",
        "evaluation/test_tables.py::test_csv_survives_hostile_names_and_round_trips",
        "evaluation/test_safetext.py::test_nothing_that_steers_survives",
    ),
    124: (f"{ERRORS}a_wrong_config_is_named", "judges/test_profiles.py::test_a_wrong_profile_is_named"),
    125: (
        f"{READING}a_megabyte_made_to_be_slow_is_not_slow",
        "evaluation/test_safetext.py::test_a_megabyte_of_unfinished_sequences_is_stripped_in_linear_time",
        "server/test_server_shapes.py::test_responses_made_to_be_slow_are_read_in_linear_time",
    ),
}

NOT_MET: dict[int, str] = {
    67: "svr eval estimates the space that it needs; a training does not",
    71: "a cache is not read through whenever it opens after a kill; svr cache verify and repair do that when told",
    77: "no cache mode for network file systems; a run and svr doctor warn",
    81: "replies are read on the event loop: 8 MiB take 30 ms, and a thread would hold Python's lock as long",
}
