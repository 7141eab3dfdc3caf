"""Which tests carry a marker; ``make quick`` leaves all of them out.

A test is known by its name, wherever its file stands. One that takes more than .6 seconds belongs
into ``SLOW``; ``pytest --durations=20`` shows them.
"""

FIXTURES = {"chromium": "browser", "browser": "browser"}
FILES = {
    "test_cluster.py": "cluster",
    "test_notebooks.py": "notebooks",
    "test_devices.py": "slow",
    "test_examples.py": "slow",
    "test_molecule_gallery.py": "slow",
    "test_molecules.py": "slow",
    "test_readme.py": "slow",
    "test_results.py": "slow",
    "test_resume.py": "slow",
}
QUICK_EXPLAINERS = {"grad", "hpme", "pgexplainer"}
"""Of tests that run for every explainer, those of all others are slow."""
SLOW = {
    # apply, bench, commands
    "test_a_killed_run_goes_on_without_a_lost_or_doubled_row",
    "test_a_killed_server_starts_again_and_ctrl_c_ends_it",
    "test_a_picture_needs_the_explanations_again",
    "test_a_real_kill_in_the_middle",
    "test_a_run_and_nothing_left_to_do",
    "test_another_model_or_call_is_another_run",
    "test_answers_stand_on_a_page",
    "test_choice_prefers_the_ground_truth_to_its_complement",
    "test_class_and_probabilities_are_the_models_whatever_was_asked",
    "test_ctrl_c_while_workers_start_is_told_in_a_line",
    "test_demo",
    "test_donors_give_regions",
    "test_every_row_of_an_odd_table_is_explained_or_listed",
    "test_files_that_were_half_written_are_known_as_ours",
    "test_published_molecules_run_like_any_dataset",
    "test_quiet_answers_print_nothing",
    "test_run_prints_a_table_and_writes_the_result",
    "test_shift_is_of_the_mixup_graphs_with_companions",
    "test_two_workers_give_the_same_rows",
    # data, models
    "test_biases_make_the_difference_on_constant_features",
    "test_both_motifs_make_class_one",
    "test_count_is_the_number_of_cycles",
    "test_documented_size",
    "test_explainers_metrics_and_the_page_take_it_and_a_store",
    "test_or_grid_has_a_third_of_each_kind",
    "test_same_seed_same_weights_and_global_random_state_untouched",
    "test_second_call_reads_the_cache",
    "test_spmotif_bases",
    "test_training_learns_links_repeats_itself_and_is_cached",
    "test_training_stops_early_and_keeps_the_best_weights",
    # explainers
    "test_attributions_add_up_to_the_difference_of_the_outputs",
    "test_changed_molecules_are_molecules",
    "test_default_run_is_the_same_alone_as_in_a_batch",
    "test_directed_graphs_of_any_size",
    "test_equals_a_slow_run_graph_by_graph",
    "test_every_explainer_explains_links_and_non_links",
    "test_exact_values_by_definition",
    "test_exception_while_fitting",
    "test_finds_the_best_small_connected_subgraph",
    "test_fit_takes_a_dataset_a_list_a_batch_or_a_loader",
    "test_fit_to_several_classes_and_ask_about_each",
    "test_found_in_this_process_and_in_others",
    "test_graphs_without_edges",
    "test_identical_masks_in_a_fresh_process",
    "test_masks_by_type",
    "test_model_config_without_an_explainer",
    "test_one_explanation_per_user",
    "test_one_valid_mixup_per_graph",
    "test_pyg_explainer",
    "test_pyg_explainer_of_users",
    "test_quality_alternatives_and_effects_of_users",
    "test_regression",
    "test_same_seed_same_mask_bit_by_bit",
    "test_settings",
    "test_several_edits_where_one_is_not_enough",
    "test_the_answer_changes_and_no_node_can_be_spared",
    "test_the_copy_learns_the_labels_and_the_model_stays",
    "test_undirected_graphs_of_any_size",
    "test_valid_symmetric_and_the_same_alone_as_in_a_batch",
    # page, paper, viz
    "test_ablation_and_curves",
    "test_command_writes_and_checks",
    "test_counterfactuals_of_other_graphs_are_refused",
    "test_every_suite_has_a_page",
    "test_every_type_has_its_colour_and_is_named",
    "test_everything_that_is_named_exists",
    "test_exhibits_become_pictures",
    "test_files_of_an_earlier_report_go_others_stay",
    "test_from_results_to_settings",
    "test_main_table_in_all_formats",
    "test_one_html_page_that_needs_nothing_else",
    "test_only_suites_that_were_run",
    "test_png_and_svg_by_suffix",
    "test_same_bytes_every_time",
    "test_same_input_same_bytes",
    "test_same_results_same_bytes",
    # serve
    "test_a_graph_as_json",
    "test_old_answers_go",
    "test_ten_at_once_are_answered_as_one_by_one",
    # robustness, documentation
    "test_forged_files",
    "test_how_edges_are_weighted_does_not_depend_on_units",
    "test_graphs_too_large_to_compare_are_refused",
    "test_tensors_of_another_type_are_refused",
    "test_a_lock_left_by_a_killed_process_is_free",
    "test_caches_are_emptied_for_us_and_restored_exactly",
    "test_commands",
    "test_help_comes_at_once",
    "test_masks_follow_the_nodes",
    "test_nothing_heavy_is_loaded_for_help_lists_and_wrong_usage",
    "test_python",
    "test_quoted_messages_exist",
    "test_the_site_builds_without_warnings_and_needs_no_network",
    "test_the_wheel_has_the_package_and_nothing_else",
}


def markers_of(item):
    """Markers of a collected test."""
    name, _, case = item.name.partition("[")
    if item.path.name in FILES:
        yield FILES[item.path.name]
    yield from {marker for fixture, marker in FIXTURES.items() if fixture in item.fixturenames}
    explainer = item.callspec.params.get("slug") if case else None
    if name in SLOW or explainer not in QUICK_EXPLAINERS | {None}:
        yield "slow"
