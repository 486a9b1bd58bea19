lathe_tests(cost_tests core view ast graph lower search TESTS
  unit/cost_test unit/registers_test unit/parallelism_test unit/profile_test unit/traffic_test)
lathe_tests(beam_tests core view ast graph lower search TESTS
  unit/suggesters_test unit/join_test unit/prefetch_test unit/joint_search_test unit/beam_test unit/resumed_search_test
  property/beam_test)
lathe_tests(store_tests core view ast graph lower search TESTS
  unit/database_test unit/log_test error/database_errors_test error/log_errors_test)
lathe_tests(suggest_tests TESTS
  unit/fuse_test unit/fuse_loops_test unit/one_pass_test unit/store_first_test unit/tensorise_test unit/carry_test unit/region_test)
